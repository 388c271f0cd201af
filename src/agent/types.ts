/** The vocabulary of runs. A run is a list of steps; everything else is derived from them. Layer 0. */
import type { ContentPart, PersonRef, Place, QuotedMessage } from '../adapters/types.ts';
import type { Level, ToolResult } from '../tools/types.ts';

export type Trigger =
  | { readonly kind: 'mention'; readonly messageKey: string }
  | { readonly kind: 'schedule'; readonly scheduleId: string; readonly dueAt: string; readonly late: boolean }
  | { readonly kind: 'subrun'; readonly parentRunId: string; readonly callId: string }
  | { readonly kind: 'command_line' };

/** Figures that hold for the whole run; fixed when it starts. */
export type Limits = { readonly maxTurns: number; readonly maxToolFailures: number; readonly maxRunMs: number; readonly maxModelRetries: number };

/** `id` is ours (`seq.index`), `providerId` the server's. `args` are the parsed and coerced arguments; `problem` says why there are none. */
export type ToolCall = {
  readonly id: string;
  readonly providerId: string;
  readonly name: string;
  readonly argsText: string;
  readonly args?: unknown;
  readonly problem?: string;
};

export type Usage = { readonly inputTokens: number; readonly outputTokens: number };
export type PromptParts = { readonly fixed: number; readonly pinned: number; readonly memory: number; readonly summary: number; readonly newest: number };
export type PromptShas = { readonly [name: string]: string };
export type ErrorInfo = { readonly code: string; readonly message: string; readonly retryAfterMs?: number };

/** A line of the conversation before this run. `bot` lines are our own answers; `quoted`: the request quotes it; `gapBefore`: lines before it are left out. */
export type ContextLine = { readonly role: 'person' | 'bot'; readonly by: string; readonly text: string; readonly at: string; readonly messageId?: string; readonly quoted?: true; readonly gapBefore?: true };
export type RecalledMemory = { readonly text: string; readonly source: string; readonly at: string };
export type Highlight = { readonly kind: 'preference' | 'decision' | 'fact' | 'topic' | 'task_result'; readonly text: string };
export type PlanStep = { readonly title: string; readonly status: 'open' | 'active' | 'done' | 'not_needed'; readonly conclusion?: string };

/** `asker`: only who asked. `people`: exactly these ids. `members`: any human of the own tenant who can see the card. */
export type MayAnswer = { readonly kind: 'asker' } | { readonly kind: 'people'; readonly ids: readonly string[] } | { readonly kind: 'members' };

/** `sha` binds the card to exact arguments and what they meant (`resolved`) when they were shown. */
export type Interaction = {
  readonly id: string;
  readonly kind: 'clarify' | 'approval' | 'takeover' | 'backlog';
  readonly callId?: string;
  readonly code: string;
  readonly question: string;
  readonly options: readonly string[];
  readonly tool?: string;
  readonly args?: unknown;
  readonly resolved?: unknown;
  readonly sha: string;
  readonly mayAnswer: MayAnswer;
  readonly needed: number;
  readonly expiresInMs: number;
};

export type Outcome = {
  readonly kind: 'answered' | 'approved' | 'declined' | 'expired' | 'withdrawn' | 'undeliverable';
  readonly by?: PersonRef;
  readonly at: string;
  readonly value?: string;
  readonly reason?: string;
};

export type StopKind = 'answered' | 'early' | 'turn_limit' | 'silent';

export type Step =
  | {
      readonly type: 'run_started';
      readonly trigger: Trigger;
      readonly asker: PersonRef;
      readonly place: Place;
      readonly content: readonly ContentPart[];
      readonly quoted?: QuotedMessage;
      readonly limits: Limits;
    }
  | {
      readonly type: 'context_gathered';
      readonly lines: readonly ContextLine[];
      readonly memories: readonly RecalledMemory[];
      readonly prompts: PromptShas;
      readonly tools: readonly string[];
      readonly failedSources: readonly string[];
      readonly tainted: boolean;
    }
  | { readonly type: 'model_requested'; readonly attempt: number; readonly promptSha: string; readonly parts: PromptParts; readonly last?: boolean }
  | {
      readonly type: 'model_responded';
      readonly text: string;
      readonly reasoning?: string;
      readonly toolCalls: readonly ToolCall[];
      readonly finish: string;
      readonly usage: Usage;
      readonly contextTokens: number;
      readonly cost?: number;
      readonly model: string;
      readonly ms: number;
    }
  | { readonly type: 'model_failed'; readonly error: ErrorInfo; readonly retryable: boolean; readonly ms: number }
  | { readonly type: 'tool_started'; readonly callId: string; readonly attempt: number; readonly level: Level }
  | { readonly type: 'tool_finished'; readonly callId: string; readonly result: ToolResult; readonly ms: number }
  | { readonly type: 'interaction_opened'; readonly interaction: Interaction }
  | { readonly type: 'interaction_pressed'; readonly interactionId: string; readonly by: PersonRef; readonly choice: string; readonly counted: boolean; readonly reason?: string }
  | { readonly type: 'interaction_resolved'; readonly interactionId: string; readonly outcome: Outcome }
  | { readonly type: 'message_added'; readonly messageKey: string; readonly by: PersonRef; readonly content: readonly ContentPart[] }
  | { readonly type: 'plan_updated'; readonly plan: readonly PlanStep[]; readonly reason: string }
  | { readonly type: 'constraint_pinned'; readonly key: string; readonly value: string; readonly sourceSeq: number }
  | { readonly type: 'context_compacted'; readonly summary: string; readonly throughSeq: number; readonly tokensBefore: number; readonly tokensAfter: number }
  | { readonly type: 'reviewed'; readonly findings: readonly string[]; readonly verdict: 'pass' | 'revise' }
  | { readonly type: 'run_completed'; readonly text: string; readonly stop: StopKind; readonly highlights?: readonly Highlight[] }
  | { readonly type: 'run_failed'; readonly error: ErrorInfo }
  | { readonly type: 'run_cancelled'; readonly by: PersonRef; readonly reason: 'asked' | 'takeover' | 'withdrawn' };

