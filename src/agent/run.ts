/**
 * The heart of the product; read this first. A run is a list of steps. `evolve` folds them, `decide` turns a command into
 * steps, `next` says what to do now. Pure: no clock (times arrive as data), no database, nothing throws.
 */
import type { ToolResult } from '../tools/types.ts';
import type { CallState, Command, Effect, Interaction, Judge, Outcome, RecordedStep, Run, Step, Verdict } from './types.ts';

/** A retry-safe call left behind by a dead process is started again at most this many times. */
const maxOrphanRestarts = 2;
const retryWaitsMs = [1000, 2000, 4000];
const longestRetryWaitMs = 8000;
const longestAskedWaitMs = 60_000;

export type StartedStep = Extract<Step, { type: 'run_started' }>;

/** The run before its first step. Every other field comes from `run_started`. */
export function emptyRun(id: string): Run {
  const nobody = { id: '', isBot: false, external: false };
  return {
    id,
    version: 0,
    trigger: { kind: 'command_line' },
    asker: nobody,
    place: { platform: 'console', tenant: '', channel: '', thread: '', audience: 'group' },
    limits: { maxTurns: 0, maxToolFailures: 0, maxRunMs: 0, maxModelRetries: 0 },
    transcript: [],
    held: [],
    calls: [],
    results: {},
    open: [],
    attempt: 0,
    modelFailures: 0,
    turns: 0,
    toolFailures: 0,
    workingMs: 0,
    workedUntil: 0,
    lastAt: 0,
    unanswered: false,
    tainted: false,
    usage: { inputTokens: 0, outputTokens: 0 },
  };
}

export function fold(id: string, steps: readonly RecordedStep[]): Run {
  return steps.reduce(evolve, emptyRun(id));
}

/** Total: a step that does not fit changes nothing but the version. */
export function evolve(run: Run, step: RecordedStep): Run {
  const moved = { ...run, version: step.seq, lastAt: step.at };
  if (run.ending) return moved;
  return apply(moved, step);
}

function apply(run: Run, step: RecordedStep): Run {
  switch (step.type) {
    case 'run_started':
      return { ...run, trigger: step.trigger, asker: step.asker, place: step.place, limits: step.limits, transcript: [asked(step)], ...(step.quoted ? { quoted: step.quoted } : {}) };
    case 'context_gathered':
      return { ...run, context: { lines: step.lines, memories: step.memories, tools: step.tools, failedSources: step.failedSources }, tainted: run.tainted || step.tainted };
    case 'model_requested': {
      const { reply: _, ...rest } = run;
      return { ...rest, request: { attempt: step.attempt, last: step.last === true }, attempt: step.attempt, transcript: [...run.transcript, ...run.held], held: [] };
    }
    case 'model_responded':
      return withoutRequest(responded(worked(run, step), step));
    case 'model_failed':
      return { ...withoutRequest(worked(run, step)), modelFailures: run.modelFailures + 1, lastError: { error: step.error, retryable: step.retryable } };
    case 'tool_started':
      return withCall(run, step.callId, (call) => ({ ...call, state: 'running', attempt: step.attempt, level: step.level }));
    case 'tool_finished':
      return finished(run, step);
    case 'interaction_opened': {
      const opened = { ...run, open: [...run.open, { interaction: step.interaction, openedAt: step.at, pressedBy: [] }] };
      return step.interaction.callId === undefined ? opened : withCall(opened, step.interaction.callId, (call) => ({ ...call, state: 'asking' }));
    }
    case 'interaction_pressed':
      return { ...run, open: run.open.map((o) => (step.counted && o.interaction.id === step.interactionId ? { ...o, pressedBy: [...o.pressedBy, step.by.id] } : o)) };
    case 'interaction_resolved':
      return resolved(run, step.interactionId, step.outcome, step.at);
    case 'message_added':
      return added(run, step);
    case 'run_completed':
    case 'run_failed':
    case 'run_cancelled':
      return { ...withoutRequest(run), open: [], ending: step };
    case 'plan_updated':
    case 'constraint_pinned':
    case 'context_compacted':
    case 'reviewed':
      return run;
    default:
      return unknownStep(run, step);
  }
}

