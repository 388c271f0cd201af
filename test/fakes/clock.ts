/** A clock that only tests move. */
import type { Clock } from '../../src/clock.ts';

export type FakeClock = Clock & {
  /** Moves time on and fires the timers that fall due on the way, in the order of their due times. */
  advance(ms: number): Promise<void>;
  /** Time passes while the machine sleeps: no timer fires before the next `advance`. */
  sleep(ms: number): void;
  /** Timers that are set. */
  pending(): number;
};

type Timer = { readonly dueAt: number; readonly order: number; readonly fn: () => void };

export function fakeClock(start = Date.parse('2026-01-05T09:00:00Z')): FakeClock {
  let now = start;
  let order = 0;
  const timers = new Set<Timer>();
  const firstDue = (until: number): Timer | undefined => [...timers].filter((timer) => timer.dueAt <= until).sort((a, b) => a.dueAt - b.dueAt || a.order - b.order)[0];
  return {
    now: () => now,
    setTimer(ms, fn) {
      const timer = { dueAt: now + Math.max(0, ms), order: order++, fn };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async advance(ms) {
      const until = now + ms;
      await settled();
      for (let timer = firstDue(until); timer; timer = firstDue(until)) {
        timers.delete(timer);
        now = Math.max(now, timer.dueAt);
        timer.fn();
        await settled();
      }
      now = until;
    },
    sleep(ms) {
      now += ms;
    },
    pending: () => timers.size,
  };
}

/** Everything that only waits for promises has run; a query on SQLite is such a thing, one on PostgreSQL is not. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