/** A step as recorded: its number in the run and when it was appended (ms). */
export type RecordedStep = Step & { readonly seq: number; readonly at: number };

export type RunStatus = 'queued' | 'running' | 'suspended' | 'completed' | 'failed' | 'cancelled';

export type CallState = {
  readonly call: ToolCall;
  readonly state: 'new' | 'asking' | 'running' | 'orphan' | 'finished';
  readonly attempt: number;
  readonly level?: Level;
  /** The approval that allows this call, once given; `at` in ms. */
  readonly approval?: { readonly interactionId: string; readonly at: number; readonly sha: string };
  readonly result?: ToolResult;
};

export type TranscriptEntry =
  | { readonly kind: 'person'; readonly messageKey: string; readonly by: PersonRef; readonly content: readonly ContentPart[] }
  | { readonly kind: 'model'; readonly seq: number; readonly text: string; readonly reasoning?: string; readonly toolCalls: readonly ToolCall[] };

export type OpenInteraction = { readonly interaction: Interaction; readonly openedAt: number; readonly pressedBy: readonly string[] };

/** The fold of a run's steps. Never stored as such. */
export type Run = {
  readonly id: string;
  readonly version: number;
  readonly trigger: Trigger;
  readonly asker: PersonRef;
  readonly place: Place;
  readonly limits: Limits;
  readonly quoted?: QuotedMessage;
  readonly context?: { readonly lines: readonly ContextLine[]; readonly memories: readonly RecalledMemory[]; readonly tools: readonly string[]; readonly failedSources: readonly string[] };
  readonly transcript: readonly TranscriptEntry[];
  /** Messages that joined and that no request has carried yet. */
  readonly held: readonly Extract<TranscriptEntry, { kind: 'person' }>[];
  /** Calls of the newest reply. */
  readonly calls: readonly CallState[];
  readonly results: { readonly [callId: string]: ToolResult };
  readonly open: readonly OpenInteraction[];
  /** A reply without calls that nothing has been done with yet. */
  readonly reply?: { readonly seq: number; readonly text: string; readonly last: boolean };
  readonly request?: { readonly attempt: number; readonly last: boolean };
  readonly attempt: number;
  readonly modelFailures: number;
  readonly lastError?: { readonly error: ErrorInfo; readonly retryable: boolean };
  readonly turns: number;
  readonly toolFailures: number;
  readonly workingMs: number;
  /** Working time up to here (ms) is counted. */
  readonly workedUntil: number;
  readonly lastAt: number;
  /** A clarify found no answer: nothing of level 1 or 2 may be done on a guess, one last call without tools follows. */
  readonly unanswered: boolean;
  readonly tainted: boolean;
  readonly usage: Usage;
  readonly ending?: Extract<Step, { type: 'run_completed' | 'run_failed' | 'run_cancelled' }>;
};

/** What the registry and the policy of this moment say of a call. */
export type Verdict =
  | { readonly do: 'run'; readonly level: Level; readonly retrySafe: boolean }
  | { readonly do: 'ask'; readonly kind: 'clarify' | 'approval'; readonly level: Level }
  | { readonly do: 'refuse'; readonly level: Level; readonly result: ToolResult; readonly rule: string };
export type Judge = (state: CallState, run: Run) => Verdict;

export type Effect =
  | { readonly do: 'gather' }
  | { readonly do: 'append'; readonly steps: readonly Step[] }
  | { readonly do: 'ask'; readonly calls: readonly CallState[] }
  | { readonly do: 'run_tools'; readonly calls: readonly { readonly state: CallState; readonly level: Level }[] }
  | { readonly do: 'call_model'; readonly attempt: number; readonly last: boolean; readonly waitMs: number }
  | { readonly do: 'wait' }
  | { readonly do: 'done' };

export type Command = { readonly at: number; readonly by: PersonRef } & (
  | { readonly kind: 'start'; readonly trigger: Trigger; readonly place: Place; readonly content: readonly ContentPart[]; readonly quoted?: QuotedMessage; readonly limits: Limits }
  /** `entitled` is the policy's word of this moment; `expiresAt` (ms) stands in the interactions row once the card is delivered. */
  | { readonly kind: 'resolve'; readonly interactionId: string; readonly choice?: string; readonly text?: string; readonly reason?: string; readonly entitled: true | string; readonly expiresAt?: number }
  | { readonly kind: 'close_interaction'; readonly interactionId: string; readonly outcome: 'expired' | 'undeliverable'; readonly reason?: string }
  | { readonly kind: 'add_message'; readonly messageKey: string; readonly content: readonly ContentPart[] }
  | { readonly kind: 'edit'; readonly messageKey: string; readonly content: readonly ContentPart[] }
  | { readonly kind: 'cancel'; readonly reason: 'asked' | 'takeover' | 'withdrawn' }
);
