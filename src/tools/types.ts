/** What a tool is. Layer 0: a tool reaches the rest of the product only through its ToolContext. */
import type { ZodType } from 'zod';
import type { ChannelRef, Language, OutboundMessage, PersonRef, Place } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';

/** 0 reads, 1 reversible, 2 irreversible. */
export type Level = 0 | 1 | 2;

export type ErrorKind = 'network' | 'rate_limit' | 'arguments' | 'permission' | 'not_found' | 'timeout' | 'business' | 'outcome_unknown' | 'declined' | 'no_answer';

/** `content` is prose that the model reads. A result that is not `trusted` taints the run. */
export type ToolResult = { readonly ok: true; readonly content: string; readonly tainted?: boolean } | { readonly ok: false; readonly error: ErrorKind; readonly content: string; readonly tainted?: boolean };

export type ToolContext = {
  readonly runId: string;
  readonly callId: string;
  readonly place: Place;
  readonly asker: PersonRef;
  readonly language: Language;
  readonly timezone: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Channels of the asker's own platform and tenant with this name or id that the bot is in. */
  findChannels(nameOrId: string): Promise<readonly ChannelRef[]>;
  /** What `send_to` of the asking group allows as a target, the own channel included. */
  maySendTo(channel: ChannelRef): boolean;
};

/** What arguments mean at this moment. `shown` is what the card adds to the arguments; `value` is bound by the card's hash. */
export type Resolution = { readonly ok: true; readonly value: unknown; readonly shown: string } | { readonly ok: false; readonly result: Extract<ToolResult, { ok: false }> };

/** The question a tool puts to the asker (`clarify`). */
export type Question = { readonly question: string; readonly options: readonly string[] };

export type ToolDefinition<Args = unknown> = {
  readonly name: string;
  /** Says when to use it, when not, and what comes back. */
  readonly description: string;
  readonly level: Level | ((args: Args, place: Place, resolved: unknown) => Level);
  readonly args: ZodType<Args>;
  /** Running it twice is the same as once. */
  readonly retrySafe: boolean;
  readonly stable?: boolean;
  /** Its results cannot carry text of a third party. */
  readonly trusted?: boolean;
  readonly timeoutMs?: number;
  readonly maxChars?: number;
  /** Ids and names the arguments mean now. Reads only. */
  resolve?(args: Args, context: ToolContext): Promise<Resolution>;
  /** Makes the call a question to a person instead of an execution. */
  asks?(args: Args): Question;
  /** Makes the call a message: the row is committed with `tool_started`, its delivery is the result. */
  message?(args: Args, resolved: unknown, context: ToolContext): Pick<OutboundMessage, 'place' | 'markdown'>;
  /** Absent for tools that ask or post. */
  execute?(args: Args, context: ToolContext, resolved: unknown): Promise<ToolResult>;
};

/** A definition whose argument type is known only to itself. */
// biome-ignore lint/suspicious/noExplicitAny: a registry holds tools of every argument type; each is called only with its own parsed arguments
export type AnyTool = ToolDefinition<any>;
