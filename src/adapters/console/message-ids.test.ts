import { expect, test } from 'vitest';
import { fakeClock } from '../../../test/fakes/clock.ts';
import { createMessageIds } from './message-ids.ts';

test('ids sort in the order they were made, also thousands within one millisecond and after the clock was set back', async () => {
  const clock = fakeClock();
  let now = clock.now();
  const newId = createMessageIds({ ...clock, now: () => now });
  const ids: string[] = [];
  for (let i = 0; i < 3000; i++) ids.push(newId());
  now += 1;
  ids.push(newId());
  now -= 60_000;
  ids.push(newId());
  expect(ids).toEqual([...ids].sort());
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^m[0-9a-z]{15}$/);
});

test('two processes at the same moment make different ids', () => {
  const clock = fakeClock();
  expect(createMessageIds(clock, () => 1)()).not.toBe(createMessageIds(clock, () => 2)());
});
