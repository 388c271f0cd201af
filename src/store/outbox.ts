/** Messages to people, written with the step that caused them and delivered afterwards, in order. */
import { sql } from 'kysely';
import type { LiveHandle, OutboundMessage, OutboxDraft, OutboxKind, Place } from '../adapters/types.ts';
import { findOrCreateConversation, markPosted, setThread, threadOfPost } from './conversations.ts';
import type { LiveTable, OutboxTable, Reader, Tx } from './schema.ts';

const priorities: Record<OutboxKind, number> = { question: 0, receipt: 0, notice: 1, answer: 2, group_message: 2, report: 3 };

export type OutboxRow = Omit<OutboxTable, 'id'> & { readonly id: number };
export type SentPart = { readonly key: string; readonly platformMessageId: string };

/** `conversationId` undefined: the message opens a thread of its own (a post to another group). A key that exists already is left as it is. */
export async function insertOutbox(tx: Tx, draft: OutboxDraft, conversationId: string | undefined, at: number): Promise<void> {
  const { message } = draft;
  const conversation = conversationId ?? (await findOrCreateConversation(tx, { ...message.place, thread: threadOfPost(message.key) }, at)).id;
  await tx
    .insertInto('outbox')
    .values({
      key: message.key,
      platform: message.place.platform,
      tenant: message.place.tenant,
      channel: message.place.channel,
      conversation_id: conversation,
      run_id: draft.runId ?? null,
      interaction_id: draft.interactionId ?? null,
      kind: draft.kind,
      priority: priorities[draft.kind],
      level: draft.level ?? 0,
      body: JSON.stringify(message),
      replaces_key: message.replacesKey ?? null,
      state: 'due',
      attempts: 0,
      repeats: 0,
      attempt_at: null,
      next_attempt_at: at,
      owner: null,
      lease_until: null,
      parts: '[]',
      error: null,
      created_at: at,
      settled_at: null,
    })
    .onConflict((oc) => oc.column('key').doNothing())
    .execute();
}

/** The oldest unsettled row of each conversation that is due now. */
export async function dueHeads(db: Reader, now: number, limit: number): Promise<OutboxRow[]> {
  const { rows } = await sql<OutboxRow>`select * from outbox o where o.state = 'due' and o.next_attempt_at <= ${now} and (o.lease_until is null or o.lease_until <= ${now})
    and not exists (select 1 from outbox e where e.state = 'due' and e.conversation_id = o.conversation_id and e.id < o.id)
    order by o.priority, o.id limit ${limit}`.execute(db);
  return rows;
}

/** When the first row of any conversation becomes due, or the process that has it counts as gone; undefined when none waits. */
export async function nextAttemptAt(db: Reader): Promise<number | undefined> {
  const { rows } = await sql<{ at: number | null }>`select min(case when o.lease_until > o.next_attempt_at then o.lease_until else o.next_attempt_at end) as at from outbox o where o.state = 'due'
    and not exists (select 1 from outbox e where e.state = 'due' and e.conversation_id = o.conversation_id and e.id < o.id)`.execute(db);
  return rows[0]?.at ?? undefined;
}

export async function readOutbox(db: Reader, key: string): Promise<OutboxRow | undefined> {
  return db.selectFrom('outbox').selectAll().where('key', '=', key).executeTakeFirst() as Promise<OutboxRow | undefined>;
}

export async function outboxOfInteraction(db: Reader, interactionId: string): Promise<OutboxRow | undefined> {
  return db.selectFrom('outbox').selectAll().where('interaction_id', '=', interactionId).where('kind', '=', 'question').orderBy('id', 'desc').executeTakeFirst() as Promise<OutboxRow | undefined>;
}

