/** Who wants to know that a thread changed. */
import type { ConsoleChange } from './types.ts';

export type Changes = { tell(change: ConsoleChange): void; subscribe(listener: (change: ConsoleChange) => void): () => void };

export function createChanges(): Changes {
  const listeners = new Set<(change: ConsoleChange) => void>();
  return {
    tell({ channel, thread }) {
      for (const listener of listeners) {
        try {
          listener({ channel, thread });
        } catch {
          // A listener that fails is its owner's concern; the message is stored and the others are told.
        }
      }
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
