/** Delivers one outbox row: attempt committed first, each part's id stored before the next part, what is ambiguous asked about. */
import { type Clock, iso } from '../clock.ts';
import { messageOf, PlatformError } from '../errors.ts';
import { writeAudit } from '../store/audit.ts';
import { markDelivered } from '../store/interactions.ts';
import { beginAttempt, closeLive, type OutboxRow, partSent, postponeOutbox, readLive, readOutbox, type SentPart, settleOutbox } from '../store/outbox.ts';
import { setDelivery } from '../store/runs.ts';
import type { Tx } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { textsFor } from '../texts.ts';
import type { Adapter, LiveHandle, OutboundMessage } from './types.ts';

export type Settled = { readonly row: OutboxRow; readonly state: 'sent' | 'failed' | 'withdrawn' | 'unknown'; readonly platformMessageId?: string; readonly error?: string };
export type DeliveryDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  /** Secrets out: a platform's error may repeat the address it was called at. */
  readonly clean: (text: string) => string;
  /** Asked about each row that failed or whose fate is unknown, before it is settled: what to write in the same transaction, so that people are told. */
  readonly comeback: (settled: Settled) => Promise<(tx: Tx) => Promise<void>>;
};

const leaseMs = 60_000;
const sendMs = 30_000;
const firstBackoffMs = 1000;
const longestBackoffMs = 300_000;

/** What became of the row; undefined when it stays due. Throws only a StoreError. */
export async function deliver(deps: DeliveryDeps, adapter: Adapter, row: OutboxRow): Promise<Settled | undefined> {
  const message = JSON.parse(row.body) as OutboundMessage;
  const target = await targetOf(deps, adapter, row);
  if (target === 'gone') return settle(deps, row, { state: 'withdrawn' });
  return new Delivery(deps, adapter, row, message, target).run();
}

type Target = { readonly handles: readonly LiveHandle[]; readonly live: boolean };

/** The messages this one takes the place of: an earlier message of ours, or the progress bubble of its run. */
async function targetOf(deps: DeliveryDeps, adapter: Adapter, row: OutboxRow): Promise<Target | 'gone'> {
  const none: Target = { handles: [], live: false };
  if (row.replaces_key !== null) {
    const earlier = await readOutbox(deps.store.db, row.replaces_key);
    // Nobody ever saw the card, so there is nothing to settle.
    if (!earlier || (earlier.state !== 'sent' && earlier.state !== 'unknown')) return row.kind === 'receipt' ? 'gone' : none;
    const parts = JSON.parse(earlier.parts) as SentPart[];
    return adapter.can.editing && adapter.can.settleLater ? { handles: parts.map(({ platformMessageId }) => ({ platformMessageId })), live: false } : none;
  }
  if (row.run_id === null || (row.kind !== 'answer' && row.kind !== 'question' && row.kind !== 'report')) return none;
  const live = await readLive(deps.store.db, row.run_id);
  return live?.handle ? { handles: [JSON.parse(live.handle) as LiveHandle], live: true } : none;
}

async function settle(deps: DeliveryDeps, row: OutboxRow, settled: { state: Settled['state']; error?: string }, more?: (tx: Tx) => Promise<void>): Promise<Settled> {
  const result: Settled = { row, state: settled.state, ...(settled.error ? { error: settled.error } : {}) };
  const comeback = settled.state === 'failed' || settled.state === 'unknown' ? await deps.comeback(result) : undefined;
  const at = deps.clock.now();
  await deps.store.transact(async (tx) => {
    await more?.(tx);
    await comeback?.(tx);
    await settleOutbox(tx, row, { ...settled, at });
    const kind = settled.state === 'sent' ? 'delivery' : 'delivery_failed';
    if (settled.state !== 'withdrawn')
      await writeAudit(tx, [{ at, kind, actor: 'hermes', runId: row.run_id, conversationId: row.conversation_id, subject: row.key, data: { state: settled.state, ...(settled.error ? { error: settled.error } : {}) } }], deps.store.dialect);
    if (row.run_id !== null && (row.kind === 'answer' || row.kind === 'report')) await setDelivery(tx, row.run_id, settled.state === 'sent' ? 'delivered' : settled.state === 'unknown' ? 'unknown' : 'failed');
    if (settled.state === 'sent' && row.kind === 'question' && row.interaction_id !== null) await markDelivered(tx, row.interaction_id, at);
  });
  return result;
}

class Delivery {
  private readonly deps: DeliveryDeps;
  private readonly adapter: Adapter;
  private readonly row: OutboxRow;
  private readonly message: OutboundMessage;
  private readonly target: Target;
  private sent: SentPart[];
  /** A part with the mark of a possible repeat, which may have made it too long for one message. */
  private marked: OutboundMessage | undefined;

  constructor(deps: DeliveryDeps, adapter: Adapter, row: OutboxRow, message: OutboundMessage, target: Target) {
    this.deps = deps;
    this.adapter = adapter;
    this.row = row;
    this.message = message;
    this.target = target;
    this.sent = JSON.parse(row.parts) as SentPart[];
  }

  async run(): Promise<Settled | undefined> {
    const { deps, row } = this;
    try {
      const parts = await this.afterAmbiguity(this.adapter.split(this.message));
      if (parts === 'unknown') return await settle(deps, row, { state: 'unknown', error: 'the platform did not answer, and cannot be asked whether the message arrived' });
      const begun = await deps.store.transact((tx) => beginAttempt(tx, row, { owner: deps.owner, now: deps.clock.now(), leaseMs }));
      if (!begun) return undefined;
      return await this.sendAll(parts);
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      return this.failed(error);
    }
  }