/** A record written by a newer program may hold steps this one does not know. */
function unknownStep(run: Run, _step: never): Run {
  return run;
}

function asked(step: StartedStep): Run['held'][number] {
  const messageKey = step.trigger.kind === 'mention' ? step.trigger.messageKey : '';
  return { kind: 'person', messageKey, by: step.asker, content: step.content };
}

/** Working time: what the call took. Calls side by side count once, waiting for people and a dead process not at all. */
function worked(run: Run, step: { readonly at: number; readonly ms: number }): Run {
  const from = Math.max(step.at - step.ms, run.workedUntil);
  return step.at > from ? { ...run, workingMs: run.workingMs + step.at - from, workedUntil: step.at } : run;
}

function withoutRequest(run: Run): Run {
  const { request: _, ...rest } = run;
  return rest;
}

function responded(run: Run, step: Extract<RecordedStep, { type: 'model_responded' }>): Run {
  const { lastError: _, ...rest } = run;
  // Some servers call tools although the last request forbade it; the run would never end.
  const toolCalls = run.request?.last ? [] : step.toolCalls;
  const entry = { kind: 'model' as const, seq: step.seq, text: step.text, toolCalls, ...(step.reasoning === undefined ? {} : { reasoning: step.reasoning }) };
  const base: Run = {
    ...rest,
    turns: run.turns + 1,
    attempt: 0,
    modelFailures: 0,
    transcript: [...run.transcript, entry],
    calls: toolCalls.map((call) => ({ call, state: 'new', attempt: 0 })),
    usage: { inputTokens: run.usage.inputTokens + step.usage.inputTokens, outputTokens: run.usage.outputTokens + step.usage.outputTokens },
  };
  return toolCalls.length === 0 ? { ...base, reply: { seq: step.seq, text: step.text, last: run.request?.last === true } } : base;
}

function withCall(run: Run, callId: string, change: (call: CallState) => CallState): Run {
  return { ...run, calls: run.calls.map((state) => (state.call.id === callId && state.state !== 'finished' ? change(state) : state)) };
}

function finished(run: Run, step: Extract<RecordedStep, { type: 'tool_finished' }>): Run {
  const { callId, result } = step;
  if (!run.calls.some((state) => state.call.id === callId && state.state !== 'finished')) return run;
  const counted = result.ok || isHumanAnswer(result) ? 0 : run.toolFailures + 1;
  const unanswered = run.unanswered || (!result.ok && result.error === 'no_answer');
  const next = withCall(worked(run, step), callId, (state) => ({ ...state, state: 'finished', result }));
  return { ...next, unanswered, toolFailures: counted, results: { ...run.results, [callId]: result }, tainted: run.tainted || result.tainted === true };
}

/** A "no" of a person is not a failure of a tool. */
function isHumanAnswer(result: Extract<ToolResult, { ok: false }>): boolean {
  return result.error === 'declined' || result.error === 'no_answer';
}

function resolved(run: Run, interactionId: string, outcome: Outcome, at: number): Run {
  const found = run.open.find((o) => o.interaction.id === interactionId);
  if (!found) return run;
  const closed = { ...run, open: run.open.filter((o) => o !== found) };
  const { callId, id, sha } = found.interaction;
  if (outcome.kind !== 'approved' || callId === undefined) return closed;
  return withCall(closed, callId, (state) => ({ ...state, state: 'new', approval: { interactionId: id, at, sha } }));
}

function added(run: Run, step: Extract<RecordedStep, { type: 'message_added' }>): Run {
  const entry = { kind: 'person' as const, messageKey: step.messageKey, by: step.by, content: step.content };
  const replaces = (e: { kind: string; messageKey?: string }) => e.kind === 'person' && e.messageKey === step.messageKey;
  if (!run.context && run.transcript.some(replaces)) return { ...run, transcript: run.transcript.map((e) => (replaces(e) ? entry : e)) };
  if (run.held.some(replaces)) return { ...run, held: run.held.flatMap((e) => (replaces(e) ? takenAs(entry) : e)) };
  return { ...run, held: [...run.held, entry] };
}

