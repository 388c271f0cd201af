/** Claims queued runs and drives them; repairs what was lost. Wake-ups only make it faster: the sweep finds everything. */
import type { Clock } from '../clock.ts';
import { messageOf, StoreError } from '../errors.ts';
import type { Log } from '../log.ts';
import { claimRuns, heartbeat, recoverRuns, releaseRun } from '../store/runs.ts';
import type { Store } from '../store/store.ts';
import { type Drive, type DriverDeps, startDrive } from './driver.ts';

export type WorkerDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Names this process in leases. */
  readonly owner: string;
  readonly maxRuns: number;
  readonly driver: DriverDeps;
};

const leaseMs = 30_000;
const sweepMs = 5000;
/** After the planned end of a drain, what still hangs has this long to notice its abort signal. */
const abortMs = 1000;

export class Worker {
  private readonly deps: WorkerDeps;
  private readonly active = new Map<string, Drive>();
  private claiming = false;
  private again = false;
  private draining = false;
  private sweeping: Promise<void> = Promise.resolve();
  private cancelSweep = () => {};

  constructor(deps: WorkerDeps) {
    this.deps = deps;
  }

  /** `alone`: no other process uses this database, so every run at work belongs to a dead one. */
  async start(alone: boolean): Promise<void> {
    const { store, owner } = this.deps;
    if (alone) await store.transact((tx) => recoverRuns(tx, { notOwner: owner }));
    this.scheduleSweep();
    this.wake();
  }

  /** There may be a queued run. */
  wake(): void {
    this.again = true;
    if (!this.claiming && !this.draining) void this.claim();
  }

  /** Somebody appended to this run. */
  nudge(runId: string): void {
    this.active.get(runId)?.nudge();
  }

  running(): number {
    return this.active.size;
  }

  /** Takes nothing new, lets runs finish for `drainMs`, then hands the rest back as queued. */
  async stop(drainMs: number): Promise<void> {
    const { clock, log } = this.deps;
    this.draining = true;
    this.cancelSweep();
    const rest = () => Promise.allSettled([...this.active.values()].map((drive) => drive.finished));
    await within(clock, drainMs, rest());
    if (this.active.size > 0) log.info({ runs: this.active.size }, 'runs are handed back unfinished; they go on after the next start');
    for (const [id, drive] of this.active) {
      drive.abandon();
      await this.deps.store.transact((tx) => releaseRun(tx, id, this.deps.owner)).catch((error: unknown) => log.warn({ run: id, error: messageOf(error) }, 'a run could not be handed back; the next start takes it'));
    }
    await within(clock, abortMs, rest());
    await this.sweeping;
  }

  private async claim(): Promise<void> {
    this.claiming = true;
    try {
      while (this.again && !this.draining) {
        this.again = false;
        const { store, owner, clock, maxRuns } = this.deps;
        const limit = maxRuns - this.active.size;
        if (limit <= 0) break;
        const claimed = await claimRuns(store, { owner, now: clock.now(), leaseMs, limit });
        for (const id of claimed) this.drive(id);
        if (claimed.length === limit) this.again = true;
      }
    } catch (error) {
      this.deps.log.warn({ error: messageOf(error) }, 'runs could not be claimed; trying again with the next sweep');
    } finally {
      this.claiming = false;
    }
  }

  private drive(id: string): void {
    const drive = startDrive(this.deps.driver, id);
    this.active.set(id, drive);
    drive.finished
      .catch((error: unknown) => {
        if (!(error instanceof StoreError)) this.deps.log.error({ run: id, error }, 'a run could not be driven; the sweep takes it up again');
      })
      .finally(() => {
        this.active.delete(id);
        this.wake();
      });
  }

  private scheduleSweep(): void {
    this.cancelSweep = this.deps.clock.setTimer(sweepMs, () => {
      this.sweeping = this.sweep().finally(() => !this.draining && this.scheduleSweep());
    });
  }

  /** Lost wake-ups, lapsed leases, runs of ours that nobody drives, runs that somebody else moved. */
  private async sweep(): Promise<void> {
    const { store, clock, owner, log } = this.deps;
    try {
      if (store.degraded() !== undefined) return;
      await this.beat(owner, clock.now());
      this.wake();
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'the sweep failed; trying again');
    }
  }

  private async beat(owner: string, now: number): Promise<void> {
    const { store } = this.deps;
    const held = await store.db.selectFrom('runs').select('id').where('status', '=', 'running').execute();
    // A run of ours that somebody else ended is running no more, but its driver has to be told.
    if (held.length === 0 && this.active.size === 0) return;
    await store.transact(async (tx) => {
      const before = [...this.active.keys()];
      const mine = await heartbeat(tx, owner, now + leaseMs);
      for (const id of before) this.active.get(id)?.nudge();
      for (const { id } of mine) if (!this.active.has(id)) await releaseAsCrashed(tx, id, owner);
      await recoverRuns(tx, { now });
    });
  }
}

/** A drive of ours that broke: counts as a crash, so that a run which breaks every time ends. */
async function releaseAsCrashed(tx: Parameters<typeof releaseRun>[0], id: string, owner: string): Promise<void> {
  await tx
    .updateTable('runs')
    .set((eb) => ({ status: 'queued', owner: null, lease_until: null, recoveries: eb('recoveries', '+', 1) }))
    .where('id', '=', id)
    .where('owner', '=', owner)
    .where('status', '=', 'running')
    .execute();
}

async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = () => {};
  const late = new Promise<void>((resolve) => {
    cancel = clock.setTimer(ms, resolve);
  });
  await Promise.race([work, late]);
  cancel();
}
