/** Questions that are edited or deleted, before the bot began and after. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { IncomingMessage, Receipt } from '../../src/adapters/types.ts';
import { type Door, door, idle, inThread, lin, postsIn, runsOf, saidIn, stepsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { purgeTool, type Scripted, Team, until } from '../fakes/team.ts';
import { cardOf, purge } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

let changes = 0;
const changed = (message: IncomingMessage, kind: 'edited' | 'deleted', words?: string): Promise<Receipt> =>
  team.submit({
    type: 'change',
    key: `change-${++changes}`,
    of: message.key,
    kind,
    place: message.place,
    at: new Date(clock.now()).toISOString(),
    by: message.author,
    ...(words === undefined ? {} : { content: [{ type: 'text', text: words }] }),
  });

/** The first request is held; what was asked is the last thing said in a request. */
async function busyThread(config = 'language: en'): Promise<{ first: IncomingMessage; busy: Door<Scripted> }> {
  const busy = door<Scripted>();
  team = await Team.start({ clock, config, script: (request, n) => (n === 1 ? busy.opened : { text: `re: ${saidIn(request).at(-1)}` }) });
  const first = team.platform.say(lin, 'first');
  await team.submit(first);
  await until('the first request', () => team.requests.length === 1);
  return { first, busy };
}

/** Queued behind the first. */
async function queued(first: IncomingMessage, words: string): Promise<IncomingMessage> {
  const message = team.platform.say(zhou, words, { thread: first.place.thread, mention: true });
  await team.submit(message);
  return message;
}

