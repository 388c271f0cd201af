/** One row for each decision, press, refusal, delivery, configuration change and ended run; no message text. Chained globally. */
import { sql } from 'kysely';
import { chainHash, chainStart } from './chain.ts';
import type { Reader, Tx } from './schema.ts';

export type AuditEntry = {
  readonly at: number;
  readonly kind: 'decision' | 'press' | 'refusal' | 'delivery' | 'delivery_failed' | 'configuration' | 'run_ended' | 'stop' | 'started';
  /** `platform:tenant:id`, or `hermes` for the product itself. */
  readonly actor: string;
  readonly runId?: string | null;
  readonly conversationId?: string | null;
  /** What it is about: an interaction, call, outbox key or setting. */
  readonly subject: string;
  readonly data?: { readonly [key: string]: unknown };
};

/** On PostgreSQL the chain needs its writers one after the other; SQLite has only one. */
export async function writeAudit(tx: Tx, entries: readonly AuditEntry[], dialect: 'sqlite' | 'postgres'): Promise<void> {
  if (entries.length === 0) return;
  if (dialect === 'postgres') await sql`select pg_advisory_xact_lock(hashtext('hermes.audit'))`.execute(tx);
  const last = await tx.selectFrom('audit').select('hash').orderBy('id', 'desc').limit(1).executeTakeFirst();
  let head = last?.hash ?? chainStart;
  for (const entry of entries) {
    const row = { at: entry.at, kind: entry.kind, actor: entry.actor, run_id: entry.runId ?? null, conversation_id: entry.conversationId ?? null, subject: entry.subject, data: JSON.stringify(entry.data ?? {}) };
    head = auditHash(head, row);
    await tx
      .insertInto('audit')
      .values({ ...row, hash: head })
      .execute();
  }
}

type HashedRow = { at: number; kind: string; actor: string; run_id: string | null; conversation_id: string | null; subject: string; data: string };

function auditHash(previous: string, row: HashedRow): string {
  return chainHash(previous, row.at, row.kind, row.actor, row.run_id ?? '', row.conversation_id ?? '', row.subject, row.data);
}

/** The id of the first audit row that does not follow from the one before; undefined when all do. */
export async function brokenAudit(db: Reader): Promise<number | undefined> {
  let head = chainStart;
  for (let after = 0; ; ) {
    const rows = await db.selectFrom('audit').selectAll().where('id', '>', after).orderBy('id').limit(500).execute();
    for (const row of rows) {
      head = auditHash(head, row);
      if (head !== row.hash) return row.id;
      after = row.id;
    }
    if (rows.length < 500) return undefined;
  }
}

export async function listAudit(db: Reader, options: { limit: number; before?: number }): Promise<{ id: number; at: number; kind: string; actor: string; runId: string | null; subject: string; data: unknown }[]> {
  const rows = await db
    .selectFrom('audit')
    .selectAll()
    .$if(options.before !== undefined, (q) => q.where('id', '<', options.before ?? 0))
    .orderBy('id', 'desc')
    .limit(options.limit)
    .execute();
  return rows.map((row) => ({ id: row.id, at: row.at, kind: row.kind, actor: row.actor, runId: row.run_id, subject: row.subject, data: JSON.parse(row.data) }));
}
