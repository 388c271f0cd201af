/** Open questions to people, as rows that outlive the process. */

import type { Place } from '../adapters/types.ts';
import type { Interaction, Outcome } from '../agent/types.ts';
import type { InteractionTable, Reader, Tx } from './schema.ts';

export type InteractionRow = InteractionTable;

const hour = 3_600_000;

export async function insertInteraction(tx: Tx, row: { interaction: Interaction; runId: string; conversationId: string; place: Place; at: number }): Promise<void> {
  const { interaction, place } = row;
  await tx
    .insertInto('interactions')
    .values({
      id: interaction.id,
      run_id: row.runId,
      conversation_id: row.conversationId,
      platform: place.platform,
      tenant: place.tenant,
      call_id: interaction.callId ?? null,
      kind: interaction.kind,
      code: interaction.code,
      body: JSON.stringify(interaction),
      sha: interaction.sha,
      may_answer: JSON.stringify(interaction.mayAnswer),
      needed: interaction.needed,
      expires_in_ms: interaction.expiresInMs,
      created_at: row.at,
      delivered_at: null,
      remind_at: null,
      expires_at: null,
      resolved_at: null,
      outcome: null,
      answered_by: null,
    })
    .execute();
}

/** The clock of a question starts when people can see it. A reminder comes once, half-way, for those open an hour or longer. */
export async function markDelivered(tx: Tx, id: string, at: number): Promise<void> {
  const row = await readInteraction(tx, id);
  if (!row || row.delivered_at !== null || row.resolved_at !== null) return;
  const remindAt = row.expires_in_ms >= hour ? at + Math.floor(row.expires_in_ms / 2) : null;
  await tx
    .updateTable('interactions')
    .set({ delivered_at: at, expires_at: at + row.expires_in_ms, remind_at: remindAt })
    .where('id', '=', id)
    .execute();
}

export async function resolveInteraction(tx: Tx, id: string, outcome: Outcome, at: number): Promise<void> {
  await tx
    .updateTable('interactions')
    .set({ resolved_at: at, outcome: JSON.stringify(outcome), answered_by: outcome.by?.id ?? null, remind_at: null })
    .where('id', '=', id)
    .where('resolved_at', 'is', null)
    .execute();
}

/** False when it was reminded before, or resolved meanwhile. */
export async function reminded(tx: Tx, id: string): Promise<boolean> {
  const result = await tx.updateTable('interactions').set({ remind_at: null }).where('id', '=', id).where('remind_at', 'is not', null).executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function readInteraction(db: Reader, id: string): Promise<InteractionRow | undefined> {
  return db.selectFrom('interactions').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function openInteractions(db: Reader, conversationId: string): Promise<InteractionRow[]> {
  return db.selectFrom('interactions').selectAll().where('conversation_id', '=', conversationId).where('resolved_at', 'is', null).orderBy('created_at').execute();
}

/** The newest interaction with this code, an open one first. */
export async function interactionByCode(db: Reader, tenant: { platform: string; tenant: string }, code: string): Promise<InteractionRow | undefined> {
  const rows = await db.selectFrom('interactions').selectAll().where('platform', '=', tenant.platform).where('tenant', '=', tenant.tenant).where('code', '=', code).orderBy('created_at', 'desc').limit(10).execute();
  return rows.find((row) => row.resolved_at === null) ?? rows[0];
}

export async function dueInteractions(db: Reader, now: number, limit = 100): Promise<{ expired: InteractionRow[]; remind: InteractionRow[] }> {
  const open = () => db.selectFrom('interactions').selectAll().where('resolved_at', 'is', null).limit(limit);
  const expired = await open().where('expires_at', '<=', now).orderBy('expires_at').execute();
  const remind = await open().where('remind_at', '<=', now).orderBy('remind_at').execute();
  return { expired, remind: remind.filter((row) => !expired.some((e) => e.id === row.id)) };
}

/** Open ones whose message was given up: nobody can see them. `error` says why. */
export async function unseenInteractions(db: Reader, limit = 100): Promise<(InteractionRow & { error: string | null })[]> {
  return db
    .selectFrom('interactions')
    .innerJoin('outbox', 'outbox.interaction_id', 'interactions.id')
    .selectAll('interactions')
    .select('outbox.error')
    .where('interactions.resolved_at', 'is', null)
    .where('interactions.delivered_at', 'is', null)
    .where('outbox.kind', '=', 'question')
    .where('outbox.state', 'in', ['failed', 'unknown'])
    .limit(limit)
    .execute();
}

/** When the ticker has to look again; undefined when nothing is due at any time. */
export async function nextDueAt(db: Reader): Promise<number | undefined> {
  const row = await db
    .selectFrom('interactions')
    .select((eb) => [eb.fn.min('expires_at').as('expires'), eb.fn.min('remind_at').as('remind')])
    .where('resolved_at', 'is', null)
    .executeTakeFirst();
  const times = [row?.expires, row?.remind].filter((t): t is number => t !== null && t !== undefined);
  return times.length > 0 ? Math.min(...times) : undefined;
}

export async function listInteractions(db: Reader, options: { limit: number; openOnly: boolean }): Promise<InteractionRow[]> {
  return db
    .selectFrom('interactions')
    .selectAll()
    .$if(options.openOnly, (q) => q.where('resolved_at', 'is', null))
    .orderBy('created_at', 'desc')
    .limit(options.limit)
    .execute();
}
