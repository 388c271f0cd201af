/** Ids of messages: sorted by time, also several within a millisecond; unique, also where several processes make them. */
import { randomInt } from 'node:crypto';
import type { Clock } from '../../clock.ts';

const timeDigits = 9;
const countDigits = 2;
const randomDigits = 4;
const base = 36;

export function createMessageIds(clock: Clock, random: (below: number) => number = randomInt): () => string {
  let lastMs = 0;
  let count = 0;
  return () => {
    const now = clock.now();
    const isNewMs = now > lastMs;
    count = isNewMs ? 0 : (count + 1) % base ** countDigits;
    // A clock that was set back, and a counter that ran over, use up the next milliseconds.
    lastMs = isNewMs ? now : count === 0 ? lastMs + 1 : lastMs;
    return `m${digits(lastMs, timeDigits)}${digits(count, countDigits)}${digits(random(base ** randomDigits), randomDigits)}`;
  };
}

const digits = (value: number, length: number): string => value.toString(base).padStart(length, '0');
