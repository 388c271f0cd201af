/** Steps, runs and judges for tests: `given(steps).when(command).then(steps)`. */
import { expect } from 'vitest';
import type { PersonRef, Place } from '../../src/adapters/types.ts';
import { decide, fold, next } from '../../src/agent/run.ts';
import type { CallState, Command, Effect, ErrorInfo, Interaction, Judge, Limits, Outcome, RecordedStep, Run, Step, ToolCall, Verdict } from '../../src/agent/types.ts';
import type { ErrorKind, Level, ToolResult } from '../../src/tools/types.ts';

export const begun = Date.parse('2026-01-05T09:00:00Z');
export const lin: PersonRef = { id: 'console:local:lin', name: 'Lin', isBot: false, external: false };
export const wei: PersonRef = { id: 'console:local:wei', name: 'Wei', isBot: false, external: false };
export const hall: Place = { platform: 'console', tenant: 'local', channel: 'hall', thread: 't1', audience: 'group' };
export const limits: Limits = { maxTurns: 10, maxToolFailures: 6, maxRunMs: 900_000, maxModelRetries: 3 };

const text = (words: string) => [{ type: 'text' as const, text: words }];

export const started = (own: Partial<Limits> = {}): Step => ({ type: 'run_started', trigger: { kind: 'mention', messageKey: 'm1' }, asker: lin, place: hall, content: text('question'), limits: { ...limits, ...own } });
export const gathered = (tainted = false): Step => ({ type: 'context_gathered', lines: [], memories: [], prompts: {}, tools: ['look'], failedSources: [], tainted });
export const requested = (attempt = 1, last?: boolean): Step => ({ type: 'model_requested', attempt, promptSha: '', parts: { fixed: 0, pinned: 0, memory: 0, summary: 0, newest: 0 }, ...(last ? { last } : {}) });
export const failed = (error: ErrorInfo, retryable = true, ms = 100): Step => ({ type: 'model_failed', error, retryable, ms });
export const toolStarted = (callId: string, attempt = 1, level: Level = 0): Step => ({ type: 'tool_started', callId, attempt, level });
export const toolFinished = (callId: string, result: ToolResult = { ok: true, content: 'found' }, ms = 100): Step => ({ type: 'tool_finished', callId, result, ms });
export const opened = (interaction: Interaction): Step => ({ type: 'interaction_opened', interaction });
export const said = (messageKey: string, words: string, by: PersonRef = lin): Step => ({ type: 'message_added', messageKey, by, content: text(words) });
export const resolved = (interactionId: string, kind: Outcome['kind']): Step => ({ type: 'interaction_resolved', interactionId, outcome: { kind, at: '2026-01-05T10:00:00.000Z' } });
export const replied = (words: string, calls: readonly ToolCall[] = [], ms = 100): Step => ({
  type: 'model_responded',
  text: words,
  toolCalls: calls,
  finish: 'stop',
  usage: { inputTokens: 10, outputTokens: 2 },
  contextTokens: 10,
  model: 'scripted',
  ms,
});

/** A call's name is its id up to the first digit: `look1` and `look2` are two calls of `look`. */
export const call = (id: string): ToolCall => ({ id, providerId: `p-${id}`, name: id.replace(/\d.*$/, ''), argsText: '{}', args: {} });
export const called = (...ids: readonly string[]): Step => replied('', ids.map(call));
/** One finished turn: a request, a reply with these calls, and their results. */
export const turn = (...ids: readonly string[]): Step[] => [requested(), called(...ids), ...ids.map((id) => toolFinished(id))];
export const failure = (error: ErrorKind, content = 'did not work'): ToolResult => ({ ok: false, error, content });

export const clarify = (callId: string, own: Partial<Interaction> = {}): Interaction => ({
  id: `i-${callId}`,
  kind: 'clarify',
  callId,
  code: 'AB3K',
  question: 'Which one?',
  options: ['red', 'blue'],
  sha: 'sha',
  mayAnswer: { kind: 'asker' },
  needed: 1,
  expiresInMs: 86_400_000,
  ...own,
});
export const approval = (callId: string, own: Partial<Interaction> = {}): Interaction => clarify(callId, { kind: 'approval', question: '', options: [], ...own });

/** `at` where it matters; otherwise one second after the step before. */
export type Given = Step & { readonly at?: number };
export const at = (seconds: number, step: Step): Given => ({ ...step, at: begun + seconds * 1000 });

function recorded(steps: readonly Given[]): RecordedStep[] {
  let last = begun - 1000;
  return steps.map((step, index) => {
    last = step.at ?? last + 1000;
    return { ...step, seq: index + 1, at: last };
  });
}

export const runOf = (...steps: readonly Given[]): Run => fold('r1', recorded(steps));
/** A run whose context is there and whose model asked for these calls. */
export const calling = (...ids: readonly string[]): Step[] => [started(), gathered(), requested(), called(...ids)];

// A plain Omit would forget which fields go with which kind.
export type Undated<C = Command> = C extends Command ? Omit<C, 'at' | 'by'> & { readonly at?: number; readonly by?: PersonRef } : never;

export function given(...steps: readonly Given[]) {
  const run = runOf(...steps);
  return {
    run,
    when(command: Undated) {
      const result = decide(run, { at: begun + 3_600_000, by: lin, ...command } as Command);
      return { result, then: (...expected: readonly Step[]) => expect(result).toEqual(expected) };
    },
  };
}

// ---------------------------------------------------------------- judges

export const runs = (level: Level = 0, retrySafe = true): Verdict => ({ do: 'run', level, retrySafe });
const asks = (kind: 'clarify' | 'approval'): Verdict => ({ do: 'ask', kind, level: kind === 'clarify' ? 0 : 2 });
const refuses = (content = 'not here'): Verdict => ({ do: 'refuse', level: 0, rule: 'test', result: failure('permission', content) });

const byName: Record<string, Verdict> = { look: runs(), save: runs(1, false), send: asks('approval'), which: asks('clarify'), nope: refuses() };

/** Judges by the name of the call; an approved `send` runs. It fails the test when asked about a call that needs no verdict. */
export const judge: Judge = (state: CallState): Verdict => {
  if (state.state !== 'new' && state.state !== 'orphan') throw new Error(`asked about ${state.call.id}, which is ${state.state}`);
  if (state.call.name === 'send' && state.approval) return runs(2, false);
  const verdict = byName[state.call.name];
  if (!verdict) throw new Error(`no verdict on ${state.call.name}`);
  return verdict;
};

export const noJudge: Judge = (state) => {
  throw new Error(`asked about ${state.call.id}`);
};

export const nextOf = (...steps: readonly Given[]): Effect => next(runOf(...steps), judge);

/** The effect in short: `run_tools look1 look2`, `ask send1`, `call_model 1`, … */
export function brief(effect: Effect): string {
  switch (effect.do) {
    case 'run_tools':
      return ['run_tools', ...effect.calls.map((c) => c.state.call.id)].join(' ');
    case 'ask':
      return ['ask', ...effect.calls.map((c) => c.call.id)].join(' ');
    case 'append':
      return ['append', ...effect.steps.map((step) => step.type)].join(' ');
    case 'call_model':
      return `call_model ${effect.attempt}${effect.last ? ' last' : ''}${effect.waitMs > 0 ? ` after ${effect.waitMs}` : ''}`;
    case 'gather':
    case 'wait':
    case 'done':
      return effect.do;
  }
}
