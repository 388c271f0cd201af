/** What `route` has to know of a message, read in the transaction that takes it. */
import type { IncomingMessage, LiveHandle, Place } from '../adapters/types.ts';
import { type Conversation, findConversation, readConversation } from '../store/conversations.ts';
import { type InteractionRow, interactionByCode, openInteractions } from '../store/interactions.ts';
import { findPost, readLive, type SentPart } from '../store/outbox.ts';
import { activeRuns, type RunRow } from '../store/runs.ts';
import type { Tx } from '../store/schema.ts';
import { mayAnswer } from '../tools/policy.ts';
import { decisionIn, type RouteFacts, textOf } from './route.ts';
import type { Interaction, MayAnswer } from './types.ts';

export type FollowUp = RouteFacts['followUp'];
export type Gathered = { readonly route: RouteFacts; readonly conversation: Conversation | undefined; readonly place: Place /** `''` where a conversation is not one person's. */; readonly person: string };

export async function gatherFacts(tx: Tx, message: IncomingMessage, settings: { threads: boolean; followUp: FollowUp; now: number; mayAsk: boolean }): Promise<Gathered> {
  const person = settings.threads || message.place.audience === 'direct' ? '' : message.author.id;
  const quotedConversation = await conversationOfQuote(tx, message);
  const conversation = quotedConversation ?? (await findConversation(tx, message.place, person));
  const base = { message, threads: settings.threads, followUp: settings.followUp, now: settings.now, mayAsk: settings.mayAsk };
  const isCoded = await namesApproval(tx, message);
  if (!conversation) return { conversation, person, place: message.place, route: { ...base, answerable: [], decides: isCoded, activeHere: false, quotesOwnRun: false } };
  const active = await activeRuns(tx, conversation.id);
  const open = (await openInteractions(tx, conversation.id)).filter((row) => mayAnswer(JSON.parse(row.may_answer) as MayAnswer, message.author, active.find((run) => run.id === row.run_id)?.asker ?? ''));
  const own = active.filter((run) => run.asker === message.author.id && run.status !== 'suspended').at(-1);
  const lastAsker = await newestAsker(tx, conversation.id);
  return {
    conversation,
    person,
    place: message.place,
    route: {
      ...base,
      answerable: await answerable(tx, message, open),
      decides: isCoded || open.some((row) => row.kind === 'approval'),
      ...(own ? { ownRun: { id: own.id, messageKeys: own.message_key ? [own.message_key] : [] } } : {}),
      activeHere: active.length > 0,
      quotesOwnRun: own !== undefined && (quotedConversation !== undefined || (await quotes(tx, message, own))),
      ...(lastAsker === undefined ? {} : { lastAsker }),
      ...(conversation.last_post_at === null ? {} : { lastPostAt: conversation.last_post_at }),
    },
  };
}

/** A reply to any post of ours belongs to that post's conversation. */
async function conversationOfQuote(tx: Tx, message: IncomingMessage): Promise<Conversation | undefined> {
  if (!message.quoted) return undefined;
  const post = await findPost(tx, message.place, message.quoted.messageId);
  return post ? readConversation(tx, post.conversation_id) : undefined;
}

/** The question itself, or the progress bubble. */
async function quotes(tx: Tx, message: IncomingMessage, run: RunRow): Promise<boolean> {
  const quotedId = message.quoted?.messageId;
  if (quotedId === undefined) return false;
  if (run.message_key?.endsWith(`:${quotedId}`)) return true;
  const live = await readLive(tx, run.id);
  return live?.handle ? (JSON.parse(live.handle) as LiveHandle).platformMessageId === quotedId : false;
}

async function newestAsker(tx: Tx, conversationId: string): Promise<string | undefined> {
  const row = await tx.selectFrom('runs').select('asker').where('conversation_id', '=', conversationId).orderBy('position', 'desc').limit(1).executeTakeFirst();
  return row?.asker;
}

/** The message has the form of a decision, and its code is that of an approval. */
async function namesApproval(tx: Tx, message: IncomingMessage): Promise<boolean> {
  const decision = decisionIn(textOf(message.content).trim());
  return decision !== undefined && (await interactionByCode(tx, message.place, decision.code))?.kind === 'approval';
}

/** Questions that this person may answer in words: those people can see, asked of them. */
async function answerable(tx: Tx, message: IncomingMessage, open: readonly InteractionRow[]): Promise<RouteFacts['answerable']> {
  const questions: RouteFacts['answerable'][number][] = [];
  for (const row of open) {
    if (row.kind !== 'clarify' && row.kind !== 'takeover') continue;
    if (row.expires_at !== null && row.expires_at <= Date.parse(message.at)) continue;
    const { options } = JSON.parse(row.body) as Interaction;
    questions.push({ id: row.id, code: row.code, options, postIds: await postIds(tx, row.id) });
  }
  return questions;
}

async function postIds(tx: Tx, interactionId: string): Promise<string[]> {
  const rows = await tx.selectFrom('outbox').select('parts').where('interaction_id', '=', interactionId).execute();
  return rows.flatMap((row) => (JSON.parse(row.parts) as SentPart[]).map((part) => part.platformMessageId));
}
