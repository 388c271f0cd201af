/** Text is cut between characters, never inside one, on its way to the group and to the model. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Capabilities } from '../../src/adapters/types.ts';
import type { ToolDefinition } from '../../src/tools/types.ts';
import { idle, inThread, lin, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { calls, type FakeLlm, type ScriptedReply, startFakeLlm, text } from '../fakes/llm.ts';
import { Team, until } from '../fakes/team.ts';

let team: Team;
let clock: FakeClock;
let llm: FakeLlm;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(async () => {
  await team.end();
  await llm.close();
});

const awkward = `${'a'.repeat(1999)}${'😀'.repeat(3000)}`;

function dumpTool(result: string, maxChars: number): ToolDefinition<{ name: string }> {
  return {
    name: 'dump',
    description: 'For tests.',
    level: 0,
    args: z.object({ name: z.string() }),
    retrySafe: true,
    trusted: true,
    maxChars,
    execute: async ({ name }) => ({ ok: true, content: `${name}${result}` }),
  };
}

async function ask(replies: readonly ScriptedReply[], options: { can?: Partial<Capabilities>; tool?: ToolDefinition<{ name: string }>; words?: string } = {}): Promise<string> {
  llm = await startFakeLlm(replies);
  team = await Team.start({ clock, llm, can: options.can ?? {}, tools: [options.tool ?? dumpTool('', 100)] });
  const event = team.platform.say(lin, options.words ?? 'hello');
  await team.submit(event);
  await until('the end', () => llm.requests.length >= replies.length && inThread(team, event.place.thread).length > 0);
  await idle(team);
  return event.place.thread;
}

/** Every string in a value. */
function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(strings) : [];
}

function requestsAreWhole(): void {
  expect(llm.unexpected).toEqual([]);
  expect(llm.requests.filter((request) => request.refused)).toEqual([]);
  for (const content of llm.requests.flatMap((request) => strings(request.body))) expect(content.isWellFormed() && !content.includes('\ufffd'), content.slice(-40)).toBe(true);
}

describe('an answer of letters and then only emoji, without a space', () => {
  it.each([
    { lengthUnit: 'utf16', lengthLimit: 4000 },
    { lengthUnit: 'utf16', lengthLimit: 3001 },
    { lengthUnit: 'bytes', lengthLimit: 2048 },
    { lengthUnit: 'bytes', lengthLimit: 4096 },
    { lengthUnit: 'codepoints', lengthLimit: 1000 },
  ] as const)('arrives whole in pieces of at most $lengthLimit $lengthUnit', async (can) => {
    const thread = await ask([text(awkward)], { can });
    const pieces = inThread(team, thread);
    expect(pieces.length).toBeGreaterThan(1);
    for (const piece of pieces) expect(piece.isWellFormed() && !piece.includes('\ufffd')).toBe(true);
    expect(pieces.join('')).toBe(awkward);
    expect(pieces.join('').match(/😀/gu)).toHaveLength(3000);
    requestsAreWhole();
  });

  it('keeps a family of emoji together', async () => {
    const thread = await ask([text('👩‍👩‍👧‍👦'.repeat(400))], { can: { lengthLimit: 1000 } });
    for (const piece of inThread(team, thread)) expect(piece.replaceAll('👩‍👩‍👧‍👦', '')).toBe('');
  });
});

describe('a result of letters and then only emoji', () => {
  it.each([2000, 2001, 2002, 5999, 6000])('cut at %i characters is still whole characters, and says what is missing', async (maxChars) => {
    await ask([calls([{ name: 'dump', args: { name: '' } }]), text('Seen.')], { tool: dumpTool(awkward, maxChars) });
    const result = llm.requests[1]?.body.messages.find((m) => m.role === 'tool')?.content as string;
    const [kept = '', note] = result.split('\n');
    expect(awkward.startsWith(kept)).toBe(true);
    expect(kept.length).toBeGreaterThan(maxChars - 2);
    expect(kept.length).toBeLessThanOrEqual(maxChars);
    expect(note).toBe(`(Cut: ${awkward.length} characters in all, the first ${kept.length} are shown.)`);
    requestsAreWhole();
  });
});

describe('half a character', () => {
  const half = '\ud83d';

  it('in what a person writes does not reach the model', async () => {
    await ask([text('Seen.')], { words: `look ${half}!` });
    expect(llm.requests[0]?.body.messages.at(-1)?.content).toBe('look \ufffd!');
  });

  it('in what the model says is mended before it is posted', async () => {
    const thread = await ask([text(`Fine ${half}.`)]);
    expect(inThread(team, thread)).toEqual(['Fine \ufffd.']);
  });

  it('in the arguments and in the result of a call is mended', async () => {
    await ask([calls([{ name: 'dump', args: { name: `a${half}` } }]), text('Seen.')], { tool: dumpTool(half, 100) });
    const { messages = [] } = llm.requests[1]?.body ?? {};
    for (const content of strings(messages)) expect(content.isWellFormed()).toBe(true);
    expect(messages.find((m) => m.role === 'tool')?.content).toBe('a\ufffd\ufffd');
  });

  it('in an earlier line of the thread is mended', async () => {
    llm = await startFakeLlm([text('Seen.')]);
    team = await Team.start({ clock, llm });
    const chat = team.platform.say(zhou, `hm ${half}`, { mention: false });
    await team.submit(chat);
    await team.say(lin, 'and?', { thread: chat.place.thread, mention: true });
    await until('the request', () => llm.requests.length === 1);
    for (const content of strings(llm.requests[0]?.body)) expect(content.isWellFormed()).toBe(true);
  });

  it('is not made by quoting arguments that are no JSON', async () => {
    await ask([calls([{ name: 'dump', args: `${'a'.repeat(199)}😀 is no JSON` }]), text('Seen.')]);
    expect(llm.requests[1]?.body.messages.find((m) => m.role === 'tool')?.content).toMatch(/^The arguments are not valid JSON: a{199}\. Send the whole call again/);
    requestsAreWhole();
  });
});