/** A message that was deleted comes without content. */
const takenAs = (entry: Run['held'][number]): Run['held'] => (entry.content.length === 0 ? [] : [entry]);

/** What a process does with a run that another one drove: calls and requests in flight there are nobody's now. */
export function adopt(run: Run): Run {
  return { ...withoutRequest(run), calls: run.calls.map((state) => (state.state === 'running' ? { ...state, state: 'orphan' } : state)) };
}

// ---------------------------------------------------------------- decide

/** The steps a command leads to; none when it no longer applies. */
export function decide(run: Run, command: Command): Step[] {
  if (command.kind === 'start') {
    const { trigger, place, content, quoted, limits, by } = command;
    return run.version > 0 ? [] : [{ type: 'run_started', trigger, asker: by, place, content, ...(quoted ? { quoted } : {}), limits }];
  }
  if (run.ending || run.version === 0) return [];
  switch (command.kind) {
    case 'resolve':
      return resolve(run, command);
    case 'close_interaction':
      return closeInteraction(run, command);
    case 'add_message':
      return takesNoMore(run) ? [] : [{ type: 'message_added', messageKey: command.messageKey, by: command.by, content: command.content }];
    case 'edit':
      return mayEdit(run, command) ? [{ type: 'message_added', messageKey: command.messageKey, by: command.by, content: command.content }] : [];
    case 'cancel':
      return ending(run, { type: 'run_cancelled', by: command.by, reason: command.reason }, command.at);
  }
}

/** The last request is on its way, or only that one may follow: nothing can be done any more for what is said now. */
function takesNoMore(run: Run): boolean {
  return run.unanswered || run.request?.last === true;
}

/** Who wrote it, while no request has carried this message: an edit may still replace it. */
export function authorOfWaiting(run: Run, messageKey: string): string | undefined {
  const held = run.held.find((entry) => entry.messageKey === messageKey);
  if (held) return held.by.id;
  return !run.context && run.trigger.kind === 'mention' && run.trigger.messageKey === messageKey ? run.asker.id : undefined;
}

/** Only its author puts other words into a message; others may at most take it away. */
function mayEdit(run: Run, { messageKey, content, by }: Extract<Command, { kind: 'edit' }>): boolean {
  const author = authorOfWaiting(run, messageKey);
  return author !== undefined && (author === by.id || content.length === 0);
}

function resolve(run: Run, command: Extract<Command, { kind: 'resolve' }>): Step[] {
  const found = run.open.find((o) => o.interaction.id === command.interactionId);
  if (!found) return [];
  const { interaction } = found;
  const choice = command.choice ?? command.text ?? '';
  const pressed = (counted: boolean, reason?: string): Step => ({ type: 'interaction_pressed', interactionId: interaction.id, by: command.by, choice, counted, ...(reason ? { reason } : {}) });
  if (command.expiresAt !== undefined && command.at >= command.expiresAt) {
    return [pressed(false, 'expired'), ...close(interaction, { kind: 'expired', at: isoTime(command.expiresAt) })];
  }
  if (command.entitled !== true) return [pressed(false, command.entitled)];
  if (interaction.kind === 'approval') return decideApproval(found, command, pressed);
  const value = command.choice ?? optionMeant(interaction.options, command.text ?? '');
  return [pressed(true), ...close(interaction, { kind: 'answered', by: command.by, at: isoTime(command.at), value })];
}

function decideApproval(found: Run['open'][number], command: Extract<Command, { kind: 'resolve' }>, pressed: (counted: boolean, reason?: string) => Step): Step[] {
  const { interaction, pressedBy } = found;
  const at = isoTime(command.at);
  if (command.choice === 'deny') {
    const reason = command.reason ? { reason: command.reason } : {};
    return [pressed(true), ...close(interaction, { kind: 'declined', by: command.by, at, ...reason })];
  }
  if (command.choice !== 'approve') return [pressed(false, 'not a decision')];
  if (pressedBy.includes(command.by.id)) return [pressed(false, 'already pressed')];
  if (pressedBy.length + 1 < interaction.needed) return [pressed(true)];
  return [pressed(true), ...close(interaction, { kind: 'approved', by: command.by, at })];
}

