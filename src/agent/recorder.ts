/** Steps become rows: the record, its projections, the messages and the audit, in one transaction. Everybody who moves a run goes through here. */
import type { Language, OutboxDraft, OutboxKind, PersonRef } from '../adapters/types.ts';
import { RunConflictError } from '../errors.ts';
import { type AuditEntry, writeAudit } from '../store/audit.ts';
import { insertInteraction, resolveInteraction } from '../store/interactions.ts';
import { insertOutbox, withdrawUnsent } from '../store/outbox.ts';
import { type RunRow, readRun, setStatus } from '../store/runs.ts';
import type { Reader, Tx } from '../store/schema.ts';
import { appendSteps, projectionOf, readSteps } from '../store/steps.ts';
import type { Store } from '../store/store.ts';
import { draftsFor } from './messages.ts';
import { evolve, fold } from './run.ts';
import type { RecordedStep, Run, RunStatus, Step } from './types.ts';

export type Loaded = { readonly run: Run; readonly row: RunRow };

/** Undefined when there is no such run. */
export async function loadRun(db: Reader, id: string): Promise<Loaded | undefined> {
  const row = await readRun(db, id);
  if (!row) return undefined;
  return { row, run: fold(id, await readSteps(db, id)) };
}

export type Recording = {
  readonly run: Run;
  readonly conversationId: string;
  readonly language: Language;
  readonly steps: readonly Step[];
  readonly at: number;
  /** Left as it is when absent; an ending sets it by itself. */
  readonly status?: RunStatus;
  /** Messages that a call of this commit posts; `elsewhere` when they open a thread of their own. */
  readonly messages?: readonly { readonly draft: OutboxDraft; readonly elsewhere: boolean }[];
  readonly audit?: readonly AuditEntry[];
};

/** The run after the steps. Throws RunConflictError when somebody else moved it. */
export async function record(tx: Tx, dialect: Store['dialect'], recording: Recording): Promise<Run> {
  const { run, steps, at, conversationId } = recording;
  if (steps.length === 0) await mustStandAt(tx, run);
  const { recorded, head } = steps.length === 0 ? { recorded: [], head: '' } : await appendSteps(tx, run, steps, at);
  const drafts: OutboxDraft[] = [];
  let after = run;
  for (const step of recorded) {
    drafts.push(...draftsFor(after, step, recording.language));
    if (step.type === 'interaction_opened') await insertInteraction(tx, { interaction: step.interaction, runId: run.id, conversationId, place: run.place, at });
    if (step.type === 'interaction_resolved') await resolveInteraction(tx, step.interactionId, step.outcome, at);
    after = evolve(after, step);
  }
  if (after.ending && !run.ending) await withdrawUnsent(tx, run.id, after.ending.type === 'run_cancelled' ? ofTheCancelled : ['question'], at);
  for (const draft of drafts) await insertOutbox(tx, draft, conversationId, at);
  for (const { draft, elsewhere } of recording.messages ?? []) await insertOutbox(tx, draft, elsewhere ? undefined : conversationId, at);
  await writeAudit(tx, [...recorded.flatMap((step) => auditOf(run, step, { conversationId, head })), ...(recording.audit ?? [])], dialect);
  const status = endedStatus(after) ?? recording.status;
  if (status) await setStatus(tx, run.id, { status, ...projectionOf(after), at });
  return after;
}

/** A stopped run posts nothing more; the receipts of cards that people already saw still go out, so that these show the truth. */
const ofTheCancelled: OutboxKind[] = ['question', 'answer', 'group_message', 'notice', 'report'];

async function mustStandAt(tx: Tx, run: Run): Promise<void> {
  const row = await tx.selectFrom('runs').select('version').where('id', '=', run.id).executeTakeFirst();
  if (row?.version !== run.version) throw new RunConflictError(run.id, run.version);
}

function endedStatus(run: Run): RunStatus | undefined {
  switch (run.ending?.type) {
    case 'run_completed':
      return 'completed';
    case 'run_failed':
      return 'failed';
    case 'run_cancelled':
      return 'cancelled';
    case undefined:
      return undefined;
  }
}

const product = 'hermes';

/** Decisions, presses, starts of calls that change something, and endings with the last hash of the run. Never message text. */
function auditOf(run: Run, step: RecordedStep, { conversationId, head }: { conversationId: string; head: string }): AuditEntry[] {
  const base = { at: step.at, runId: run.id, conversationId };
  const who = (person: PersonRef | undefined) => person?.id ?? product;
  switch (step.type) {
    case 'interaction_pressed':
      return [{ ...base, kind: 'press', actor: who(step.by), subject: step.interactionId, data: { counted: step.counted, ...(step.reason ? { reason: step.reason } : {}) } }];
    case 'interaction_resolved':
      return [{ ...base, kind: 'decision', actor: who(step.outcome.by), subject: step.interactionId, data: { outcome: step.outcome.kind } }];
    case 'tool_started':
      return step.level > 0 ? [{ ...base, kind: 'started', actor: product, subject: step.callId, data: { level: step.level, attempt: step.attempt } }] : [];
    case 'run_cancelled':
      return [{ ...base, kind: 'run_ended', actor: who(step.by), subject: run.id, data: { ending: step.type, reason: step.reason, hash: head } }];
    case 'run_completed':
    case 'run_failed':
      return [{ ...base, kind: 'run_ended', actor: product, subject: run.id, data: { ending: step.type, hash: head } }];
    default:
      return [];
  }
}
