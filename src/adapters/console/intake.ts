/** The way from the console's chat to the agent. A message counts as acknowledged when the agent has stored it, and is handed on again until then. */
import { type Clock, iso } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { IncomingEvent, Receipt, Submit } from '../types.ts';
import { incomingOf } from './parse.ts';
import { ConsoleError } from './parse-ids.ts';
import type { ConsoleMessage, ConsoleStorage } from './types.ts';

type Deps = { readonly clock: Clock; readonly storage: ConsoleStorage };

const againAfterMs = 5000;
const rowsAtOnce = 200;

export class Intake {
  private readonly deps: Deps;
  private agent: Submit | undefined;
  private cancelRetry: (() => void) | undefined;
  private lastEvent: number | undefined;

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /** Opens the door; what was left unacknowledged, by this process or one that died, goes first. */
  async start(submit: Submit): Promise<void> {
    this.agent = submit;
    await this.redeliver();
  }

  stop(): void {
    this.agent = undefined;
    this.cancelRetry?.();
    this.cancelRetry = undefined;
  }

  lastEventAt(): string | undefined {
    return this.lastEvent === undefined ? undefined : iso(this.lastEvent);
  }

  /** Throws before anything is stored that nobody would read. */
  checkOpen(): void {
    if (!this.agent) throw new ConsoleError('not_ready', 'Hermes is starting or stopping; please try again in a moment.');
  }

  async submit(event: IncomingEvent): Promise<Receipt> {
    this.checkOpen();
    this.lastEvent = this.deps.clock.now();
    return (this.agent as Submit)(event);
  }

  /** Hands a stored message on. Rejects when the agent has not taken it; it is then tried again by itself. */
  async hand(message: ConsoleMessage): Promise<Receipt> {
    const { storage } = this.deps;
    let receipt: Receipt;
    try {
      const quoted = message.quote === undefined ? undefined : await storage.read(message.quote);
      receipt = await this.submit(incomingOf(message, quoted));
    } catch (error) {
      if (error instanceof StoreError) this.retryLater();
      throw error;
    }
    try {
      await storage.acknowledge(message.messageId);
    } catch {
      // The agent has it; handed on once more it is recognised as a duplicate.
      this.retryLater();
    }
    return receipt;
  }

  private retryLater(): void {
    if (this.cancelRetry || !this.agent) return;
    this.cancelRetry = this.deps.clock.setTimer(againAfterMs, () => {
      this.cancelRetry = undefined;
      void this.redeliver();
    });
  }

  /** Never rejects. A message that fails for another reason than storage stays for the next start and does not hold up the others. */
  private async redeliver(): Promise<void> {
    try {
      for (let failed = 0; ; ) {
        const rows = await this.deps.storage.unacknowledged(rowsAtOnce);
        const before = failed;
        for (const row of rows) {
          if (!this.agent) return;
          await this.hand(row).catch((error: unknown) => {
            if (error instanceof StoreError) throw error;
            failed++;
          });
        }
        if (rows.length < rowsAtOnce || failed - before === rows.length) return;
      }
    } catch {
      this.retryLater();
    }
  }
}
