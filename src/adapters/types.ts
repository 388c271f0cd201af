/** Words shared by every platform. Layer 0: types only, nothing here runs. */

export type Platform = 'slack' | 'feishu' | 'wecom' | 'console';
export type Language = 'zh' | 'en';

/** `id` is `platform:tenant:id`. Bots and externals (people outside the own tenant) never have rights by default. */
export type PersonRef = {
  readonly id: string;
  readonly name?: string;
  readonly isBot: boolean;
  readonly external: boolean;
};

/** Where a message stands. `thread` is `''` for the main level of a channel; `shared` means externals are present. */
export type Place = {
  readonly platform: Platform;
  readonly tenant: string;
  readonly channel: string;
  readonly thread: string;
  readonly audience: 'direct' | 'group' | 'shared';
};

export type Attachment = { readonly id: string; readonly name: string; readonly mimeType?: string; readonly size?: number };

export type ContentPart = { readonly type: 'text'; readonly text: string } | { readonly type: 'image' | 'file' | 'audio'; readonly attachment: Attachment };

export type QuotedMessage = { readonly messageId: string; readonly by?: PersonRef; readonly text?: string };

/** A normalised message of a person. `key` is `platform:tenant:channel:messageId`, `at` ISO 8601. The bot's own mention is already taken out of `content`. */
export type IncomingMessage = {
  readonly type: 'message';
  readonly key: string;
  readonly place: Place;
  readonly at: string;
  readonly author: PersonRef;
  readonly content: readonly ContentPart[];
  readonly mentionsBot: boolean;
  readonly mentions: readonly PersonRef[];
  readonly quoted?: QuotedMessage;
  readonly raw: unknown;
};

/** `of` is the key of the message that was changed; `key` is unique to this change. */
export type MessageChange = {
  readonly type: 'change';
  readonly key: string;
  readonly of: string;
  readonly kind: 'edited' | 'deleted';
  readonly place: Place;
  readonly at: string;
  readonly by: PersonRef;
  readonly content?: readonly ContentPart[];
  readonly mentionsBot?: boolean;
};

/** A press of a button (`choice`) or a text typed into a card (`text`). */
export type InteractionReply = {
  readonly type: 'reply';
  readonly key: string;
  readonly interactionId: string;
  readonly by: PersonRef;
  readonly at: string;
  readonly choice?: string;
  readonly text?: string;
};

export type IncomingEvent = IncomingMessage | MessageChange | InteractionReply;

/** The platform's immediate answer. `card` is the true state of a pressed card, `notice` a line for that person only. */
export type Receipt = {
  readonly state: 'accepted' | 'duplicate' | 'not_entitled' | 'expired' | 'already_decided' | 'unknown';
  readonly card?: OutboundMessage;
  readonly notice?: string;
};

/** Resolves once the event is stored; only then may the adapter acknowledge it. Rejects with a StoreError when it could not be stored. */
export type Submit = (event: IncomingEvent) => Promise<Receipt>;

export type Button = { readonly interactionId: string; readonly choice: string; readonly label: string; readonly style?: 'primary' | 'danger' };
export type TextInput = { readonly interactionId: string; readonly label: string };
export type OutboundFile = { readonly name: string; readonly mimeType: string; readonly blob: string };

/** One message to a group, complete without its buttons. `key` is an idempotency key; `replacesKey` names an earlier message of ours that this one takes the place of. */
export type OutboundMessage = {
  readonly key: string;
  readonly place: Place;
  readonly language: Language;
  readonly markdown: string;
  readonly buttons?: readonly Button[];
  readonly input?: TextInput;
  readonly files?: readonly OutboundFile[];
  readonly replacesKey?: string;
  readonly quote?: string;
};

/** `question` and `receipt` go before `answer`, and that before `report`, where several conversations of a channel wait. */
export type OutboxKind = 'question' | 'receipt' | 'notice' | 'answer' | 'group_message' | 'report';

/** A message as the pure parts write it; it becomes an outbox row in the same transaction as the step that caused it. */
export type OutboxDraft = {
  readonly kind: OutboxKind;
  readonly message: OutboundMessage;
  readonly runId?: string;
  readonly interactionId?: string;
  /** The level of the call it belongs to. */
  readonly level?: number;
};

/** A message on the platform that may be edited: a progress bubble, or an earlier message of ours. `data` belongs to the adapter. */
export type LiveHandle = { readonly platformMessageId: string; readonly data?: unknown };

/** What people see of a run at work: a verb, never model text. `key` names the bubble. */
export type ProgressState = { readonly key: string; readonly language: Language; readonly text: string; readonly elapsedMs: number };

export type HistoryLine = { readonly messageId: string; readonly by: PersonRef; readonly text: string; readonly at: string; readonly ours: boolean };

export type PlatformHealth = {
  readonly connected: boolean;
  readonly since?: string;
  readonly lastEventAt?: string;
  readonly lastSentAt?: string;
  readonly problem?: string;
};

export type Capabilities = {
  readonly threads: boolean;
  readonly buttons: boolean;
  readonly editing: boolean;
  readonly settleLater: boolean;
  readonly privateNotice: boolean;
  readonly progress: boolean;
  readonly history: boolean;
  readonly unmentionedMessages: boolean;
  readonly idempotentSend: boolean;
  readonly askWhetherSent: boolean;
  readonly lengthUnit: 'utf16' | 'bytes' | 'codepoints';
  readonly lengthLimit: number;
  /** Least time between two posts in one channel, ms. */
  readonly paceMs: number;
};

export type ChannelRef = { readonly id: string; readonly name: string };

/** What an adapter must remember over a restart. Values are JSON. */
export type Memo = {
  get(key: string): Promise<unknown>;
  set(key: string, value: unknown, ttlMs?: number): Promise<void>;
  delete(key: string): Promise<void>;
};

/**
 * One platform. `send` throws a PlatformError that says whether the message may have arrived (`outcome`).
 * An adapter never calls the agent; it only submits events and is called by the outbox.
 */
export interface Adapter {
  readonly platform: Platform;
  readonly tenant: string;
  readonly can: Capabilities;
  start(submit: Submit, memo: Memo): Promise<void>;
  /** Pure. Parts carry the keys `key`, `key#2`, `key#3` … */
  split(message: OutboundMessage): OutboundMessage[];
  /** With `live` the message takes the place of that bubble or earlier message. */
  send(part: OutboundMessage, live?: LiveHandle): Promise<{ platformMessageId: string }>;
  progress?(place: Place, state: ProgressState, live?: LiveHandle): Promise<LiveHandle>;
  /** Takes a bubble away whose run ended without a message to finish it. */
  closeProgress?(place: Place, live: LiveHandle): Promise<void>;
  /** The platform message id under which the message of this key stands, or undefined when the platform does not have it. */
  wasSent?(key: string, place: Place): Promise<string | undefined>;
  /** The newest `limit` lines, oldest first; the message that opened the thread stands before them, however old it is. */
  history?(place: Place, after: string | undefined, limit: number): Promise<HistoryLine[]>;
  download?(attachment: Attachment): Promise<Uint8Array>;
  isMember?(person: PersonRef, channel: string): Promise<boolean>;
  /** Channels that carry this name or id; the bot is a member of each. */
  findChannels?(nameOrId: string): Promise<ChannelRef[]>;
  /** The direct chat with a person, where the platform has one. */
  directPlace?(person: PersonRef): Place;
  health(): PlatformHealth;
  /** Ends the intake. `send` goes on working, so that what is finished can still be posted. */
  stop(): Promise<void>;
}
