import type { Place } from '../adapters/types.ts';
import { newId } from './ids.ts';
import type { ConversationTable, Reader, Tx } from './schema.ts';

export type Conversation = ConversationTable;

/** `person` is `''` where the platform has threads, and in direct chats. */
export async function findConversation(db: Reader, place: Place, person = ''): Promise<Conversation | undefined> {
  return db
    .selectFrom('conversations')
    .selectAll()
    .where('platform', '=', place.platform)
    .where('tenant', '=', place.tenant)
    .where('channel', '=', place.channel)
    .where('thread', '=', place.thread)
    .where('person', '=', person)
    .executeTakeFirst();
}

export async function findOrCreateConversation(tx: Tx, place: Place, at: number, person = ''): Promise<Conversation> {
  const found = await findConversation(tx, place, person);
  if (found) return found;
  const row: Conversation = {
    id: newId('c', at),
    platform: place.platform,
    tenant: place.tenant,
    channel: place.channel,
    thread: place.thread,
    person,
    audience: place.audience,
    language: null,
    seen_through: null,
    last_post_at: null,
    created_at: at,
  };
  await tx
    .insertInto('conversations')
    .values(row)
    .onConflict((oc) => oc.columns(['platform', 'tenant', 'channel', 'thread', 'person']).doNothing())
    .execute();
  return (await findConversation(tx, place, person)) ?? row;
}

export async function readConversation(db: Reader, id: string): Promise<Conversation | undefined> {
  return db.selectFrom('conversations').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function markPosted(tx: Tx, id: string, at: number): Promise<void> {
  await tx.updateTable('conversations').set({ last_post_at: at }).where('id', '=', id).execute();
}

export async function setLanguage(tx: Tx, id: string, language: string): Promise<void> {
  await tx.updateTable('conversations').set({ language }).where('id', '=', id).execute();
}

/** Thread of a conversation that a post of ours opens, until the platform has given that post an id. */
export const threadOfPost = (outboxKey: string): string => `post:${outboxKey}`;

/**
 * A post of ours on the main level of a channel becomes the root of its own thread: replies to it belong to its conversation. Conversations
 * that were there before the post keep their place, and so does one whose thread a quick reply has already opened.
 */
export async function setThread(tx: Tx, id: string, thread: string): Promise<void> {
  await tx
    .updateTable('conversations')
    .set({ thread })
    .where('id', '=', id)
    .where('thread', 'like', `${threadOfPost('')}%`)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('conversations as other')
            .select('other.id')
            .where('other.thread', '=', thread)
            .whereRef('other.platform', '=', 'conversations.platform')
            .whereRef('other.tenant', '=', 'conversations.tenant')
            .whereRef('other.channel', '=', 'conversations.channel')
            .whereRef('other.person', '=', 'conversations.person'),
        ),
      ),
    )
    .execute();
}