/** Commits the attempt before the platform is called; one after an attempt without an outcome may be a repeat. False when another process has the row, or it is settled. */
export async function beginAttempt(tx: Tx, row: OutboxRow, claim: { owner: string; now: number; leaseMs: number }): Promise<boolean> {
  const result = await tx
    .updateTable('outbox')
    .set({ attempts: row.attempts + 1, repeats: row.repeats + (row.attempt_at === null ? 0 : 1), attempt_at: claim.now, owner: claim.owner, lease_until: claim.now + claim.leaseMs })
    .where('id', '=', row.id)
    .where('state', '=', 'due')
    .where('attempts', '=', row.attempts)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** A part has arrived; the next one is not sent before this is stored. */
export async function partSent(tx: Tx, row: OutboxRow, parts: readonly SentPart[], place: Place): Promise<void> {
  await tx
    .updateTable('outbox')
    .set({ parts: JSON.stringify(parts), repeats: 0 })
    .where('id', '=', row.id)
    .execute();
  const last = parts.at(-1);
  if (!last) return;
  await tx
    .insertInto('posts')
    .values({ platform: place.platform, tenant: place.tenant, channel: place.channel, message_id: last.platformMessageId, outbox_id: row.id, conversation_id: row.conversation_id })
    .onConflict((oc) => oc.doNothing())
    .execute();
  if (parts.length === 1 && place.thread === '') {
    await setThread(tx, row.conversation_id, last.platformMessageId);
  }
}

export async function settleOutbox(tx: Tx, row: OutboxRow, settled: { state: 'sent' | 'failed' | 'withdrawn' | 'unknown'; at: number; error?: string }): Promise<void> {
  await tx
    .updateTable('outbox')
    .set({ state: settled.state, settled_at: settled.at, attempt_at: null, owner: null, lease_until: null, error: settled.error ?? null })
    .where('id', '=', row.id)
    .where('state', '=', 'due')
    .execute();
  if (settled.state === 'sent') await markPosted(tx, row.conversation_id, settled.at);
}

/** Nothing was posted; try again at `at`. The attempt is over, so nothing is ambiguous. */
export async function postponeOutbox(tx: Tx, row: OutboxRow, next: { at: number; error: string; ambiguous: boolean }): Promise<void> {
  await tx
    .updateTable('outbox')
    .set({ next_attempt_at: next.at, error: next.error, owner: null, lease_until: null, ...(next.ambiguous ? {} : { attempt_at: null }) })
    .where('id', '=', row.id)
    .where('state', '=', 'due')
    .execute();
}

export async function replaceBody(tx: Tx, row: OutboxRow, message: OutboundMessage): Promise<void> {
  await tx
    .updateTable('outbox')
    .set({ body: JSON.stringify(message) })
    .where('id', '=', row.id)
    .where('state', '=', 'due')
    .execute();
}

/** Takes back rows of these kinds that a run has not begun to send. */
export async function withdrawUnsent(tx: Tx, runId: string, kinds: readonly OutboxKind[], at: number): Promise<void> {
  await tx.updateTable('outbox').set({ state: 'withdrawn', settled_at: at }).where('run_id', '=', runId).where('state', '=', 'due').where('attempt_at', 'is', null).where('parts', '=', '[]').where('kind', 'in', kinds).execute();
}

/** After a start on a database that only one process uses: rows that another process held are nobody's. */
export async function freeOutbox(tx: Tx): Promise<void> {
  await tx.updateTable('outbox').set({ owner: null, lease_until: null }).where('state', '=', 'due').where('owner', 'is not', null).execute();
}

export type Post = { readonly conversation_id: string; readonly outbox_id: number };

/** The post of ours with this platform message id. */
export async function findPost(db: Reader, place: Pick<Place, 'platform' | 'tenant' | 'channel'>, messageId: string): Promise<Post | undefined> {
  return db.selectFrom('posts').select(['conversation_id', 'outbox_id']).where('platform', '=', place.platform).where('tenant', '=', place.tenant).where('channel', '=', place.channel).where('message_id', '=', messageId).executeTakeFirst();
}

// ---------------------------------------------------------------- live bubbles

/** The intent, before the platform is asked for a bubble. */
export async function openLive(tx: Tx, live: { runId: string; conversationId: string; place: Place }): Promise<void> {
  await tx
    .insertInto('live')
    .values({ run_id: live.runId, conversation_id: live.conversationId, platform: live.place.platform, tenant: live.place.tenant, place: JSON.stringify(live.place), handle: null })
    .onConflict((oc) => oc.column('run_id').doNothing())
    .execute();
}

export async function setLive(tx: Tx, runId: string, handle: LiveHandle): Promise<void> {
  await tx
    .updateTable('live')
    .set({ handle: JSON.stringify(handle) })
    .where('run_id', '=', runId)
    .execute();
}

export async function readLive(db: Reader, runId: string): Promise<LiveTable | undefined> {
  return db.selectFrom('live').selectAll().where('run_id', '=', runId).executeTakeFirst();
}

export async function closeLive(tx: Tx, runId: string): Promise<void> {
  await tx.deleteFrom('live').where('run_id', '=', runId).execute();
}

/** Bubbles whose run is not at work: ended or suspended. */
export async function staleLive(db: Reader): Promise<LiveTable[]> {
  return db.selectFrom('live').selectAll('live').innerJoin('runs', 'runs.id', 'live.run_id').where('runs.status', 'not in', ['running', 'queued']).execute();
}