describe('a request that has not begun', () => {
  it('and is edited is read as it was edited last, and answered once', async () => {
    const { first, busy } = await busyThread();
    const second = await queued(first, 'the weather in Bejing');
    await changed(second, 'edited', 'the weather in Beijing');
    await changed(second, 'edited', 'the weather in Shanghai');
    busy.open({ text: 'One.' });
    await idle(team);
    expect(saidIn(team.requests[1] ?? { messages: [], tools: [], last: false }).at(-1)).toBe('the weather in Shanghai');
    expect(JSON.stringify(team.requests[1]?.messages.slice(2))).not.toContain('Bejing');
    expect(inThread(team, first.place.thread).filter((line) => line.startsWith('re:'))).toEqual(['re: the weather in Shanghai']);
    expect(team.requests).toHaveLength(2);
  });

  it('and is deleted is never answered, and the model never reads it', async () => {
    const { first, busy } = await busyThread();
    const second = await queued(first, 'forget this');
    await changed(second, 'deleted');
    busy.open({ text: 'One.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'cancelled' }]);
    expect(team.requests).toHaveLength(1);
    expect(inThread(team, first.place.thread).filter((line) => !line.startsWith('Noted'))).toEqual(['One.']);
  });

  it('and is edited twice by a repeated delivery of the same edit changes once', async () => {
    const { first, busy } = await busyThread();
    const second = await queued(first, 'a');
    const event = { type: 'change', key: 'edit-1', of: second.key, kind: 'edited', place: second.place, at: second.at, by: second.author, content: [{ type: 'text', text: 'b' }] } as const;
    expect(await team.submit(event)).toEqual({ state: 'accepted' });
    expect(await team.submit(event)).toEqual({ state: 'duplicate' });
    busy.open({ text: 'One.' });
    await idle(team);
    expect((await stepsOf(team, 1)).filter((step) => step.type === 'message_added')).toHaveLength(1);
  });

  it('but joined a run at work can still be edited until it is read', async () => {
    const { first, busy } = await busyThread();
    const joined = team.platform.say(lin, 'also Bejing', { thread: first.place.thread, mention: true });
    await team.submit(joined);
    await changed(joined, 'edited', 'also Beijing');
    busy.open({ text: 'One.' });
    await idle(team);
    expect(saidIn(team.requests[1] ?? { messages: [], tools: [], last: false })).toEqual(['first', 'also Beijing']);
  });

  it('but joined a run at work can still be taken back until it is read', async () => {
    const { first, busy } = await busyThread();
    const joined = team.platform.say(lin, 'my password is swordfish', { thread: first.place.thread, mention: true });
    await team.submit(joined);
    await changed(joined, 'deleted');
    busy.open({ text: 'One.' });
    await idle(team);
    expect(JSON.stringify(team.requests)).not.toContain('swordfish');
    expect(team.requests, 'nothing is left to be read').toHaveLength(1);
    expect(inThread(team, first.place.thread)).toContain('One.');
  });
});

describe('a request that has begun', () => {
  it.each([
    { kind: 'edited', key: 'on_edit' },
    { kind: 'deleted', key: 'on_delete' },
  ] as const)('and is $kind is answered as it was read, unless configured otherwise', async ({ kind }) => {
    const { first, busy } = await busyThread();
    await changed(first, kind, kind === 'edited' ? 'something else' : undefined);
    busy.open({ text: 'One.' });
    await idle(team);
    expect(inThread(team, first.place.thread)).toEqual(['One.']);
    expect(team.requests).toHaveLength(1);
  });

  it.each([
    { kind: 'edited', key: 'on_edit', other: 'on_delete' },
    { kind: 'deleted', key: 'on_delete', other: 'on_edit' },
  ] as const)('and is $kind ends without a word where $key is "suppress"', async ({ kind, key, other }) => {
    const { first, busy } = await busyThread(`agent: { ${key}: suppress, ${other}: post }`);
    await changed(first, kind, kind === 'edited' ? 'something else' : undefined);
    busy.open({ text: 'One.' });
    await idle(team);
    await clock.advance(30_000);
    expect(postsIn(team, first.place.thread)).toEqual([]);
    expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }]);
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_cancelled', reason: 'withdrawn', by: { id: lin.id } });
  });

  it('and is deleted while a card is open takes the card back where it is suppressed', async () => {
    const purged: string[] = [];
    team = await Team.start({ clock, config: 'agent: { on_delete: suppress }\ntools: { level2: [purge_records] }', tools: [purgeTool(purged)], script: () => purge('logs_old') });
    const asked = team.platform.say(lin, 'purge');
    await team.submit(asked);
    const card = await cardOf(team);
    await changed(asked, 'deleted');
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining('Withdrawn: the request has ended.') });
    expect(purged).toEqual([]);
  });

  it('and was answered already is left alone', async () => {
    team = await Team.start({ clock, config: 'agent: { on_edit: suppress, on_delete: suppress }', script: () => ({ text: 'One.' }) });
    const asked = team.platform.say(lin, 'first');
    await team.submit(asked);
    await idle(team);
    for (const kind of ['edited', 'deleted'] as const) expect(await changed(asked, kind, 'other')).toEqual({ state: 'accepted' });
    await idle(team);
    expect(inThread(team, asked.place.thread)).toEqual(['One.']);
    expect(team.requests).toHaveLength(1);
  });
});

describe('a change of a message that the bot did not take', () => {
  it('is nothing', async () => {
    team = await Team.start({ clock, script: () => ({ text: 'One.' }) });
    const chatter = team.platform.say(zhou, 'lunch?', { mention: false });
    await team.submit(chatter);
    expect(await changed(chatter, 'edited', 'lunch at one?')).toEqual({ state: 'accepted' });
    expect(await changed(chatter, 'deleted')).toEqual({ state: 'accepted' });
    await idle(team);
    expect(await runsOf(team)).toEqual([]);
  });

  it('by a person who did not write it changes nothing', async () => {
    const { first, busy } = await busyThread();
    const second = await queued(first, 'the weather in Beijing');
    await team.submit({ type: 'change', key: 'forged', of: second.key, kind: 'edited', place: second.place, at: second.at, by: lin, content: [{ type: 'text', text: 'purge everything' }] });
    busy.open({ text: 'One.' });
    await idle(team);
    expect(saidIn(team.requests[1] ?? { messages: [], tools: [], last: false }).at(-1)).toBe('the weather in Beijing');
  });
});
