import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ModelError, PlatformError } from '../../src/errors.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { hang, startFakeLlm, text } from '../fakes/llm.ts';
import { purgeTool, type Scripted, Team, until } from '../fakes/team.ts';
import { door, found, type HeldCall, heldTool, idle, inThread, lastSaid, lin, postsIn, runsOf, stepsOf, zh, zhao, zhou } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let calls: HeldCall[];
beforeEach(() => {
  clock = fakeClock();
  calls = [];
});
afterEach(() => team.end());

/** A run of 林一 whose tool does not come back, ten seconds after it was called. */
async function hanging(config = ''): Promise<string> {
  team = await Team.start({
    clock,
    config,
    tools: [heldTool('slow_task', calls), heldTool('next_task', calls, 1)],
    script: (request) => (lastSaid(request) === '跑一下慢任务' ? { calls: ['slow_task', 'next_task'].map((name) => ({ name, args: {} })) } : { text: '九点。' }),
  });
  const asked = team.platform.say(lin, '跑一下慢任务');
  await team.submit(asked);
  await until('the call', () => calls.length === 1);
  await clock.advance(10_000);
  return asked.place.thread;
}

describe('stop, while a tool hangs', () => {
  it('ends the run at once, and the next question is answered', async () => {
    const thread = await hanging(zh);
    await team.say(lin, '停', { thread });
    // The clock stands still: it takes no time at all.
    await until('the thread is told', () => inThread(team, thread).includes('已由 林一 (lin) 停止，这个请求不会再有任何动作。'));
    expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }]);
    await team.say(lin, '现在几点？', { thread, mention: true });
    await until('the answer', () => inThread(team, thread).includes('九点。'));
    expect(team.requests).toHaveLength(2);
  });

  it('tells the tool, and what it returns later changes nothing', async () => {
    const thread = await hanging();
    await team.say(lin, 'stop', { thread });
    await until('the tool is told', () => calls[0]?.signal.aborted);
    await idle(team);
    const steps = await stepsOf(team);
    calls[0]?.open(found('finished after all'));
    await clock.advance(60_000);
    expect(inThread(team, thread)).toEqual(['Stopped by 林一 (lin). Nothing more will be done for this request.']);
    expect(team.platform.posted.filter((m) => m.progress && !m.gone)).toEqual([]);
    expect(await stepsOf(team)).toEqual(steps);
    // The second call of the turn was waiting for the first one.
    expect({ calls: calls.map((call) => call.name), requests: team.requests.length }).toEqual({ calls: ['slow_task'], requests: 1 });
  });

  it.each(['stop', 'STOP!', 'Stop.', '!stop', '停', '停止', '停。'])('works as "%s", with and without a mention', async (word) => {
    for (const mention of [false, true]) {
      if (mention) await team.end();
      const thread = await hanging();
      await team.say(lin, word, { thread, mention });
      await until('the end', async () => (await runsOf(team))[0]?.status === 'cancelled');
    }
  });

  it('is not a word inside a sentence', async () => {
    const thread = await hanging();
    await team.say(lin, 'do not stop before it is done', { thread });
    expect(await runsOf(team)).toMatchObject([{ status: 'running' }]);
  });

  it('by an operator ends it too, in the name of the operator', async () => {
    const thread = await hanging(`people: { operators: ['${zhao.id}'] }`);
    await team.say(zhao, 'stop', { thread, mention: true });
    await until('the thread is told', () => inThread(team, thread).includes('Stopped by 赵三 (zhao). Nothing more will be done for this request.'));
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_cancelled', by: { id: zhao.id } });
    expect(calls[0]?.signal.aborted).toBe(true);
  });

  it.each([
    { language: 'en', answer: 'Only the person who asked, or an operator, can stop this.' },
    { language: 'zh', answer: '只有提问者本人或操作员可以停止。' },
  ])('by anybody else changes nothing, and says so ($language)', async ({ language, answer }) => {
    const thread = await hanging(`language: ${language}`);
    await team.say(zhou, '停', { thread, mention: true });
    await until('an answer', () => inThread(team, thread).includes(answer));
    expect(await runsOf(team)).toMatchObject([{ status: 'running' }]);
    expect(calls[0]?.signal.aborted).toBe(false);
  });
});