/** "2" or "2." names the second option; anything else is the answer in the person's words. */
export function optionMeant(options: readonly string[], text: string): string {
  const digits = /^\s*(\d{1,2})[.)、]?\s*$/.exec(text.normalize('NFKC'));
  const option = digits ? options[Number(digits[1]) - 1] : undefined;
  return option ?? text.trim();
}

function closeInteraction(run: Run, command: Extract<Command, { kind: 'close_interaction' }>): Step[] {
  const found = run.open.find((o) => o.interaction.id === command.interactionId);
  if (!found) return [];
  return close(found.interaction, { kind: command.outcome, at: isoTime(command.at), ...(command.reason ? { reason: command.reason } : {}) });
}

/** The resolution, and the result the model reads unless the call may now run. */
function close(interaction: Interaction, outcome: Outcome): Step[] {
  const steps: Step[] = [{ type: 'interaction_resolved', interactionId: interaction.id, outcome }];
  if (interaction.callId !== undefined && outcome.kind !== 'approved') {
    steps.push({ type: 'tool_finished', callId: interaction.callId, result: resultOf(interaction, outcome), ms: 0 });
  }
  return steps;
}

function resultOf(interaction: Interaction, outcome: Outcome): ToolResult {
  const who = outcome.by?.name ?? outcome.by?.id ?? 'A person';
  if (outcome.kind === 'answered') return { ok: true, content: `${who} answered: ${outcome.value ?? ''}` };
  const subject = interaction.kind === 'clarify' ? 'The question' : 'The request for approval';
  if (outcome.kind === 'declined') {
    return { ok: false, error: 'declined', content: `${who} declined this call${outcome.reason ? `: ${outcome.reason}` : ''}. It was not executed. Do not try it again; say what was not done.` };
  }
  const error = interaction.kind === 'clarify' ? 'no_answer' : 'declined';
  if (outcome.kind === 'undeliverable') {
    return { ok: false, error, content: `${subject} could not be shown to anybody (${outcome.reason ?? 'the platform refused it'}). Nothing was executed. Do not guess an answer; say what is missing.` };
  }
  const what = outcome.kind === 'expired' ? 'found no answer in time' : 'was withdrawn';
  return { ok: false, error, content: `${subject} ${what}. Nothing was executed. Do not guess an answer; say what was not done and how to ask again.` };
}

function ending(run: Run, step: NonNullable<Run['ending']>, at: number): Step[] {
  return [...withdrawals(run, at), step];
}

/** An ending takes back everything that is still open. */
export function withdrawals(run: Run, at: number): Step[] {
  return run.open.map((o) => ({ type: 'interaction_resolved', interactionId: o.interaction.id, outcome: { kind: 'withdrawn', at: isoTime(at) } }));
}

const isoTime = (ms: number): string => new Date(ms).toISOString();

// ---------------------------------------------------------------- next

/** What to do now, first match wins. */
export function next(run: Run, judge: Judge): Effect {
  if (run.ending) return { do: 'done' };
  if (!run.context) return { do: 'gather' };
  if (run.calls.some((state) => state.state !== 'finished')) return nextCall(run, judge);
  if (run.open.length > 0) return { do: 'wait' };
  if (run.reply && run.held.length === 0) return { do: 'append', steps: ending(run, completed(run, run.reply), run.lastAt) };
  if (run.request) return { do: 'wait' };
  return nextRequest(run);
}

function completed(run: Run, reply: NonNullable<Run['reply']>): Extract<Step, { type: 'run_completed' }> {
  return { type: 'run_completed', text: reply.text, stop: reply.last && !run.unanswered ? 'turn_limit' : 'answered' };
}

function nextRequest(run: Run): Effect {
  const failed = run.lastError && (!run.lastError.retryable || run.modelFailures > run.limits.maxModelRetries);
  if (failed && run.lastError) return { do: 'append', steps: ending(run, { type: 'run_failed', error: run.lastError.error }, run.lastAt) };
  if (run.toolFailures >= run.limits.maxToolFailures) {
    const error = { code: 'tool_failures', message: `${run.toolFailures} tool calls failed in a row; the last one said: ${lastFailure(run)}` };
    return { do: 'append', steps: ending(run, { type: 'run_failed', error }, run.lastAt) };
  }
  return { do: 'call_model', attempt: run.attempt + 1, last: atLimit(run) || run.unanswered, waitMs: retryWait(run) };
}

