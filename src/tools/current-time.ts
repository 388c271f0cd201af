import { z } from 'zod';
import type { ToolDefinition, ToolResult } from './types.ts';

const args = z.object({
  timezone: z.string().optional().describe('IANA time zone, for example "Asia/Shanghai"; leave out for the group\'s own'),
});

export const currentTime: ToolDefinition<z.output<typeof args>> = {
  name: 'current_time',
  description:
    'Tells what time, date and weekday it is now. Use it for everything that depends on today or now; without this tool you have no such data; do not make it up. Do not use it to convert other times. Returns one sentence with date, time, weekday, zone and offset.',
  level: 0,
  args,
  retrySafe: true,
  trusted: true,
  execute: async ({ timezone }, context) => timeIn(timezone?.trim() || context.timezone, context.clock.now()),
};

function timeIn(zone: string, now: number): ToolResult {
  const known = knownZone(zone);
  if (known === undefined) return { ok: false, error: 'arguments', content: `There is no time zone "${zone}". Use an IANA name, such as ${nearestZones(zone).join(', ')}.` };
  return { ok: true, content: sentence(known, now) };
}

/** The zone in its usual spelling. An old name stays as it was written. */
function knownZone(zone: string): string | undefined {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions();
    return timeZone.toLowerCase() === zone.toLowerCase() ? timeZone : zone;
  } catch {
    return undefined;
  }
}

function sentence(zone: string, now: number): string {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    weekday: 'long',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'longOffset',
  });
  const part = Object.fromEntries(format.formatToParts(now).map(({ type, value }) => [type, value]));
  const offset = part.timeZoneName === 'GMT' ? 'UTC+00:00' : part.timeZoneName?.replace('GMT', 'UTC');
  return `It is ${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} on ${part.weekday} in ${zone} (${offset}).`;
}

/** Cities that people name and the zone list does not. */
const cities: Readonly<Record<string, string>> = {
  beijing: 'Asia/Shanghai',
  北京: 'Asia/Shanghai',
  上海: 'Asia/Shanghai',
  东京: 'Asia/Tokyo',
  伦敦: 'Europe/London',
  纽约: 'America/New_York',
  mumbai: 'Asia/Kolkata',
  delhi: 'Asia/Kolkata',
  'san francisco': 'America/Los_Angeles',
};

function nearestZones(zone: string): string[] {
  const wanted = zone.toLowerCase().replaceAll('_', ' ');
  const city = Object.entries(cities).find(([name]) => wanted.includes(name))?.[1];
  const scored = Intl.supportedValuesOf('timeZone')
    .map((name) => ({ name, likeness: likeness(wanted, name.toLowerCase().replaceAll('_', ' ')) }))
    .filter(({ likeness }) => likeness > 0.45)
    .sort((a, b) => b.likeness - a.likeness)
    .map(({ name }) => name);
  const found = [...new Set([...(city ? [city] : []), ...scored])].slice(0, 3);
  return found.length > 0 ? found : ['Asia/Shanghai', 'Europe/London', 'UTC'];
}

/** Share of letter pairs in common, with the whole name or with its city: 0 to 1. */
function likeness(wanted: string, name: string): number {
  const city = name.slice(name.lastIndexOf('/') + 1);
  return Math.max(sharedPairs(wanted, name), sharedPairs(wanted, city), sharedPairs(wanted.slice(wanted.lastIndexOf('/') + 1), city));
}

function sharedPairs(a: string, b: string): number {
  const [ofA, ofB] = [pairs(a), pairs(b)];
  const common = [...ofA].filter((pair) => ofB.has(pair)).length;
  return ofA.size + ofB.size === 0 ? 0 : (2 * common) / (ofA.size + ofB.size);
}

const pairs = (word: string): Set<string> => new Set(Array.from({ length: Math.max(0, word.length - 1) }, (_, i) => word.slice(i, i + 2)));
