/** Sends what waits in the outbox: in order within a conversation, side by side between conversations. Progress bubbles share that order. */
import { messageOf, StoreError } from '../errors.ts';
import type { Log } from '../log.ts';
import { closeLive, dueHeads, freeOutbox, nextAttemptAt, type OutboxRow, openLive, readLive, readOutbox, type SentPart, setLive, staleLive } from '../store/outbox.ts';
import { type DeliveryDeps, deliver, type Settled } from './delivery.ts';
import type { Adapter, LiveHandle, Place, ProgressState } from './types.ts';

export type OutboxDeps = DeliveryDeps & {
  readonly log: Log;
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  /** Told of each row that is settled, after the commit. */
  readonly settled: (settled: Settled) => void;
};

export type RunProgress = { readonly runId: string; readonly conversationId: string; readonly place: Place; readonly state: ProgressState };
/** How a message fared: settled, or still waiting when the time was up. */
export type DeliveryReport = { readonly state: Settled['state'] | 'waiting'; readonly platformMessageId?: string; readonly error?: string };

/** Also counts rows that have to wait for their channel. */
const rowsAtOnce = 200;
const longestNapMs = 5000;
const noPlatformMs = 30_000;
const afterFailureMs = 2000;

export class Outbox {
  private readonly deps: OutboxDeps;
  private readonly busy = new Set<string>();
  private readonly atWork = new Set<Promise<void>>();
  private readonly wanted = new Map<string, RunProgress | { readonly close: true; readonly runId: string; readonly conversationId: string }>();
  private readonly waiters = new Map<string, Set<(report: DeliveryReport) => void>>();
  private readonly channelFreeAt = new Map<string, number>();
  /** When the first row that waits for its channel may go. */
  private nextTurnAt: number | undefined;
  private pumping = false;
  private again = false;
  private stopped = false;
  private lookForStaleAt = 0;
  private cancelNap = () => {};

  constructor(deps: OutboxDeps) {
    this.deps = deps;
  }

  /** `alone`: no other process uses this database, so what is held is held by nobody. */
  async start(alone: boolean): Promise<void> {
    if (alone) await this.deps.store.transact(freeOutbox);
    this.wake();
  }

  wake(): void {
    if (this.stopped) return;
    this.again = true;
    if (!this.pumping) void this.pump();
  }

  /** Shows or changes the bubble of a run; only the newest state counts. */
  progress(progress: RunProgress): void {
    this.wanted.set(progress.runId, progress);
    this.wake();
  }

  /** The run has ended or waits for people: a bubble that no message finishes goes away. */
  endProgress(runId: string, conversationId: string): void {
    this.wanted.set(runId, { close: true, runId, conversationId });
    this.wake();
  }

