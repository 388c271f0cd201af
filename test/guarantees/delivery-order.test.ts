/** In which order and at what pace messages reach the platform, and what becomes of those it does not take. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlatformError } from '../../src/errors.ts';
import { idle, inThread, lastSaid, lin, runsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { purgeTool, type Script, Team, until } from '../fakes/team.ts';
import { auditOf, cardOf, inTurn, interactionsOf, outboxOf, purge } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const echo: Script = (request) => ({ text: `re: ${lastSaid(request)}` });
const busy = (facts: { retryAfterMs?: number } = {}) => new PlatformError('overloaded', 'come back later', { outcome: 'retry', ...facts });
const never = new PlatformError('channel_not_found', 'no such channel', { outcome: 'refused' });

/** When each attempt to send was made, in seconds since the start of the test. */
function attempts(fate: (text: string, count: number) => ReturnType<Team['platform']['onSend']>): { text: string; at: number }[] {
  const made: { text: string; at: number }[] = [];
  const begun = clock.now();
  team.platform.onSend = (message, count) => {
    made.push({ text: message.markdown, at: (clock.now() - begun) / 1000 });
    return fate(message.markdown, count);
  };
  return made;
}

/** So many requests in one thread, each answered before the next is made; no answer has gone out yet. */
async function answersWaiting(words: readonly string[]): Promise<string> {
  const first = team.platform.say(lin, words[0] ?? '');
  await team.submit(first);
  for (const [index, word] of words.entries()) {
    if (index > 0) await team.say(lin, word, { thread: first.place.thread, mention: true });
    await until(`the end of "${word}"`, async () => (await runsOf(team)).filter((run) => run.status === 'completed').length === index + 1);
  }
  return first.place.thread;
}

describe('the answers of one thread', () => {
  it('arrive in the order in which they were given, also when the first is refused for a while', async () => {
    team = await Team.start({ clock, script: echo });
    const made = attempts((text, count) => (text === 're: one' && count < 4 ? busy() : undefined));
    const thread = await answersWaiting(['one', 'two', 'three']);
    await clock.advance(10_000);
    expect(inThread(team, thread)).toEqual(['re: one', 're: two', 're: three']);
    expect(made.map((attempt) => attempt.text)).toEqual(['re: one', 're: one', 're: one', 're: one', 're: two', 're: three']);
    expect(made.slice(0, 4).map((attempt) => attempt.at)).toEqual([0, 1, 3, 7]);
  });

  it('wait as long as the platform says, and no longer', async () => {
    team = await Team.start({ clock, script: echo });
    const made = attempts((_text, count) => (count === 1 ? busy({ retryAfterMs: 37_000 }) : undefined));
    const thread = await answersWaiting(['one']);
    await clock.advance(36_000);
    expect(made).toHaveLength(1);
    await clock.advance(2000);
    expect(made.map((attempt) => attempt.at)).toEqual([0, 37]);
    expect(inThread(team, thread)).toEqual(['re: one']);
  });

  it('pass one that is refused for good', async () => {
    team = await Team.start({ clock, script: echo });
    attempts((text) => (text === 're: one' ? never : undefined));
    const thread = await answersWaiting(['one', 'two']);
    await idle(team);
    expect(inThread(team, thread)).toEqual(['re: two']);
    expect((await runsOf(team)).map((run) => run.delivery)).toEqual(['failed', 'delivered']);
  });

  it('survive a restart in the same order', async () => {
    team = await Team.start({ clock, script: echo });
    attempts(() => busy());
    const thread = await answersWaiting(['one', 'two']);
    await team.kill();
    attempts(() => undefined);
    await team.start();
    await clock.advance(5000);
    expect(inThread(team, thread)).toEqual(['re: one', 're: two']);
  });

  it('in trouble hold up nobody elsewhere', async () => {
    team = await Team.start({ clock, script: echo });
    attempts((text) => (text === 're: one' ? busy() : undefined));
    await answersWaiting(['one']);
    const other = team.platform.say(zhou, 'elsewhere');
    await team.submit(other);
    await until('the other answer', () => inThread(team, other.place.thread)[0] === 're: elsewhere');
  });

  it('to a platform that is down go out when it is back, hours later', async () => {
    team = await Team.start({ clock, script: echo });
    let isDown = true;
    const made = attempts(() => (isDown ? busy() : undefined));
    const thread = await answersWaiting(['one']);
    await clock.advance(7_200_000);
    expect(made.length, 'at most every five minutes in the end').toBeLessThan(40);
    isDown = false;
    await clock.advance(310_000);
    expect(inThread(team, thread)).toEqual(['re: one']);
    await idle(team);
  });
});

