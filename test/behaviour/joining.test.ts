import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type FakeLlm, type RecordedRequest, type ScriptedReply, startFakeLlm, text } from '../fakes/llm.ts';
import { type Scripted, Team, until } from '../fakes/team.ts';
import { type Door, door, found, type HeldCall, heldTool, idle, inThread, lastSaid, lin, runsOf, saidIn, stepsOf, zh, zhou } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const said = ({ body }: RecordedRequest): unknown[] => body.messages.filter((m) => m.role === 'user').map((m) => m.content);

describe('the asker writes again in the thread while the model is at work', () => {
  let llm: FakeLlm;
  let replies: Door<ScriptedReply>[];
  beforeEach(async () => {
    replies = [];
    llm = await startFakeLlm((_request, index) => {
      replies[index] = door();
      return replies[index].opened;
    });
  });
  afterEach(() => llm.close());

  it('and every message reaches the model in its order, one request at a time, and is answered in the thread', async () => {
    team = await Team.start({ llm, clock, config: zh });
    const first = team.platform.say(lin, '查北京天气');
    const { thread } = first.place;
    await team.submit(first);
    await llm.waitForRequest(1);
    await clock.advance(3000);
    await team.say(lin, '再查上海', { thread, mention: true });
    // The clock stands still: the sign comes at once, although the model needs ten seconds more.
    await until('a sign that the second message was noticed', () => inThread(team, thread).includes('收到，我会一并处理。'));
    await clock.advance(2000);
    await team.say(lin, '温度用华氏', { thread, mention: true });
    await clock.advance(10_000);
    expect(llm.requests).toHaveLength(1);
    replies[0]?.open(text('北京：18 °C，晴。'));
    const second = await llm.waitForRequest(2);
    expect(said(second)).toEqual(['查北京天气', '再查上海', '温度用华氏']);
    // What was answered before the messages came in is posted, and the model knows that it said so.
    await until('the overtaken answer', () => inThread(team, thread).includes('北京：18 °C，晴。'));
    expect(second.body.messages.map((m) => m.role)).toEqual(['system', 'user', 'assistant', 'user', 'user']);
    replies[1]?.open(text('北京：64 °F；上海：72 °F。'));
    await idle(team);
    expect(inThread(team, thread)).toEqual(['北京：18 °C，晴。', '收到，我会一并处理。', '收到，我会一并处理。', '北京：64 °F；上海：72 °F。']);
    expect(team.platform.ours()).toHaveLength(4);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }]);
    expect({ atOnce: llm.maxConcurrent, requests: llm.requests.length }).toEqual({ atOnce: 1, requests: 2 });
  });

  it('and a request of the conversation is never begun before the one before it has ended', async () => {
    team = await Team.start({ llm, clock });
    const first = team.platform.say(lin, 'one');
    const { thread } = first.place;
    await team.submit(first);
    await llm.waitForRequest(1);
    await Promise.all([team.say(lin, 'two', { thread }), team.say(zhou, 'three', { thread, mention: true }), team.say(lin, 'four', { thread })]);
    for (let n = 0; n < 3; n++) {
      await llm.waitForRequest(n + 1);
      replies[n]?.open(text(`answer ${n + 1}`));
    }
    await idle(team);
    expect(llm.requests.map(said)).toMatchObject([['one'], ['one', 'two', 'four'], expect.arrayContaining(['three'])]);
    for (const [n, request] of llm.requests.slice(1).entries()) expect(request.startedAt).toBeGreaterThan(llm.requests[n]?.endedAt ?? Number.POSITIVE_INFINITY);
  });

  it('and a mention on the main level is a run of its own, at the same time', async () => {
    team = await Team.start({ llm, clock });
    const first = team.platform.say(lin, 'one');
    const second = team.platform.say(lin, 'two');
    await team.submit(first);
    await team.submit(second);
    await llm.waitForRequest(2);
    replies[1]?.open(text('answer two'));
    await until('the second answer', () => inThread(team, second.place.thread).includes('answer two'));
    replies[0]?.open(text('answer one'));
    await idle(team);
    expect(inThread(team, first.place.thread)).toEqual(['answer one']);
    expect(llm.maxConcurrent).toBe(2);
  });
});