describe('stop', () => {
  it('while the model hangs closes the request, and the next question is answered', async () => {
    const llm = await startFakeLlm([hang('Let me'), text('It is nine.')]);
    team = await Team.start({ clock, llm });
    const asked = team.platform.say(lin, 'think hard');
    const { thread } = asked.place;
    await team.submit(asked);
    const request = await llm.waitForRequest(1);
    await team.say(lin, 'stop', { thread });
    await until('the request is closed', () => request.endedAt);
    await team.say(lin, 'what time is it?', { thread, mention: true });
    await until('the answer', () => inThread(team, thread).includes('It is nine.'));
    expect(inThread(team, thread)).toEqual(['Stopped by 林一 (lin). Nothing more will be done for this request.', 'It is nine.']);
    await llm.close();
  });

  it('while the model is waited for before it is asked again ends the wait', async () => {
    team = await Team.start({ clock, script: () => new ModelError('rate_limited', 'slow down', { retryable: true, retryAfterMs: 60_000 }) });
    const asked = team.platform.say(lin, 'one');
    const { thread } = asked.place;
    await team.submit(asked);
    await until('the failed request', async () => (await stepsOf(team)).filter((step) => step.type === 'model_requested').length === 2);
    await clock.advance(10_000);
    await team.say(lin, 'stop', { thread });
    await idle(team);
    await clock.advance(120_000);
    expect({ requests: team.requests.length, texts: inThread(team, thread) }).toEqual({ requests: 1, texts: ['Stopped by 林一 (lin). Nothing more will be done for this request.'] });
  });

  it('while the run waits for a decision takes the card back, and a press on it does nothing', async () => {
    const purged: string[] = [];
    team = await Team.start({ clock, config: zh, tools: [purgeTool(purged)], script: () => ({ calls: [{ name: 'purge_records', args: { table: 'logs_old' } }] }) });
    const asked = team.platform.say(lin, '清理 logs_old');
    const { thread } = asked.place;
    await team.submit(asked);
    const card = await until('the card', () => postsIn(team, thread)[0]);
    const approve = team.button('批准');
    await team.say(lin, '停', { thread });
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining('– 已撤回：请求已结束，没有执行任何操作。') });
    expect(inThread(team, thread)).toContain('已由 林一 (lin) 停止，这个请求不会再有任何动作。');
    expect(await team.press(approve.interactionId, approve.choice, lin)).toMatchObject({ state: 'already_decided', card: { markdown: expect.stringContaining('已撤回') } });
    await idle(team);
    expect({ purged, requests: team.requests.length }).toEqual({ purged: [], requests: 1 });
  });

  it('while the run waits for an answer takes the question back, and what is said then starts anew', async () => {
    team = await Team.start({ clock, script: (_r, n) => (n === 1 ? { calls: [{ name: 'clarify', args: { question: 'Where to?', options: ['test', 'production'] } }] } : { text: 'To test it is.' }) });
    const asked = team.platform.say(lin, 'deploy');
    const { thread } = asked.place;
    await team.submit(asked);
    const card = await until('the question', () => postsIn(team, thread)[0]);
    await team.say(lin, 'stop', { thread });
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining('Withdrawn: the request has ended.') });
    await team.say(lin, 'test', { thread });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }, { status: 'completed' }]);
  });

  it('of a queued request ends that one only, and the model never sees it', async () => {
    const busy = door<Scripted>();
    team = await Team.start({ clock, script: (_r, n) => (n === 1 ? busy.opened : { text: 'should not be said' }) });
    const asked = team.platform.say(lin, 'one');
    const { thread } = asked.place;
    await team.submit(asked);
    await until('the first run at work', () => team.requests.length === 1);
    await team.say(zhou, 'two', { thread, mention: true });
    await team.say(zhou, 'stop', { thread, mention: true });
    await until('the thread is told', () => inThread(team, thread).some((line) => line.startsWith('Stopped by 周二 (zhou).')));
    busy.open({ text: 'One.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'cancelled' }]);
    expect({ said: inThread(team, thread).at(-1), requests: team.requests.length }).toEqual({ said: 'One.', requests: 1 });
  });

  it('of the first lets the one that was queued behind it begin', async () => {
    team = await Team.start({ clock, tools: [heldTool('slow_task', calls)], script: (_r, n) => (n === 1 ? { calls: [{ name: 'slow_task', args: {} }] } : { text: 'Two.' }) });
    const asked = team.platform.say(lin, 'one');
    const { thread } = asked.place;
    await team.submit(asked);
    await until('the call', () => calls.length === 1);
    await team.say(zhou, 'two', { thread, mention: true });
    await team.say(lin, 'stop', { thread, mention: true });
    await until('the second answer', () => inThread(team, thread).includes('Two.'));
    expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }, { status: 'completed' }]);
  });

  it.each([
    { language: 'en', answer: 'There is nothing of yours at work here.' },
    { language: 'zh', answer: '这里没有你正在进行的请求。' },
  ])('with nothing at work says so ($language)', async ({ language, answer }) => {
    team = await Team.start({ clock, config: `language: ${language}`, script: () => ({ text: 'Done.' }) });
    await team.say(lin, 'stop', { mention: true });
    await until('an answer', () => team.platform.texts().includes(answer));
    expect(team.requests).toHaveLength(0);
  });

  it('between people, where the bot is not at work, is only a word', async () => {
    team = await Team.start({ clock, script: () => ({ text: 'Done.' }) });
    const asked = team.platform.say(lin, 'one');
    await team.submit(asked);
    await idle(team);
    await team.say(zhou, 'stop', { thread: asked.place.thread });
    await idle(team);
    expect(team.platform.texts()).toEqual(['Done.']);
  });

  it('from outside the chat, by a login, is told in the thread like any other', async () => {
    const thread = await hanging();
    const [run] = await runsOf(team);
    const { inbox } = team.hermes;
    expect(await inbox.stopRun(run?.id ?? '', 'login:ops')).toBe('stopped');
    await until('the thread is told', () => inThread(team, thread).includes('Stopped by ops. Nothing more will be done for this request.'));
    expect(calls[0]?.signal.aborted).toBe(true);
    expect([await inbox.stopRun(run?.id ?? '', 'login:ops'), await inbox.stopRun('r_unknown', 'login:ops')]).toEqual(['ended', 'not_found']);
  });

  it('takes back what the platform has not taken yet', async () => {
    team = await Team.start({ clock, script: () => ({ calls: [{ name: 'clarify', args: { question: 'Where to?' } }] }) });
    team.platform.onSend = (message) => (message.markdown.includes('Where to?') ? new PlatformError('overloaded', 'not now', { outcome: 'retry' }) : undefined);
    const asked = team.platform.say(lin, 'deploy');
    const { thread } = asked.place;
    await team.submit(asked);
    await until('an attempt', () => team.platform.sends === 1);
    await team.say(lin, 'stop', { thread });
    await idle(team);
    team.platform.onSend = () => undefined;
    await clock.advance(60_000);
    expect(inThread(team, thread)).toEqual(['Stopped by 林一 (lin). Nothing more will be done for this request.']);
  });
});
