import { describe, expect, it } from 'vitest';
import type { Clock } from '../clock.ts';
import { currentTime } from './current-time.ts';
import type { ToolContext } from './types.ts';

const clock: Clock = { now: () => Date.UTC(2026, 10, 30, 18, 3, 9), setTimer: () => () => {} };

async function ask(timezone?: string) {
  const context = { timezone: 'Asia/Shanghai', clock } as ToolContext;
  return currentTime.execute?.(timezone === undefined ? {} : { timezone }, context, undefined);
}

describe('current_time', () => {
  const answers: readonly (readonly [zone: string | undefined, sentence: string])[] = [
    [undefined, 'It is 2026-12-01 02:03:09 on Tuesday in Asia/Shanghai (UTC+08:00).'],
    ['', 'It is 2026-12-01 02:03:09 on Tuesday in Asia/Shanghai (UTC+08:00).'],
    ['UTC', 'It is 2026-11-30 18:03:09 on Monday in UTC (UTC+00:00).'],
    ['Asia/Kathmandu', 'It is 2026-11-30 23:48:09 on Monday in Asia/Kathmandu (UTC+05:45).'],
    [' America/St_Johns ', 'It is 2026-11-30 14:33:09 on Monday in America/St_Johns (UTC-03:30).'],
    ['Asia/Kolkata', 'It is 2026-11-30 23:33:09 on Monday in Asia/Kolkata (UTC+05:30).'],
    ['europe/berlin', 'It is 2026-11-30 19:03:09 on Monday in Europe/Berlin (UTC+01:00).'],
  ];
  it.each(answers)('tells the time in %j', async (zone, sentence) => {
    expect(await ask(zone)).toEqual({ ok: true, content: sentence });
  });

  const unknown: readonly (readonly [zone: string, suggestion: string])[] = [
    ['Asia/Shangai', 'Asia/Shanghai'],
    ['Beijing', 'Asia/Shanghai'],
    ['北京时间', 'Asia/Shanghai'],
    ['New York', 'America/New_York'],
    ['berlin', 'Europe/Berlin'],
    ['Mars/Olympus Mons', 'UTC'],
  ];
  it.each(unknown)('does not know %j and suggests %s', async (zone, suggestion) => {
    const result = await ask(zone);
    expect(result).toMatchObject({ ok: false, error: 'arguments' });
    expect(result?.content).toContain(`"${zone}"`);
    expect(result?.content).toContain(suggestion);
  });
});
