/** Where a message goes. Pure; the first rule that matches wins. */
import type { IncomingMessage } from '../adapters/types.ts';
import { optionMeant } from './run.ts';

export type Command = 'stop' | 'help';

export type RouteFacts = {
  readonly message: IncomingMessage;
  /** Interactions open in this conversation that this person may answer in words (clarify, takeover). */
  readonly answerable: readonly { readonly id: string; readonly code: string; readonly options: readonly string[]; readonly postIds: readonly string[] }[];
  /** The code in a written decision is that of an approval, or this person may decide one here: "approve this" among people is none. */
  readonly decides: boolean;
  /** The person's newest queued or running run here. */
  readonly ownRun?: { readonly id: string; readonly messageKeys: readonly string[] };
  /** Anything of this person, or of anybody, that has not ended here. */
  readonly activeHere: boolean;
  readonly threads: boolean;
  /** The message quotes the question, the answer or the progress of `ownRun`. */
  readonly quotesOwnRun: boolean;
  readonly followUp: 'asker' | 'mention' | 'thread';
  /** The person the bot spoke with last in this conversation. */
  readonly lastAsker?: string;
  /** When the bot last posted here, ms. */
  readonly lastPostAt?: number;
  readonly now: number;
  /** True for people who may ask at all: humans of the own tenant. */
  readonly mayAsk: boolean;
};

export type Route =
  | { readonly to: 'command'; readonly command: Command }
  | { readonly to: 'decision'; readonly choice: 'approve' | 'deny'; readonly code: string; readonly reason: string }
  | { readonly to: 'answer'; readonly interactionId: string; readonly text: string }
  | { readonly to: 'which_question'; readonly interactionIds: readonly string[] }
  | { readonly to: 'join'; readonly runId: string }
  | { readonly to: 'start' }
  | { readonly to: 'help' }
  | { readonly to: 'ignore'; readonly reason: string };

const followUpMs = 30 * 60_000;

export function route(facts: RouteFacts): Route {
  const { message } = facts;
  const text = textOf(message.content).trim();
  if (message.author.isBot) return ignore('a bot');
  if (!facts.mayAsk) return ignore('not a member');
  const command = commandIn(text, facts);
  if (command) return { to: 'command', command };
  const decision = decisionIn(text);
  if (decision && facts.decides) return decision;
  const answer = answerIn(text, facts);
  if (answer) return answer;
  if (decision && isAddressed(message)) return decision;
  const addressesOthers = message.mentions.length > 0 && !message.mentionsBot;
  const addressed = message.mentionsBot || (!addressesOthers && isFollowUp(facts));
  if (!addressed) return ignore(addressesOthers ? 'addresses somebody else' : 'no mention');
  if (facts.ownRun && (facts.threads || facts.quotesOwnRun)) return isEmpty(message, text) ? { to: 'help' } : { to: 'join', runId: facts.ownRun.id };
  if (isEmpty(message, text) && !message.quoted && !isInsideThread(message)) return { to: 'help' };
  return { to: 'start' };
}

const ignore = (reason: string): Route => ({ to: 'ignore', reason });

export function textOf(content: IncomingMessage['content']): string {
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

const isEmpty = (message: IncomingMessage, text: string): boolean => text === '' && message.content.every((part) => part.type === 'text');

const isAddressed = (message: IncomingMessage): boolean => message.mentionsBot || message.place.audience === 'direct';

/** A mention on the main level opens a thread named after itself. */
function isInsideThread(message: IncomingMessage): boolean {
  return message.place.thread !== '' && !message.key.endsWith(`:${message.place.thread}`);
}

/** A command without a mention counts only where the bot is at work; "stop" in a talk between people is just a word. */
function commandIn(text: string, facts: RouteFacts): Command | undefined {
  const addressed = isAddressed(facts.message);
  if (/^(!stop|stop|停|停止)[.!。！]?$/i.test(text)) return addressed || facts.activeHere ? 'stop' : undefined;
  if (/^(help|帮助)[?？]?$/i.test(text) && addressed) return 'help';
  return undefined;
}

/** Codes have four letters or digits without look-alikes. */
export function decisionIn(text: string): Extract<Route, { to: 'decision' }> | undefined {
  const match = /^(approve|deny|批准|拒绝)[\s:：]+([A-Za-z0-9]{4})(?:[\s,，:：]+(\S[\s\S]*))?$/i.exec(text);
  if (!match) return undefined;
  const [, word = '', code = '', reason = ''] = match;
  return { to: 'decision', choice: /^(approve|批准)$/i.test(word) ? 'approve' : 'deny', code: code.toUpperCase(), reason: reason.trim() };
}

/** Exactly one open question: this is its answer. Several: a quote or a leading code chooses. */
function answerIn(text: string, facts: RouteFacts): Route | undefined {
  const { answerable, message } = facts;
  if (answerable.length === 0 || isEmpty(message, text)) return undefined;
  if (message.mentions.length > 0 && !message.mentionsBot) return undefined;
  const quoted = message.quoted && answerable.find((q) => q.postIds.includes(message.quoted?.messageId ?? ''));
  if (quoted) return answered(quoted, text);
  const coded = /^([A-Za-z0-9]{4})[\s:：,，]+(\S[\s\S]*)$/.exec(text);
  const byCode = coded && answerable.find((q) => q.code === coded[1]?.toUpperCase());
  if (byCode) return answered(byCode, coded[2] ?? '');
  const [only] = answerable;
  if (answerable.length === 1 && only) return answered(only, text);
  return { to: 'which_question', interactionIds: answerable.map((q) => q.id) };
}

function answered(question: RouteFacts['answerable'][number], text: string): Route {
  return { to: 'answer', interactionId: question.id, text: optionMeant(question.options, text) };
}

function isFollowUp(facts: RouteFacts): boolean {
  if (facts.followUp === 'mention' || !facts.threads || !isInsideThread(facts.message)) return false;
  // Somebody else may have asked since; the bot is still at work for this person.
  if (facts.ownRun) return true;
  if (facts.lastAsker === undefined) return false;
  if (facts.followUp === 'asker' && facts.lastAsker !== facts.message.author.id) return false;
  return facts.lastPostAt !== undefined && facts.now - facts.lastPostAt <= followUpMs;
}