describe('a message that joins', () => {
  it('while a tool runs is carried by the next request, after the result of the call', async () => {
    const calls: HeldCall[] = [];
    team = await Team.start({ clock, tools: [heldTool('look_up', calls)], script: (_r, n) => (n === 1 ? { calls: [{ name: 'look_up', args: { note: 'Beijing' } }] } : { text: 'Beijing: 18 °C.' }) });
    const first = team.platform.say(lin, 'weather in Beijing');
    await team.submit(first);
    await until('the call', () => calls.length === 1);
    await team.say(lin, 'in Celsius, please', { thread: first.place.thread });
    calls[0]?.open(found('18 °C'));
    await idle(team);
    expect(team.requests).toHaveLength(2);
    expect(team.requests[1]?.messages.slice(1).map((m) => [m.role, m.content])).toEqual([
      ['user', 'weather in Beijing'],
      ['assistant', null],
      ['tool', '18 °C'],
      ['user', 'in Celsius, please'],
    ]);
    expect(inThread(team, first.place.thread)).toEqual(['Noted, I am taking this into account.', 'Beijing: 18 °C.']);
  });

  it('before its run has begun is in the first request', async () => {
    const busy = door<Scripted>();
    team = await Team.start({ clock, script: (request) => (saidIn(request).at(-1) === 'mine' ? busy.opened : { text: 'Done.' }) });
    const first = team.platform.say(zhou, 'mine');
    await team.submit(first);
    await until('the first run at work', () => team.requests.length === 1);
    await team.say(lin, 'now mine', { thread: first.place.thread, mention: true });
    await team.say(lin, 'and in short', { thread: first.place.thread });
    busy.open({ text: 'Zhou is answered.' });
    await idle(team);
    expect(team.requests).toHaveLength(2);
    expect(saidIn(team.requests[1] as (typeof team.requests)[number]).slice(-2)).toEqual(['now mine', 'and in short']);
    expect((await stepsOf(team, 1)).map((step) => step.type)).toEqual(['run_started', 'message_added', 'context_gathered', 'model_requested', 'model_responded', 'run_completed']);
  });

  it('comes too late for the last request of a run, and starts one of its own that may use tools', async () => {
    const last = door<Scripted>();
    const calls: HeldCall[] = [];
    team = await Team.start({
      clock,
      config: 'agent: { max_turns: 1 }',
      tools: [heldTool('look_up', calls)],
      script: (_r, n) => (n === 2 ? last.opened : { calls: [{ name: 'look_up', args: {} }] }),
    });
    const first = team.platform.say(lin, 'look something up');
    await team.submit(first);
    await until('the call', () => calls.length === 1);
    calls[0]?.open(found('half of it'));
    await until('the last request', () => team.requests[1]?.last);
    await team.say(lin, 'now the other half', { thread: first.place.thread });
    last.open({ text: 'Half of it is found.' });
    await until('the call of the second run', () => calls.length === 2);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'running' }]);
    await until('the answer of the first run', () => inThread(team, first.place.thread).includes('Half of it is found.'));
  });
});

describe('a place without threads', () => {
  const can = { threads: false };

  it('queues what the asker says behind the run at work', async () => {
    const busy = door<Scripted>();
    team = await Team.start({ clock, can, script: (_r, n) => (n === 1 ? busy.opened : { text: 'Two.' }) });
    const place = { thread: '', mention: true };
    await team.say(lin, 'one', place);
    await until('the first run at work', () => team.requests.length === 1);
    await team.say(lin, 'two', place);
    await until('a sign', () => team.platform.texts().some((line) => line.startsWith('Noted, this is next')));
    busy.open({ text: 'One.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
    expect(team.platform.texts().slice(1)).toEqual(['One.', 'Two.']);
  });

  it.each(['the question', 'an answer', 'the progress'])('lets a message join that quotes %s', async (quoted) => {
    const busy = door<Scripted>();
    team = await Team.start({ clock, can, script: (request, n) => (n === 2 ? busy.opened : { text: `Answer to: ${lastSaid(request)}` }) });
    await team.say(lin, 'zero', { thread: '', mention: true });
    await idle(team);
    const asked = team.platform.say(lin, 'one', { thread: '', mention: true });
    await team.submit(asked);
    await until('the run at work', () => team.requests.length === 2);
    await clock.advance(1500);
    const answer = team.platform.ours()[0]?.id;
    const progress = await until('progress', () => team.platform.posted.find((m) => m.progress)?.id);
    const quote = { 'the question': asked.key.split(':').at(-1), 'an answer': answer, 'the progress': progress }[quoted] ?? '';
    await team.say(lin, 'two', { thread: '', mention: true, quote });
    busy.open({ text: 'One.' });
    await idle(team);
    expect(await runsOf(team)).toHaveLength(2);
    expect(saidIn(team.requests[2] as (typeof team.requests)[number]).slice(-2)).toEqual(['one', 'two']);
  });

  it('lets nobody join the run of somebody else by quoting it', async () => {
    const busy = door<Scripted>();
    team = await Team.start({ clock, can, script: (_r, n) => (n === 1 ? busy.opened : { text: 'Two.' }) });
    const asked = team.platform.say(lin, 'one', { thread: '', mention: true });
    await team.submit(asked);
    await until('the run at work', () => team.requests.length === 1);
    await team.say(zhou, 'two', { thread: '', mention: true, quote: asked.key.split(':').at(-1) ?? '' });
    await until('the answer to the other', () => team.platform.texts().includes('Two.'));
    busy.open({ text: 'One.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ asker: lin.id }, { asker: zhou.id }]);
  });
});
