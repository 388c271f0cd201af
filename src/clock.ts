/** Time as a port: everything that waits or looks at the clock gets one, so tests move it by hand. */
export type Clock = {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls `fn` once after `ms`; returns how to call it off. */
  setTimer(ms: number, fn: () => void): () => void;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms`, or at once when the signal aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.setTimer(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

export const iso = (ms: number): string => new Date(ms).toISOString();
