/** Questions whose time is over, that deserve a reminder, or that nobody can see. */

import type { Language, Place } from '../adapters/types.ts';
import { cardLanguage } from '../agent/press.ts';
import { loadRun, record } from '../agent/recorder.ts';
import { decide } from '../agent/run.ts';
import type { Interaction } from '../agent/types.ts';
import { type Clock, iso } from '../clock.ts';
import { messageOf, RunConflictError } from '../errors.ts';
import type { Log } from '../log.ts';
import { cleanInbox } from '../store/inbox.ts';
import { dueInteractions, type InteractionRow, nextDueAt, reminded, resolveInteraction, unseenInteractions } from '../store/interactions.ts';
import { insertOutbox } from '../store/outbox.ts';
import { requeue } from '../store/runs.ts';
import type { Store } from '../store/store.ts';
import { textsFor } from '../texts.ts';

export type TickerDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly languageFor: (place: Place) => Language;
  readonly wake: (movedRuns: readonly string[]) => void;
};

const longestNapMs = 30_000;
const shortestNapMs = 20;
const cleanEveryMs = 3_600_000;
const conflictsEndured = 20;
const product = { id: 'hermes', isBot: true, external: false };

export class Ticker {
  private readonly deps: TickerDeps;
  private cancelTimer = () => {};
  private ticking: Promise<void> | undefined;
  private again = false;
  private stopped = false;
  private cleanAt = 0;

  constructor(deps: TickerDeps) {
    this.deps = deps;
  }

  /** A question was delivered, or given up. */
  poke(): void {
    if (this.stopped) return;
    this.again = true;
    this.ticking ??= this.run();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    await this.ticking;
  }

  private async run(): Promise<void> {
    while (this.again && !this.stopped) {
      this.again = false;
      this.cancelTimer();
      await this.tick();
    }
    this.ticking = undefined;
  }

  private async tick(): Promise<void> {
    const { store, clock, log } = this.deps;
    let napMs = longestNapMs;
    try {
      for (const row of await unseenInteractions(store.db)) await this.close(row, 'undeliverable', row.error ?? undefined);
      const due = await dueInteractions(store.db, clock.now());
      for (const row of due.expired) await this.close(row, 'expired');
      for (const row of due.remind) await this.remind(row);
      await this.clean();
      const next = await nextDueAt(store.db);
      if (next !== undefined) napMs = Math.min(Math.max(next - clock.now(), shortestNapMs), longestNapMs);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'what is due could not be looked at; trying again');
    }
    if (!this.stopped) this.cancelTimer = clock.setTimer(napMs, () => this.poke());
  }

  private async close(row: InteractionRow, outcome: 'expired' | 'undeliverable', reason?: string): Promise<void> {
    for (let conflicts = 0; conflicts < conflictsEndured; conflicts++) {
      try {
        await this.closeOnce(row, outcome, reason);
        return;
      } catch (error) {
        if (!(error instanceof RunConflictError)) throw error;
      }
    }
  }

  private async closeOnce(row: InteractionRow, outcome: 'expired' | 'undeliverable', reason?: string): Promise<void> {
    const { store, clock, wake } = this.deps;
    const at = clock.now();
    await store.transact(
      async (tx) => {
        const loaded = row.run_id === null ? undefined : await loadRun(tx, row.run_id);
        const steps = loaded ? decide(loaded.run, { kind: 'close_interaction', at, by: product, interactionId: row.id, outcome, ...(reason ? { reason } : {}) }) : [];
        // Its run is gone; left open, it would be due for ever.
        if (!loaded || steps.length === 0) return resolveInteraction(tx, row.id, { kind: 'withdrawn', at: iso(at) }, at);
        const language = await cardLanguage(this.deps, tx, row, loaded.run);
        await record(tx, store.dialect, { run: loaded.run, conversationId: loaded.row.conversation_id, language, steps, at });
        await requeue(tx, loaded.run.id);
      },
      { durable: true },
    );
    wake(row.run_id === null ? [] : [row.run_id]);
  }

  private async remind(row: InteractionRow): Promise<void> {
    const { store, clock, wake } = this.deps;
    const at = clock.now();
    await store.transact(async (tx) => {
      const loaded = row.run_id === null ? undefined : await loadRun(tx, row.run_id);
      if (!(await reminded(tx, row.id)) || !loaded) return;
      const language = await cardLanguage(this.deps, tx, row, loaded.run);
      const texts = textsFor(language);
      const { question, tool } = JSON.parse(row.body) as Interaction;
      const markdown = texts.reminder(row.kind === 'approval' ? `${tool ?? ''} \`${row.code}\`` : question, texts.duration((row.expires_at ?? at) - at));
      await insertOutbox(tx, { kind: 'notice', runId: loaded.run.id, message: { key: `${row.id}/reminder`, place: loaded.run.place, language, markdown } }, loaded.row.conversation_id, at);
    });
    wake([]);
  }

  private async clean(): Promise<void> {
    const { store, clock } = this.deps;
    if (clock.now() < this.cleanAt) return;
    const changed = await store.transact((tx) => cleanInbox(tx, clock.now()));
    this.cleanAt = changed === 0 ? clock.now() + cleanEveryMs : 0;
  }
}
