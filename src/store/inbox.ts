import type { Reader, Tx } from './schema.ts';

export type InboxOutcome = 'started' | 'joined' | 'answered' | 'decided' | 'command' | 'changed' | 'refused' | 'ignored';
export type InboxRow = { readonly platform: string; readonly app: string; readonly messageKey: string; readonly at: number };

/** Claim and payload in one insert: false when this message was taken before. */
export async function claimMessage(tx: Tx, row: InboxRow): Promise<boolean> {
  const result = await tx
    .insertInto('inbox')
    .values({ platform: row.platform, app: row.app, message_key: row.messageKey, received_at: row.at, outcome: 'ignored', reason: null, run_id: null, raw: null })
    .onConflict((oc) => oc.columns(['platform', 'app', 'message_key']).doNothing())
    .executeTakeFirst();
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

/** `raw` only for messages that start or join a run. */
export async function settleMessage(tx: Tx, row: InboxRow, settled: { outcome: InboxOutcome; reason?: string; runId?: string; raw?: unknown }): Promise<void> {
  await tx
    .updateTable('inbox')
    .set({ outcome: settled.outcome, reason: settled.reason ?? null, run_id: settled.runId ?? null, raw: settled.raw === undefined ? null : JSON.stringify(settled.raw) })
    .where('platform', '=', row.platform)
    .where('app', '=', row.app)
    .where('message_key', '=', row.messageKey)
    .execute();
}

export async function readInbox(db: Reader, platform: string, app: string, messageKey: string): Promise<{ outcome: string; reason: string | null; run_id: string | null } | undefined> {
  return db.selectFrom('inbox').select(['outcome', 'reason', 'run_id']).where('platform', '=', platform).where('app', '=', app).where('message_key', '=', messageKey).executeTakeFirst();
}

/** Keys are kept 90 days, the raw payload 7; at most `limit` rows a call, so that nothing waits long. */
export async function cleanInbox(tx: Tx, now: number, limit = 500): Promise<number> {
  const day = 86_400_000;
  const old = tx
    .selectFrom('inbox')
    .select('message_key')
    .where('received_at', '<', now - 90 * day)
    .limit(limit);
  const removed = await tx
    .deleteFrom('inbox')
    .where('message_key', 'in', old)
    .where('received_at', '<', now - 90 * day)
    .executeTakeFirst();
  const raw = tx
    .selectFrom('inbox')
    .select('message_key')
    .where('received_at', '<', now - 7 * day)
    .where('raw', 'is not', null)
    .limit(limit);
  const blanked = await tx
    .updateTable('inbox')
    .set({ raw: null })
    .where('message_key', 'in', raw)
    .where('received_at', '<', now - 7 * day)
    .executeTakeFirst();
  return Number(removed.numDeletedRows + blanked.numUpdatedRows);
}