describe('a channel that takes one post in two seconds', () => {
  const start = (script: Script) => Team.start({ clock, script, can: { paceMs: 2000, progress: false }, config: 'tools: { level2: [purge_records] }', tools: [purgeTool([])] });
  const settledRuns = (count: number) => until(`${count} runs at rest`, async () => (await runsOf(team)).filter((run) => run.status === 'completed' || run.status === 'suspended').length === count);

  it('gets no two posts closer than that; another channel does not wait', async () => {
    team = await start(echo);
    const made = attempts(() => undefined);
    for (const word of ['a', 'b', 'c']) await team.say(lin, word);
    await team.say(lin, 'elsewhere', { channel: 'C_ALL' });
    await settledRuns(4);
    await clock.advance(10_000);
    expect(made.filter((attempt) => attempt.text !== 're: elsewhere').map((attempt) => attempt.at)).toEqual([0, 2, 4]);
    expect(made.find((attempt) => attempt.text === 're: elsewhere')?.at).toBe(0);
  });

  it('gets a question before the answers that wait, though it came last', async () => {
    team = await start((request) => (lastSaid(request) === 'purge' ? purge('logs_old') : { text: `re: ${lastSaid(request)}` }));
    const made = attempts(() => undefined);
    for (const word of ['a', 'b', 'c']) await team.say(lin, word);
    await settledRuns(3);
    await clock.advance(1000);
    await team.say(zhou, 'purge');
    await settledRuns(4);
    await clock.advance(10_000);
    expect(made.map((attempt) => [attempt.text.slice(0, 7), attempt.at])).toEqual([
      ['re: a', 0],
      ['**Confi', 2],
      ['re: b', 4],
      ['re: c', 6],
    ]);
  });
});

describe('an answer that the platform refuses for good', () => {
  it.each([
    { language: 'en', words: 'My message for #ops could not be delivered (channel_not_found). It is kept in the record.' },
    { language: 'zh', words: '发往 #ops 的消息未能送达（channel_not_found），内容已保存在记录中。' },
  ])('is recorded as failed, kept, and the asker is told in the direct chat ($language)', async ({ language, words }) => {
    team = await Team.start({ clock, script: echo, config: `language: ${language}` });
    attempts((text) => (text.startsWith('re:') ? never : undefined));
    await team.say(lin, 'hello');
    await until('word of it', () => team.platform.texts('D_lin').length === 1);
    await idle(team);
    expect(team.platform.texts()).toEqual([words]);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', delivery: 'failed' }]);
    expect((await outboxOf(team))[0]).toMatchObject({ state: 'failed', error: 'channel_not_found: no such channel', body: expect.stringContaining('re: hello') });
    expect((await auditOf(team)).filter((entry) => entry.kind === 'delivery_failed')).toHaveLength(1);
  });

  it('in the direct chat itself is not followed by more of the same', async () => {
    team = await Team.start({ clock, script: echo });
    const made = attempts(() => never);
    await team.say(lin, 'hello', { channel: 'D_lin', audience: 'direct', mention: true });
    await clock.advance(60_000);
    expect(made).toHaveLength(1);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'failed' }]);
  });
});

describe('a card that the platform refuses for good', () => {
  it('is nobody to decide: the call is not executed, the model is told, and no receipt is posted for what nobody saw', async () => {
    const purged: string[] = [];
    team = await Team.start({ clock, config: 'tools: { level2: [purge_records] }', tools: [purgeTool(purged)], script: inTurn(purge('logs_old'), { text: 'Nobody could be asked.' }) });
    attempts((text) => (text.includes('Confirmation needed') ? never : undefined));
    await team.say(lin, 'purge');
    await until('the answer', () => team.platform.texts().includes('Nobody could be asked.'));
    await idle(team);
    expect(team.platform.texts()).toEqual(['Nobody could be asked.']);
    expect(purged).toEqual([]);
    expect((await interactionsOf(team))[0]?.outcome).toContain('undeliverable');
  });

  it('because of its buttons goes out as text, and can be decided in writing', async () => {
    const purged: string[] = [];
    team = await Team.start({ clock, config: 'tools: { level2: [purge_records] }', tools: [purgeTool(purged)], script: inTurn(purge('logs_old'), { text: 'Purged.' }) });
    team.platform.onSend = (message) => (message.buttons ? never : undefined);
    const asked = team.platform.say(lin, 'purge');
    await team.submit(asked);
    const card = await cardOf(team);
    expect(card.buttons).toBeUndefined();
    const [row] = await interactionsOf(team);
    await team.say(lin, `approve ${row?.code}`, { thread: asked.place.thread });
    await until('the answer', () => team.platform.texts().includes('Purged.'));
    expect(purged).toEqual(['logs_old']);
  });
});
