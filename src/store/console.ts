/** The chat of the console: its channels and messages, as a platform's server would keep them. */
import type { ConsoleBody, ConsoleMessage, ConsolePost, ConsoleStorage, Reading, Spot } from '../adapters/console/types.ts';
import type { ConsoleMessageTable, Reader, Tx } from './schema.ts';
import type { Store } from './store.ts';

type Row = Omit<ConsoleMessageTable, 'id'> & { readonly id: number };

const botAuthor = 'hermes';
const mostChannels = 500;
/** Rows of one query, so that a long list does not hold up everything else. */
const rowsAtOnce = 500;

export function consoleStorage(store: Store): ConsoleStorage {
  const { db } = store;
  return {
    addChannels: (channels, at) =>
      store.transact(async (tx) => {
        for (const [index, channel] of channels.entries()) await upsertChannel(tx, { ...channel, created_at: at - channels.length + index });
      }),
    channels: () => db.selectFrom('console_channels').select(['id', 'name']).orderBy('created_at').orderBy('id').limit(mostChannels).execute(),
    add: (message) =>
      store.transact(async (tx) => {
        if (!isDirect(message.channel)) await ensureChannel(tx, message.channel, message.at);
        await tx
          .insertInto('console_messages')
          .values({ ...blank, ...placed(message), author: message.author, mention: message.mention ? 1 : 0, acknowledged: 0 })
          .execute();
      }),
    acknowledge: (messageId) => update(store, messageId, { acknowledged: 1 }),
    async unacknowledged(limit) {
      const rows = await db.selectFrom('console_messages').selectAll().where('acknowledged', '=', 0).orderBy('id').limit(limit).execute();
      return rows.map(messageOf);
    },
    read: (messageId) => readMessage(db, messageId),
    edit: (messageId, { text, at }) => update(store, messageId, { text, edited_at: at }),
    remove: (messageId, at) => update(store, messageId, { deleted_at: at, acknowledged: 1 }),
    post: (post, live) => store.transact((tx) => putPost(tx, post, live)),
    showProgress: (post, live) => store.transact((tx) => putProgress(tx, post, live)),
    closeProgress: (messageId) => store.transact((tx) => dropProgress(tx, messageId)),
    async findPost(key) {
      const row = await rowOfKey(db, key);
      return row && messageOf(row);
    },
    list: (reading) => list(db, reading),
  };
}

const isDirect = (channel: string): boolean => channel.startsWith('@');

const blank = { mention: 0, quote: null, body: null, outbound_key: null, progress: 0, acknowledged: 1, edited_at: null, deleted_at: null };

const placed = (message: Pick<ConsoleMessage, 'messageId' | 'channel' | 'thread' | 'text' | 'quote' | 'at'>) => ({
  message_id: message.messageId,
  channel: message.channel,
  thread: message.thread,
  text: message.text,
  quote: message.quote ?? null,
  at: message.at,
});

async function update(store: Store, messageId: string, values: Partial<Omit<ConsoleMessageTable, 'id'>>): Promise<void> {
  await store.transact((tx) => change(tx, messageId, values));
}

async function change(tx: Tx, messageId: string, values: Partial<Omit<ConsoleMessageTable, 'id'>>): Promise<void> {
  await tx.updateTable('console_messages').set(values).where('message_id', '=', messageId).execute();
}

// ---------------------------------------------------------------- channels

async function upsertChannel(tx: Tx, channel: { id: string; name: string; created_at: number }): Promise<void> {
  await tx
    .insertInto('console_channels')
    .values({ id: channel.id, name: channel.name, created_at: channel.created_at })
    .onConflict((oc) => oc.column('id').doUpdateSet({ name: channel.name }))
    .execute();
}

async function ensureChannel(tx: Tx, id: string, at: number): Promise<void> {
  if (await hasChannel(tx, id)) return;
  await tx
    .insertInto('console_channels')
    .values({ id, name: id, created_at: at })
    .onConflict((oc) => oc.column('id').doNothing())
    .execute();
}

async function hasChannel(db: Reader, id: string): Promise<boolean> {
  return (await db.selectFrom('console_channels').select('id').where('id', '=', id).executeTakeFirst()) !== undefined;
}

// ---------------------------------------------------------------- reading

async function readMessage(db: Reader, messageId: string): Promise<ConsoleMessage | undefined> {
  const row = await rowOfId(db, messageId);
  return row && messageOf(row);
}

async function rowOfId(db: Reader, messageId: string): Promise<Row | undefined> {
  return db.selectFrom('console_messages').selectAll().where('message_id', '=', messageId).executeTakeFirst();
}