function lastFailure(run: Run): string {
  const failures = run.calls.flatMap((state) => (state.result && !state.result.ok ? [state.result.content] : []));
  return failures.at(-1) ?? 'nothing';
}

function atLimit(run: Run): boolean {
  return run.turns >= run.limits.maxTurns || run.workingMs >= run.limits.maxRunMs;
}

function retryWait(run: Run): number {
  if (run.modelFailures === 0 || !run.lastError) return 0;
  const asked = Math.min(run.lastError.error.retryAfterMs ?? 0, longestAskedWaitMs);
  return Math.max(asked, retryWaitsMs[run.modelFailures - 1] ?? longestRetryWaitMs);
}

type Judged = { readonly state: CallState; readonly verdict: Verdict };

function nextCall(run: Run, judge: Judge): Effect {
  const judged = run.calls.map((state) => ({ state, verdict: isSettled(state) ? undefined : verdictFor(state, run, judge) }));
  const pending = judged.flatMap((j): Judged[] => (j.verdict ? [{ state: j.state, verdict: j.verdict }] : []));
  const settled = pending.flatMap(({ state, verdict }): Step[] => {
    const result = lostResult(state, verdict) ?? (verdict.do === 'refuse' ? verdict.result : undefined);
    return result ? [{ type: 'tool_finished', callId: state.call.id, result, ms: 0 }] : [];
  });
  if (settled.length > 0) return { do: 'append', steps: settled };
  const asking = pending.filter((p) => p.verdict.do === 'ask');
  if (asking.length > 0) return { do: 'ask', calls: asking.map((p) => p.state) };
  const starting = startable(run, pending);
  return starting.length > 0 ? { do: 'run_tools', calls: starting } : { do: 'wait' };
}

const isSettled = (state: CallState): boolean => state.state === 'finished' || state.state === 'running' || state.state === 'asking';

/** After a clarify without an answer nothing that changes something is done on a guess. */
function verdictFor(state: CallState, run: Run, judge: Judge): Verdict {
  const verdict = judge(state, run);
  if (!run.unanswered || verdict.do === 'refuse' || (verdict.level === 0 && verdict.do === 'run')) return verdict;
  const content = 'Not executed: the question before it found no answer, and nothing that changes something is done on a guess.';
  return { do: 'refuse', level: verdict.level, rule: 'unanswered', result: { ok: false, error: 'no_answer', content } };
}

/** An orphan that may not be run again ends as "outcome unknown". */
function lostResult(state: CallState, verdict: Verdict): ToolResult | undefined {
  if (state.state !== 'orphan') return undefined;
  if (verdict.do === 'run' && verdict.retrySafe && state.attempt <= maxOrphanRestarts) return undefined;
  const content = 'The process stopped while this call was running. Whether it took effect is unknown, and it is not repeated. Tell the person so, and how to check.';
  return { ok: false, error: 'outcome_unknown', content };
}

/** Level 0 runs side by side; a call of level 1 or 2 waits for earlier running ones, and later ones wait for it. */
function startable(run: Run, pending: readonly Judged[]): { state: CallState; level: 0 | 1 | 2 }[] {
  const starting: { state: CallState; level: 0 | 1 | 2 }[] = [];
  let runningBefore = false;
  let changingBefore = false;
  for (const state of run.calls) {
    const verdict = pending.find((p) => p.state === state)?.verdict;
    const starts = verdict?.do === 'run' && !changingBefore && (verdict.level === 0 || !runningBefore);
    if (starts) starting.push({ state, level: verdict.level });
    const level = verdict?.level ?? state.level ?? 0;
    if (state.state === 'running' || verdict?.do === 'run') {
      runningBefore = true;
      changingBefore ||= level > 0;
    }
  }
  return starting;
}

/** Suspended: something is open, no call is running and none may start. */
export function isSuspended(run: Run): boolean {
  return !run.ending && run.open.length > 0 && !run.request && !run.calls.some((state) => state.state === 'running');
}
