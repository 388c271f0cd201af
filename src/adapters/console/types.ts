/** The console keeps its chat itself, as a platform's server would: what it stores, and what the browser may ask of it. Layer 0. */
import type { Button, ChannelRef, OutboundFile, Receipt, TextInput } from '../types.ts';

/** What stands below the text of a message of ours. `settled`: it took the place of a card that is decided. */
export type ConsoleBody = { readonly buttons?: readonly Button[]; readonly input?: TextInput; readonly files?: readonly OutboundFile[]; readonly settled?: true };

/** `thread` is the id of the thread's first message, `''` in direct chats. `mention`: the bot was addressed without being named in the text. */
export type ConsoleMessage = {
  readonly messageId: string;
  readonly channel: string;
  readonly thread: string;
  readonly author: string;
  readonly text: string;
  readonly mention: boolean;
  readonly quote?: string;
  readonly body: ConsoleBody;
  readonly progress: boolean;
  readonly at: number;
  readonly editedAt?: number;
  readonly deleted: boolean;
};

export type PersonMessage = Pick<ConsoleMessage, 'messageId' | 'channel' | 'thread' | 'author' | 'text' | 'mention' | 'quote' | 'at'>;
/** A message of ours; `key` is its idempotency key. */
export type ConsolePost = Pick<ConsoleMessage, 'messageId' | 'channel' | 'thread' | 'text' | 'body' | 'quote' | 'at'> & { readonly key: string };
/** Where a message stands. */
export type Spot = Pick<ConsoleMessage, 'messageId' | 'channel' | 'thread'>;
/** `after`: only what came after this message. `progress`: bubbles too. */
export type Reading = { readonly channel: string; readonly thread?: string; readonly after?: string; readonly limit: number; readonly progress: boolean };

/** Each method that writes is one transaction; all reject with a StoreError when the database does not work. */
export type ConsoleStorage = {
  /** New ones are added, known ones get the new name. */
  addChannels(channels: readonly ChannelRef[], at: number): Promise<void>;
  channels(): Promise<ChannelRef[]>;
  /** A person's message, and its channel where that is new. It counts as not acknowledged. */
  add(message: PersonMessage): Promise<void>;
  acknowledge(messageId: string): Promise<void>;
  /** Oldest first. */
  unacknowledged(limit: number): Promise<ConsoleMessage[]>;
  read(messageId: string): Promise<ConsoleMessage | undefined>;
  edit(messageId: string, change: { readonly text: string; readonly at: number }): Promise<void>;
  /** The row stays, marked; it is not handed on any more. */
  remove(messageId: string, at: number): Promise<void>;
  /** At most once per key. With `live` the post takes the place of that message. Undefined: the channel does not exist. */
  post(post: ConsolePost, live?: string): Promise<Spot | undefined>;
  /** Shows or changes a progress bubble; one that an answer has finished already is left alone. Undefined: the channel does not exist. */
  showProgress(post: ConsolePost, live?: string): Promise<Spot | undefined>;
  /** Takes the bubble away; undefined when it is none any more. */
  closeProgress(messageId: string): Promise<Spot | undefined>;
  findPost(key: string): Promise<ConsoleMessage | undefined>;
  /** The newest that are not deleted, oldest first. */
  list(reading: Reading): Promise<ConsoleMessage[]>;
};

/** One message as the browser shows it. Ids of threads and quoted messages are the last part of a key. */
export type ConsoleLine = {
  readonly key: string;
  readonly thread: string;
  readonly user: string;
  readonly text: string;
  readonly at: string;
  readonly buttons?: readonly Button[];
  readonly input?: TextInput;
  readonly quote?: string;
  readonly mention?: true;
  readonly progress?: true;
  readonly settled?: true;
  readonly edited?: true;
};

export type ConsoleChange = { readonly channel: string; readonly thread: string };

/** `thread` and `quote` take the id or the whole key of a message; `''` is none. */
export type PostRequest = { readonly channel: string; readonly user: string; readonly text: string; readonly thread?: string; readonly mention?: boolean; readonly quote?: string };
export type MessagesRequest = { readonly channel: string; readonly thread?: string; readonly user?: string; readonly limit?: number };
export type PressRequest = { readonly user: string; readonly choice?: string; readonly text?: string };

/**
 * What HTTP calls. Refusals are a ConsoleError or NotFoundError; a StoreError means that the agent has not taken it.
 * `user` names a person of the console, never of another platform. Without `user` an edit or deletion counts as the author's own.
 */
export type ConsoleServer = {
  /** `notice` is for this person only. */
  postMessage(request: PostRequest): Promise<{ key: string; thread: string; notice?: string }>;
  editMessage(key: string, user: string | undefined, text: string): Promise<void>;
  deleteMessage(key: string, user: string | undefined): Promise<void>;
  press(interactionId: string, request: PressRequest): Promise<Receipt>;
  messages(request: MessagesRequest): Promise<ConsoleLine[]>;
  channels(): Promise<ChannelRef[]>;
  /** Told of every change in a thread; answers how to end that. */
  subscribe(listener: (change: ConsoleChange) => void): () => void;
};
