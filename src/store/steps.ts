/** The truth: steps are only ever appended, by the one function below. */
import type { RecordedStep, Run, Step } from '../agent/types.ts';
import { RunConflictError } from '../errors.ts';
import { chainHash, chainStart, macOf, newSalt } from './chain.ts';
import type { Reader, StepTable, Tx } from './schema.ts';

/** Raised when a step's JSON changes shape; `readStep` then upgrades old ones. */
const stepVersion = 1;

/** Numbers the steps after `version`; throws RunConflictError when somebody else appended first. */
export async function appendSteps(tx: Tx, run: { id: string; version: number }, steps: readonly Step[], at: number): Promise<{ recorded: RecordedStep[]; head: string }> {
  const row = await tx.selectFrom('runs').select(['version', 'head']).where('id', '=', run.id).executeTakeFirst();
  if (row?.version !== run.version) throw new RunConflictError(run.id, run.version);
  let head = row.head;
  const rows: StepTable[] = [];
  const recorded: RecordedStep[] = [];
  for (const [index, step] of steps.entries()) {
    const seq = run.version + index + 1;
    const { type, ...rest } = step;
    const data = JSON.stringify(rest);
    const salt = newSalt();
    const mac = macOf(salt, data);
    head = chainHash(head, run.id, seq, type, at, mac);
    rows.push({ run_id: run.id, seq, type, data, v: stepVersion, at, salt, mac, hash: head });
    recorded.push({ ...step, seq, at });
  }
  if (rows.length === 0) return { recorded, head };
  // The row first: on PostgreSQL a second writer waits here and then reads that it came too late.
  const moved = await tx
    .updateTable('runs')
    .set({ version: run.version + steps.length, head })
    .where('id', '=', run.id)
    .where('version', '=', run.version)
    .executeTakeFirst();
  if (moved.numUpdatedRows !== 1n) throw new RunConflictError(run.id, run.version);
  await tx.insertInto('steps').values(rows).execute();
  return { recorded, head };
}

export async function readSteps(db: Reader, runId: string, after = 0): Promise<RecordedStep[]> {
  const rows = await db.selectFrom('steps').select(['seq', 'type', 'data', 'at']).where('run_id', '=', runId).where('seq', '>', after).orderBy('seq').execute();
  return rows.map((row) => ({ ...JSON.parse(row.data || '{}'), type: row.type, seq: row.seq, at: row.at }) as RecordedStep);
}

/** What is wrong with the chain of a run, in words; undefined when it is whole. */
export async function brokenChain(db: Reader, runId: string): Promise<string | undefined> {
  const rows = await db.selectFrom('steps').selectAll().where('run_id', '=', runId).orderBy('seq').execute();
  let head = chainStart;
  for (const [index, row] of rows.entries()) {
    if (row.seq !== index + 1) return `step ${index + 1} is missing`;
    const erased = row.salt === '' && (row.data === '' || row.data === '{}');
    if (!erased && macOf(row.salt, row.data) !== row.mac) return `the data of step ${row.seq} was changed`;
    head = chainHash(head, runId, row.seq, row.type, row.at, row.mac);
    if (head !== row.hash) return `the hash of step ${row.seq} does not follow from the one before`;
  }
  const run = await db.selectFrom('runs').select('head').where('id', '=', runId).executeTakeFirst();
  return run && run.head !== head ? 'the steps do not end where the run does' : undefined;
}

/** The figures of the runs row that follow from the fold. */
export function projectionOf(run: Run): { input_tokens: number; output_tokens: number } {
  return { input_tokens: run.usage.inputTokens, output_tokens: run.usage.outputTokens };
}