  /** Waits until the row is settled, `ms` have passed, or the signal aborts. */
  async delivered(key: string, ms: number, signal: AbortSignal): Promise<DeliveryReport> {
    return new Promise((resolve) => {
      const done = (report: DeliveryReport) => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        const waiting = this.waiters.get(key);
        waiting?.delete(done);
        if (waiting?.size === 0) this.waiters.delete(key);
        resolve(report);
      };
      const onAbort = () => done({ state: 'waiting' });
      const cancel = this.deps.clock.setTimer(ms, onAbort);
      signal.addEventListener('abort', onAbort, { once: true });
      this.waiters.set(key, (this.waiters.get(key) ?? new Set()).add(done));
      readOutbox(this.deps.store.db, key).then(
        (row) => row && row.state !== 'due' && done(reportOf(row)),
        () => {}, // the store is out of order; the time-out answers
      );
    });
  }

  /** Sends what can be sent within `flushMs`; the rest goes out after the next start. */
  async stop(flushMs: number): Promise<void> {
    this.wake();
    const cancel = this.deps.clock.setTimer(flushMs, () => (this.stopped = true));
    while (!this.stopped && (this.pumping || this.atWork.size > 0 || this.nextTurnAt !== undefined)) await Promise.race([...this.atWork, new Promise((resolve) => setImmediate(resolve))]);
    cancel();
    this.stopped = true;
    this.cancelNap();
    await Promise.allSettled([...this.atWork]);
  }

  private async pump(): Promise<void> {
    this.pumping = true;
    try {
      while (this.again && !this.stopped) {
        // Wakes of one turn of the event loop count as one.
        await new Promise((resolve) => setImmediate(resolve));
        this.again = false;
        this.cancelNap();
        this.nextTurnAt = undefined;
        const heads = await dueHeads(this.deps.store.db, this.deps.clock.now(), rowsAtOnce);
        for (const row of heads) if (this.takesTurn(row)) this.begin(row.conversation_id, () => this.deliverRow(row));
        await this.findStale();
        await this.showWanted();
        await this.nap();
      }
    } catch (error) {
      this.deps.log.warn({ error: messageOf(error) }, 'the outbox could not be read; trying again');
      this.cancelNap = this.deps.clock.setTimer(longestNapMs, () => this.wake());
    } finally {
      this.pumping = false;
      // A wake that came while this pump was ending would otherwise be lost.
      if (this.again && !this.stopped) void this.pump();
    }
  }

  /** Sleeps until a postponed row is due, or a channel may be posted to again; what is due already and not yet sent is woken by the delivery it waits for. */
  private async nap(): Promise<void> {
    const postponedTo = (await nextAttemptAt(this.deps.store.db)) ?? 0;
    if (this.again) return;
    const now = this.deps.clock.now();
    for (const [channel, freeAt] of this.channelFreeAt) if (freeAt <= now) this.channelFreeAt.delete(channel);
    const untilDue = postponedTo > now ? postponedTo - now : longestNapMs;
    const untilTurn = this.nextTurnAt === undefined ? longestNapMs : Math.max(0, this.nextTurnAt - now);
    this.cancelNap = this.deps.clock.setTimer(Math.min(untilDue, untilTurn, longestNapMs), () => this.wake());
  }

  /** One thing at a time in a conversation. */
  private begin(conversationId: string, work: () => Promise<void>): void {
    if (this.busy.has(conversationId)) return;
    this.busy.add(conversationId);
    const job = work()
      .then(
        () => this.free(conversationId),
        (error: unknown) => {
          if (!(error instanceof StoreError)) this.deps.log.error({ error }, 'a delivery broke');
          // What failed once fails again at once; without a pause nothing else would get a turn.
          this.deps.clock.setTimer(afterFailureMs, () => this.free(conversationId));
        },
      )
      .finally(() => this.atWork.delete(job));
    this.atWork.add(job);
  }

  private free(conversationId: string): void {
    this.busy.delete(conversationId);
    this.wake();
  }

  private async deliverRow(row: OutboxRow): Promise<void> {
    const adapter = this.adapterOf(row);
    if (!adapter) {
      await this.deps.store.transact((tx) =>
        tx
          .updateTable('outbox')
          .set({ next_attempt_at: this.deps.clock.now() + noPlatformMs, error: `the platform ${row.platform} is not connected` })
          .where('id', '=', row.id)
          .execute(),
      );
      return;
    }
    const settled = await deliver(this.deps, adapter, row);
    if (!settled) return;
    this.tell(row.key, { state: settled.state, ...(settled.platformMessageId ? { platformMessageId: settled.platformMessageId } : {}), ...(settled.error ? { error: settled.error } : {}) });
    this.deps.settled(settled);
  }

  /** A channel takes one post at a time, so that a question which comes later still goes before the answers that wait. */
  private takesTurn(row: OutboxRow): boolean {
    if (this.busy.has(row.conversation_id)) return false;
    const paceMs = this.adapterOf(row)?.can.paceMs ?? 0;
    if (paceMs === 0) return true;
    const now = this.deps.clock.now();
    const channel = `${row.platform}:${row.tenant}:${row.channel}`;
    const freeAt = this.channelFreeAt.get(channel) ?? now;
    if (freeAt > now) {
      this.nextTurnAt = Math.min(freeAt, this.nextTurnAt ?? freeAt);
      return false;
    }
    this.channelFreeAt.set(channel, now + paceMs);
    return true;
  }

  private adapterOf({ platform, tenant }: OutboxRow): Adapter | undefined {
    return this.deps.adapterOf({ platform: platform as Place['platform'], tenant });
  }

  /** Rows that were withdrawn elsewhere are told by `wake` of their writer: the waiter asks again. */
  private tell(key: string, report: DeliveryReport): void {
    for (const waiter of [...(this.waiters.get(key) ?? [])]) waiter(report);
  }

  /** Bubbles of runs that ended or wait for people, also those that a dead process left behind. */
  private async findStale(): Promise<void> {
    const now = this.deps.clock.now();
    if (now < this.lookForStaleAt) return;
    this.lookForStaleAt = now + longestNapMs;
    for (const live of await staleLive(this.deps.store.db)) this.wanted.set(live.run_id, { close: true, runId: live.run_id, conversationId: live.conversation_id });
  }

  private async showWanted(): Promise<void> {
    for (const [runId, wanted] of this.wanted) {
      if (this.busy.has(wanted.conversationId) || (await this.hasDue(wanted.conversationId))) continue;
      this.wanted.delete(runId);
      this.begin(wanted.conversationId, () => ('close' in wanted ? this.closeBubble(runId) : this.show(wanted)));
    }
  }

  private async hasDue(conversationId: string): Promise<boolean> {
    const row = await this.deps.store.db.selectFrom('outbox').select('id').where('state', '=', 'due').where('conversation_id', '=', conversationId).limit(1).executeTakeFirst();
    return row !== undefined;
  }

  private async show({ runId, conversationId, place, state }: RunProgress): Promise<void> {
    const { store, log } = this.deps;
    const adapter = this.deps.adapterOf(place);
    if (!adapter?.progress || !adapter.can.progress) return;
    const live = await readLive(store.db, runId);
    if (!live) await store.transact((tx) => openLive(tx, { runId, conversationId, place }));
    const handle = live?.handle ? (JSON.parse(live.handle) as LiveHandle) : undefined;
    try {
      const shown = await adapter.progress(place, state, handle);
      if (!handle || handle.platformMessageId !== shown.platformMessageId) await store.transact((tx) => setLive(tx, runId, shown));
    } catch (error) {
      if (error instanceof StoreError) throw error;
      log.debug({ run: runId, error: messageOf(error) }, 'progress was not shown');
    }
  }

  private async closeBubble(runId: string): Promise<void> {
    const { store, log } = this.deps;
    const live = await readLive(store.db, runId);
    if (!live) return;
    const place = JSON.parse(live.place) as Place;
    const adapter = this.deps.adapterOf(place);
    try {
      const known = live.handle ? (JSON.parse(live.handle) as LiveHandle) : undefined;
      const found = known ?? (await this.findBubble(adapter, runId, place));
      if (found) await adapter?.closeProgress?.(place, found);
    } catch (error) {
      log.debug({ run: runId, error: messageOf(error) }, 'a progress bubble could not be closed');
    }
    await store.transact((tx) => closeLive(tx, runId));
  }

  /** Killed between showing a bubble and storing its id. */
  private async findBubble(adapter: Adapter | undefined, runId: string, place: Place): Promise<LiveHandle | undefined> {
    const id = await adapter?.wasSent?.(progressKey(runId), place);
    return id === undefined ? undefined : { platformMessageId: id };
  }
}

export const progressKey = (runId: string): string => `${runId}/progress`;

function reportOf(row: OutboxRow): DeliveryReport {
  const last = (JSON.parse(row.parts) as SentPart[]).at(-1);
  return { state: row.state as Settled['state'], ...(last ? { platformMessageId: last.platformMessageId } : {}), ...(row.error ? { error: row.error } : {}) };
}
