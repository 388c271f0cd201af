/** A chat platform in memory that outlives the bot's process: strict about what it takes, able to refuse, to lose answers and to redeliver. */
import { splitMessage } from '../../src/adapters/shared/split.ts';
import type { Adapter, Capabilities, HistoryLine, IncomingEvent, LiveHandle, OutboundMessage, PersonRef, Place, Receipt, Submit } from '../../src/adapters/types.ts';
import { PlatformError } from '../../src/errors.ts';

export type Posted = {
  id: string;
  readonly channel: string;
  readonly thread: string;
  readonly by: PersonRef;
  /** As first posted; edits change only `text`. */
  readonly original: string;
  text: string;
  buttons: OutboundMessage['buttons'];
  readonly keys: string[];
  edits: number;
  progress: boolean;
  gone: boolean;
  readonly at: number;
};

const bot: PersonRef = { id: 'console:test:hermes', name: 'hermes', isBot: true, external: false };
export const person = (id: string, name = id): PersonRef => ({ id: `console:test:${id}`, name, isBot: false, external: false });

const everything: Capabilities = {
  threads: true,
  buttons: true,
  editing: true,
  settleLater: true,
  privateNotice: true,
  progress: true,
  history: true,
  unmentionedMessages: true,
  idempotentSend: false,
  askWhetherSent: true,
  lengthUnit: 'utf16',
  lengthLimit: 4000,
  paceMs: 0,
};

const sizes: Readonly<Record<Capabilities['lengthUnit'], (text: string) => number>> = { utf16: (text) => text.length, bytes: (text) => Buffer.byteLength(text), codepoints: (text) => [...text].length };

export class FakePlatform {
  readonly posted: Posted[] = [];
  readonly can: Capabilities;
  readonly channels = [
    { id: 'C_OPS', name: 'ops' },
    { id: 'C_ALL', name: 'all' },
    { id: 'C_DUTY', name: 'duty' },
  ];
  /** Thrown when the bot takes its leave. */
  farewell: Error | undefined;
  /** Calls the bot made to post or edit. */
  sends = 0;
  /** Decides on each send: nothing, an error thrown before posting, or `lost` (posted, but the answer does not arrive). */
  onSend: (message: OutboundMessage, count: number) => PlatformError | 'lost' | undefined = () => undefined;
  /** The same for a progress bubble that is shown or changed. */
  onProgress: () => PlatformError | undefined = () => undefined;
  /** Takes the place of the thread's real history. */
  onHistory: (() => Promise<HistoryLine[]>) | undefined;
  private counter = 0;
  private readonly now: () => number;

  constructor(options: { can?: Partial<Capabilities>; now: () => number }) {
    this.can = { ...everything, ...options.can };
    this.now = options.now;
  }

  /** The bot's side of the wire, for one process. */
  connect(): FakeConnection {
    return new FakeConnection(this);
  }

  nextId(): string {
    this.counter += 1;
    return `m${String(this.counter).padStart(4, '0')}`;
  }

  /** What a person writes; the event to submit. */
  say(by: PersonRef, text: string, options: { channel?: string; thread?: string; mention?: boolean; mentions?: PersonRef[]; quote?: string; audience?: Place['audience'] } = {}): Extract<IncomingEvent, { type: 'message' }> {
    const id = this.nextId();
    const channel = options.channel ?? 'C_OPS';
    const thread = options.audience === 'direct' ? '' : (options.thread ?? id);
    this.posted.push({ id, channel, thread, by, original: text, text, buttons: undefined, keys: [], edits: 0, progress: false, gone: false, at: this.now() });
    return {
      type: 'message',
      key: `console:test:${channel}:${id}`,
      place: { platform: 'console', tenant: 'test', channel, thread, audience: options.audience ?? 'group' },
      at: new Date(this.now()).toISOString(),
      author: by,
      content: [{ type: 'text', text }],
      mentionsBot: options.mention ?? options.thread === undefined,
      mentions: options.mentions ?? [],
      ...(options.quote ? { quoted: { messageId: options.quote } } : {}),
      raw: { text },
    };
  }

  /** What the bot has posted and not taken back, oldest first. */
  ours(channel?: string): Posted[] {
    return this.posted.filter((m) => m.by.isBot && !m.gone && !m.progress && (channel === undefined || m.channel === channel));
  }

  texts(channel?: string): string[] {
    return this.ours(channel).map((m) => m.text);
  }

