/** Runs as rows: lanes, positions, leases. The steps decide; this is their projection. */
import { sql } from 'kysely';
import type { RunStatus } from '../agent/types.ts';
import { chainStart } from './chain.ts';
import type { Reader, RunTable, Tx } from './schema.ts';
import { isUniqueViolation, type Store } from './store.ts';

export type RunRow = Omit<RunTable, 'position'> & { position: number };
export type NewRun = { readonly id: string; readonly conversationId: string; readonly lane: string; readonly triggerKind: string; readonly messageKey: string | null; readonly asker: string; readonly at: number };

const activeStatuses: RunStatus[] = ['queued', 'running', 'suspended'];

/** Queued behind everything in its lane. */
export async function insertRun(tx: Tx, run: NewRun, dialect: Store['dialect']): Promise<void> {
  // Two inserts into one lane could commit in the opposite order of their positions; PostgreSQL must be told to wait.
  if (dialect === 'postgres') await sql`select pg_advisory_xact_lock(hashtext(${run.lane}))`.execute(tx);
  await tx
    .insertInto('runs')
    .values({
      id: run.id,
      conversation_id: run.conversationId,
      lane: run.lane,
      status: 'queued',
      version: 0,
      head: chainStart,
      owner: null,
      lease_until: null,
      recoveries: 0,
      trigger_kind: run.triggerKind,
      message_key: run.messageKey,
      asker: run.asker,
      input_tokens: 0,
      output_tokens: 0,
      delivery: null,
      created_at: run.at,
      started_at: null,
      ended_at: null,
    })
    .execute();
}

export async function readRun(db: Reader, id: string): Promise<RunRow | undefined> {
  return db.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Runs of a conversation that have not ended, oldest first. */
export async function activeRuns(db: Reader, conversationId: string): Promise<RunRow[]> {
  return db.selectFrom('runs').selectAll().where('conversation_id', '=', conversationId).where(sql<boolean>`status in ('queued', 'running', 'suspended')`).orderBy('position').execute();
}

export async function runOfMessage(db: Reader, messageKey: string): Promise<RunRow | undefined> {
  return db.selectFrom('runs').selectAll().where('message_key', '=', messageKey).orderBy('position', 'desc').executeTakeFirst();
}

/** Runs of a conversation before this position, newest first. */
export async function earlierRuns(db: Reader, conversationId: string, position: number, limit: number): Promise<RunRow[]> {
  return db.selectFrom('runs').selectAll().where('conversation_id', '=', conversationId).where('position', '<', position).orderBy('position', 'desc').limit(limit).execute();
}

export async function listRuns(db: Reader, options: { limit: number; before?: number }): Promise<RunRow[]> {
  return db
    .selectFrom('runs')
    .selectAll()
    .$if(options.before !== undefined, (q) => q.where('position', '<', options.before ?? 0))
    .orderBy('position', 'desc')
    .limit(options.limit)
    .execute();
}

export type Claim = { readonly owner: string; readonly now: number; readonly leaseMs: number; readonly limit: number };

/** Takes queued runs whose lane is free, oldest first; each at most once over all processes. */
export async function claimRuns(store: Store, claim: Claim): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`select r.id from runs r where r.status = 'queued' and not exists (
      select 1 from runs x where x.lane = r.lane and x.status = 'running'
    ) and not exists (
      select 1 from runs x where x.lane = r.lane and x.status = 'queued' and x.position < r.position
    ) order by r.position limit ${claim.limit}`.execute(store.db);
  const claimed: string[] = [];
  if (rows.length === 0) return claimed;
  if (store.dialect === 'sqlite') {
    await store.transact(async (tx) => {
      for (const { id } of rows) if (await claimOne(tx, id, claim)) claimed.push(id);
    });
    return claimed;
  }
  // One transaction each: where another process was faster, the unique index refuses and the transaction is lost.
  for (const { id } of rows) {
    try {
      if (await store.transact((tx) => claimOne(tx, id, claim))) claimed.push(id);
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
    }
  }
  return claimed;
}

async function claimOne(tx: Tx, id: string, claim: Claim): Promise<boolean> {
  const result = await sql`update runs set status = 'running', owner = ${claim.owner}, lease_until = ${claim.now + claim.leaseMs}, started_at = coalesce(started_at, ${claim.now})
    where id = ${id} and status = 'queued'
      and not exists (select 1 from runs x where x.lane = runs.lane and x.status = 'running')
      and not exists (select 1 from runs x where x.lane = runs.lane and x.status = 'queued' and x.position < runs.position)`.execute(tx);
  return (result.numAffectedRows ?? 0n) === 1n;
}

/** After the append that made it so. A run that left `running` has no owner. */
export async function setStatus(tx: Tx, id: string, change: { status: RunStatus; input_tokens: number; output_tokens: number; at: number }): Promise<void> {
  const ended = !activeStatuses.includes(change.status);
  await tx
    .updateTable('runs')
    .set({
      status: change.status,
      input_tokens: change.input_tokens,
      output_tokens: change.output_tokens,
      ...(change.status === 'running' ? {} : { owner: null, lease_until: null }),
      ...(ended ? { ended_at: change.at } : {}),
    })
    .where('id', '=', id)
    .execute();
}

/** Puts a suspended run back to its old position. False when it is not suspended. */
export async function requeue(tx: Tx, id: string): Promise<boolean> {
  const result = await tx.updateTable('runs').set({ status: 'queued' }).where('id', '=', id).where('status', '=', 'suspended').executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** Hands a run back unfinished: a planned stop, so nothing counts as a crash. */
export async function releaseRun(tx: Tx, id: string, owner: string): Promise<void> {
  await tx.updateTable('runs').set({ status: 'queued', owner: null, lease_until: null }).where('id', '=', id).where('owner', '=', owner).where('status', '=', 'running').execute();
}

/** Runs whose driver is gone go back to their position, one recovery more: those of every other owner, or those whose lease ran out. */
export async function recoverRuns(tx: Tx, gone: { readonly now: number } | { readonly notOwner: string }): Promise<string[]> {
  // One statement: between a look and a change another process could recover the run and claim it.
  const rows = await tx
    .updateTable('runs')
    .set((eb) => ({ status: 'queued', owner: null, lease_until: null, recoveries: eb('recoveries', '+', 1) }))
    .where('status', '=', 'running')
    .where((eb) => ('now' in gone ? eb('lease_until', '<', gone.now) : eb('owner', '!=', gone.notOwner)))
    .returning(['id', 'position'])
    .execute();
  return rows.sort((a, b) => a.position - b.position).map((row) => row.id);
}

/** Extends the leases of this owner; answers which of these runs are still its own and at which version. */
export async function heartbeat(tx: Tx, owner: string, leaseUntil: number): Promise<{ id: string; version: number }[]> {
  await tx.updateTable('runs').set({ lease_until: leaseUntil }).where('owner', '=', owner).where('status', '=', 'running').execute();
  return tx.selectFrom('runs').select(['id', 'version']).where('owner', '=', owner).where('status', '=', 'running').execute();
}

export async function setDelivery(tx: Tx, id: string, delivery: 'delivered' | 'failed' | 'unknown'): Promise<void> {
  await tx.updateTable('runs').set({ delivery }).where('id', '=', id).execute();
}