async function rowOfKey(db: Reader, key: string): Promise<Row | undefined> {
  return db.selectFrom('console_messages').selectAll().where('outbound_key', '=', key).executeTakeFirst();
}

/** In batches from the newest back. */
async function list(db: Reader, reading: Reading): Promise<ConsoleMessage[]> {
  const after = reading.after === undefined ? 0 : ((await rowOfId(db, reading.after))?.id ?? 0);
  const found: ConsoleMessage[] = [];
  for (let before: number | undefined; found.length < reading.limit; ) {
    const wanted = Math.min(rowsAtOnce, reading.limit - found.length);
    const rows = await batch(db, reading, { after, before, limit: wanted });
    found.push(...rows.map(messageOf));
    before = rows.at(-1)?.id;
    if (rows.length < wanted) break;
  }
  return found.reverse();
}

function batch(db: Reader, reading: Reading, range: { after: number; before: number | undefined; limit: number }): Promise<Row[]> {
  return db
    .selectFrom('console_messages')
    .selectAll()
    .where('channel', '=', reading.channel)
    .where('deleted_at', 'is', null)
    .where('id', '>', range.after)
    .$if(reading.thread !== undefined, (q) => q.where('thread', '=', reading.thread ?? ''))
    .$if(range.before !== undefined, (q) => q.where('id', '<', range.before ?? 0))
    .$if(!reading.progress, (q) => q.where('progress', '=', 0))
    .orderBy('id', 'desc')
    .limit(range.limit)
    .execute();
}

function messageOf(row: Row): ConsoleMessage {
  return {
    messageId: row.message_id,
    channel: row.channel,
    thread: row.thread,
    author: row.author,
    text: row.text,
    mention: row.mention === 1,
    ...(row.quote === null ? {} : { quote: row.quote }),
    body: JSON.parse(row.body ?? '{}') as ConsoleBody,
    progress: row.progress === 1,
    at: row.at,
    ...(row.edited_at === null ? {} : { editedAt: row.edited_at }),
    deleted: row.deleted_at !== null,
  };
}

// ---------------------------------------------------------------- messages of ours

const spotOf = (row: Pick<Row, 'message_id' | 'channel' | 'thread'>): Spot => ({ messageId: row.message_id, channel: row.channel, thread: row.thread });

async function putPost(tx: Tx, post: ConsolePost, live: string | undefined): Promise<Spot | undefined> {
  const known = await rowOfKey(tx, post.key);
  const earlier = live === undefined ? undefined : await rowOfId(tx, live);
  // It arrived before, beside the bubble it was meant to finish.
  if (known && earlier && known.id !== earlier.id && earlier.progress === 1) await dropProgress(tx, earlier.message_id);
  const target = known ?? (earlier?.deleted_at === null ? earlier : undefined);
  if (!target) return insertPost(tx, post, 0);
  if (known && live === undefined) return spotOf(known);
  const finishes = target.progress === 1;
  const when = finishes ? { at: post.at, edited_at: null } : { edited_at: post.at };
  await change(tx, target.message_id, { text: post.text, body: JSON.stringify(post.body), outbound_key: post.key, progress: 0, ...when });
  return spotOf(target);
}

async function putProgress(tx: Tx, post: ConsolePost, live: string | undefined): Promise<Spot | undefined> {
  const target = (await rowOfKey(tx, post.key)) ?? (live === undefined ? undefined : await rowOfId(tx, live));
  if (!target) return insertPost(tx, post, 1);
  if (target.progress === 1) await change(tx, target.message_id, { text: post.text });
  return spotOf(target);
}

/** A bubble is nobody's message: nothing is kept of it, and its key may be used again. */
async function dropProgress(tx: Tx, messageId: string): Promise<Spot | undefined> {
  const row = await tx.deleteFrom('console_messages').where('message_id', '=', messageId).where('progress', '=', 1).returning(['message_id', 'channel', 'thread']).executeTakeFirst();
  return row && spotOf(row);
}

async function insertPost(tx: Tx, post: ConsolePost, progress: 0 | 1): Promise<Spot | undefined> {
  if (!isDirect(post.channel) && !(await hasChannel(tx, post.channel))) return undefined;
  await tx
    .insertInto('console_messages')
    .values({ ...blank, ...placed(post), author: botAuthor, body: JSON.stringify(post.body), outbound_key: post.key, progress })
    .execute();
  return { messageId: post.messageId, channel: post.channel, thread: post.thread };
}