  /** An attempt without an outcome stands before this one: find out, or mark the repeat. */
  private async afterAmbiguity(parts: OutboundMessage[]): Promise<OutboundMessage[] | 'unknown'> {
    const { adapter, row, sent } = this;
    const part = parts[sent.length];
    const isAmbiguous = row.attempt_at !== null;
    if (!part || this.handleFor(sent.length, parts.length)) return parts;
    if (adapter.can.askWhetherSent && isAmbiguous) {
      const id = await this.ask(part);
      if (id !== undefined) await this.arrived(part, id);
    }
    if (adapter.can.askWhetherSent || adapter.can.idempotentSend) return parts;
    if (isAmbiguous && (row.level >= 2 || row.repeats > 0)) return 'unknown';
    // The platform may refuse the repeat for a while; what comes in its place is still one.
    if (!isAmbiguous && row.repeats === 0) return parts;
    const marked = { ...part, markdown: `${part.markdown}\n\n${textsFor(part.language).maybeRepeated}` };
    this.marked = marked;
    return parts.map((p) => (p === part ? marked : p));
  }

  private async ask(part: OutboundMessage): Promise<string | undefined> {
    try {
      return await this.adapter.wasSent?.(part.key, part.place);
    } catch (error) {
      // The question could not be asked; whether the message arrived is as unknown as before.
      throw new PlatformError('unknown', messageOf(error), { outcome: 'unknown', cause: error });
    }
  }

  /** With fewer parts than before the last ones are replaced: that is where the buttons were. */
  private handleFor(index: number, parts: number): LiveHandle | undefined {
    const { handles } = this.target;
    return handles[index + Math.max(0, handles.length - parts)];
  }

  private async sendAll(parts: readonly OutboundMessage[]): Promise<Settled> {
    for (let index = this.sent.length; index < parts.length; index++) {
      const part = parts[index] as OutboundMessage;
      const platformMessageId = await this.sendWhole(part, this.handleFor(index, parts.length));
      if (index < parts.length - 1) await this.arrived(part, platformMessageId);
      else this.sent = [...this.sent, { key: part.key, platformMessageId }];
    }
    const settled = await settle(this.deps, this.row, { state: 'sent' }, async (tx) => {
      await partSent(tx, this.row, this.sent, this.message.place);
      if (this.target.live && this.row.run_id !== null) await closeLive(tx, this.row.run_id);
    });
    const last = this.sent.at(-1)?.platformMessageId;
    return last === undefined ? settled : { ...settled, platformMessageId: last };
  }

  private async sendWhole(part: OutboundMessage, handle: LiveHandle | undefined): Promise<string> {
    const [first, ...more] = part === this.marked ? this.adapter.split(part) : [part];
    let platformMessageId = await this.send(first ?? part, handle);
    for (const piece of more) platformMessageId = await this.send(piece, undefined);
    return platformMessageId;
  }

  private async arrived(part: OutboundMessage, platformMessageId: string): Promise<void> {
    const parts = [...this.sent, { key: part.key, platformMessageId }];
    await this.deps.store.transact((tx) => partSent(tx, this.row, parts, this.message.place));
    this.sent = parts;
  }

  /** What the platform refuses is tried in its plainer forms at once: without the controls, whose text says everything they say, and as a post of its own. */
  private async send(part: OutboundMessage, handle: LiveHandle | undefined): Promise<string> {
    const { buttons, input, ...plain } = part;
    const forms = buttons || input ? [part, plain] : [part];
    for (const place of handle ? [handle, undefined] : [undefined]) {
      for (const form of forms) {
        try {
          return await this.sendOnce(form, place);
        } catch (error) {
          const isLast = place === undefined && form === forms.at(-1);
          if (isLast || !(error instanceof PlatformError) || error.outcome !== 'refused') throw error;
        }
      }
    }
    throw new Error('no form was tried');
  }

  private async sendOnce(part: OutboundMessage, handle: LiveHandle | undefined): Promise<string> {
    const { clock } = this.deps;
    let cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      cancel = clock.setTimer(sendMs, () => reject(new PlatformError('timeout', `the platform did not answer within ${sendMs / 1000} s`, { outcome: 'unknown' })));
    });
    try {
      const { platformMessageId } = await Promise.race([this.adapter.send(part, handle), late]);
      return platformMessageId;
    } catch (error) {
      // An adapter that breaks in the middle may have posted.
      throw error instanceof PlatformError ? error : new PlatformError('adapter', messageOf(error), { outcome: 'unknown', cause: error });
    } finally {
      cancel();
    }
  }

  private async failed(error: PlatformError): Promise<Settled | undefined> {
    const { deps, row } = this;
    const reason = deps.clean(`${error.code}: ${error.message}`);
    if (error.outcome === 'refused') return settle(deps, row, { state: 'failed', error: reason });
    const backoff = Math.min(firstBackoffMs * 2 ** Math.min(row.attempts, 20), longestBackoffMs);
    const at = deps.clock.now() + (error.retryAfterMs ?? backoff);
    await deps.store.transact((tx) => postponeOutbox(tx, row, { at, error: `${reason} (${iso(deps.clock.now())})`, ambiguous: error.outcome === 'unknown' }));
    return undefined;
  }
}