  post(message: OutboundMessage): Posted {
    if (message.markdown === '') throw new PlatformError('no_text', 'the message is empty', { outcome: 'refused' });
    const size = sizes[this.can.lengthUnit](message.markdown);
    if (size > this.can.lengthLimit) throw new PlatformError('msg_too_long', `the message has ${size} ${this.can.lengthUnit}`, { outcome: 'refused' });
    if (!message.markdown.isWellFormed()) throw new PlatformError('invalid_text', 'the text is not well-formed Unicode', { outcome: 'refused' });
    const id = this.nextId();
    const posted: Posted = {
      id,
      channel: message.place.channel,
      thread: message.place.thread || id,
      by: bot,
      original: message.markdown,
      text: message.markdown,
      buttons: message.buttons,
      keys: [message.key],
      edits: 0,
      progress: false,
      gone: false,
      at: this.now(),
    };
    this.posted.push(posted);
    return posted;
  }

  edit(id: string, message: OutboundMessage): Posted {
    const found = this.posted.find((m) => m.id === id && !m.gone);
    if (!found) throw new PlatformError('message_not_found', `there is no message ${id}`, { outcome: 'refused' });
    Object.assign(found, { text: message.markdown, buttons: message.buttons, edits: found.edits + 1, progress: false });
    if (!found.keys.includes(message.key)) found.keys.push(message.key);
    return found;
  }
}

export class FakeConnection {
  readonly adapter: Adapter;
  private submit_: Submit | undefined;
  private dead = false;

  constructor(platform: FakePlatform) {
    const alive = async () => {
      if (this.dead) await new Promise<never>(() => {});
    };
    let connected = false;
    this.adapter = {
      platform: 'console',
      tenant: 'test',
      can: platform.can,
      start: async (submit) => {
        this.submit_ = submit;
        connected = true;
      },
      split: (message) => splitMessage(message, { limit: platform.can.lengthLimit, unit: platform.can.lengthUnit }),
      send: async (part, live) => {
        await alive();
        platform.sends += 1;
        const trouble = platform.onSend(part, platform.sends);
        if (trouble instanceof PlatformError) throw trouble;
        const known = platform.can.idempotentSend ? platform.posted.find((m) => m.keys.includes(part.key)) : undefined;
        if (known) return { platformMessageId: known.id };
        const posted = live ? platform.edit(live.platformMessageId, part) : platform.post(part);
        if (trouble === 'lost') throw new PlatformError('timeout', 'the answer was lost', { outcome: 'unknown' });
        return { platformMessageId: posted.id };
      },
      progress: async (place, state, live) => {
        await alive();
        const trouble = platform.onProgress();
        if (trouble) throw trouble;
        const message = { key: state.key, place, language: state.language, markdown: state.text };
        const posted = live ? platform.edit(live.platformMessageId, message) : platform.post(message);
        posted.progress = true;
        return { platformMessageId: posted.id };
      },
      closeProgress: async (_place, live: LiveHandle) => {
        await alive();
        const found = platform.posted.find((m) => m.id === live.platformMessageId);
        if (found) found.gone = true;
      },
      wasSent: async (key) => {
        await alive();
        return platform.posted.find((m) => m.keys.includes(key))?.id;
      },
      history: async (place, _after, limit) => {
        if (platform.onHistory) return platform.onHistory();
        const lines = platform.posted.filter((m) => m.channel === place.channel && m.thread === place.thread && !m.gone && !m.progress);
        const older = lines.slice(0, -limit).filter((m) => m.id === place.thread);
        return [...older, ...lines.slice(-limit)].map((m): HistoryLine => ({ messageId: m.id, by: m.by, text: m.text, at: new Date(m.at).toISOString(), ours: m.by.isBot }));
      },
      findChannels: async (nameOrId) => platform.channels.filter((c) => c.id === nameOrId || c.name === nameOrId),
      isMember: async () => true,
      directPlace: (who) => ({ platform: 'console', tenant: 'test', channel: `D_${who.id.split(':').at(-1)}`, thread: '', audience: 'direct' }),
      health: () => ({ connected }),
      stop: async () => {
        connected = false;
        this.submit_ = undefined;
        if (platform.farewell) throw platform.farewell;
      },
    };
  }

  async submit(event: IncomingEvent): Promise<Receipt> {
    if (!this.submit_ || this.dead) throw new Error('not connected');
    return this.submit_(event);
  }

  /** The process died: nothing of it reaches the platform any more. */
  kill(): void {
    this.dead = true;
  }
}
