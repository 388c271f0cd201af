import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { calls, type FakeLlm, type ScriptedReply, startFakeLlm, text } from '../fakes/llm.ts';
import { type Scripted, Team, until } from '../fakes/team.ts';
import { type Door, door, found, type HeldCall, heldTool, idle, inThread, lastSaid, lin, resultsIn, runsOf, saidIn, stepsOf, zh, zhao, zhou } from './fixtures.ts';

const drainMs = 25_000;
/** What a supervisor has to wait for at most. */
const limitMs = 30_000;

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

describe('a planned restart in the middle of everything', () => {
  let llm: FakeLlm;
  let held: Map<string, Door<ScriptedReply>>;
  beforeEach(async () => {
    held = new Map();
    llm = await startFakeLlm(({ messages }) => {
      const said = String(messages.filter((m) => m.role === 'user').at(-1)?.content);
      if (messages.some((m) => m.role === 'tool')) return text('那就上预发。');
      if (said === '部署') return calls([{ name: 'clarify', args: { question: '部署到哪个环境？', options: ['测试', '预发'] } }]);
      if (said !== '写周报') return text(`回答：${said}`);
      const reply = door<ScriptedReply>();
      held.set(said, reply);
      return reply.opened;
    });
  });
  afterEach(() => llm.close());

  /** 林一's report is being written, 周二 is queued behind it, and 赵三 was asked something in another thread. */
  async function begin(): Promise<{ report: string; deploy: string }> {
    team = await Team.start({ clock, llm, config: zh });
    const deploy = team.platform.say(zhao, '部署');
    await team.submit(deploy);
    await until('the question', () => inThread(team, deploy.place.thread).length === 1);
    const report = team.platform.say(lin, '写周报');
    await team.submit(report);
    await until('the report at work', () => held.has('写周报'));
    await team.say(zhou, '查天气', { thread: report.place.thread, mention: true });
    await until('a sign', () => inThread(team, report.place.thread)[0] === '收到，本话题中前面还有 1 个请求，随后处理。');
    return { report: report.place.thread, deploy: deploy.place.thread };
  }

  async function afterwards(threads: { report: string; deploy: string }, late: Parameters<Team['submit']>[0] & { type: 'message' }): Promise<void> {
    expect(await team.submit(late)).toEqual({ state: 'accepted' });
    await idle(team);
    await team.say(zhao, '预发', { thread: threads.deploy });
    await idle(team);
    expect(inThread(team, threads.report).slice(1)).toEqual(['周报写好了。', '回答：查天气']);
    expect(inThread(team, late.place.thread)).toEqual(['回答：几点了？']);
    expect(inThread(team, threads.deploy).at(-1)).toBe('那就上预发。');
    expect(await runsOf(team)).toMatchObject([1, 2, 3, 4].map(() => ({ status: 'completed', recoveries: 0 })));
    expect(llm.unexpected).toEqual([]);
  }

  it('lets a run finish that can, and keeps what was queued, refused or asked', async () => {
    const threads = await begin();
    const beganAt = clock.now();
    const stopping = team.stop(drainMs);
    await clock.advance(1000);
    const late = team.platform.say(lin, '几点了？');
    await expect(team.submit(late)).rejects.toThrow();
    await clock.advance(19_000);
    held.get('写周报')?.open(text('周报写好了。'));
    await stopping;
    expect(clock.now() - beganAt).toBeLessThanOrEqual(limitMs);
    expect(inThread(team, threads.report).at(-1)).toBe('周报写好了。');
    // Whoever was next waits for the start.
    expect(llm.requests).toHaveLength(2);
    await clock.advance(3000);
    await team.start();
    await clock.advance(57_000);
    await afterwards(threads, late);
    expect(llm.requests.filter((request) => JSON.stringify(request.body.messages.at(-1)).includes('写周报'))).toHaveLength(1);
  });

  it('hands a run back that takes too long, and it is finished once after the start', async () => {
    const threads = await begin();
    const beganAt = clock.now();
    const first = llm.requests.at(-1);
    const stopping = team.stop(drainMs);
    await clock.advance(1000);
    const late = team.platform.say(lin, '几点了？');
    await expect(team.submit(late)).rejects.toThrow();
    await clock.advance(limitMs - 1000);
    await stopping;
    expect(clock.now() - beganAt).toBeLessThanOrEqual(limitMs);
    await until('the request is closed', () => first?.endedAt);
    held.clear();
    await clock.advance(3000);
    await team.start();
    await until('the report at work again', () => held.has('写周报'));
    expect((await runsOf(team)).map((run) => run.recoveries)).toEqual([0, 0, 0]);
    held.get('写周报')?.open(text('周报写好了。'));
    await clock.advance(57_000);
    await afterwards(threads, late);
    expect((await stepsOf(team, 1)).flatMap((step) => (step.type === 'model_requested' ? [step.attempt] : []))).toEqual([1, 2]);
  });
});

describe('a stop of the process', () => {
  it('keeps what was accepted at the same moment, and takes its redelivery for a duplicate', async () => {
    team = await Team.start({ clock, script: (request) => ({ text: `Answer to ${lastSaid(request)}` }) });
    const said = team.platform.say(lin, 'one');
    const accepted = team.submit(said);
    await team.stop();
    expect(await accepted).toEqual({ state: 'accepted' });
    await team.start();
    expect(await team.submit(said)).toEqual({ state: 'duplicate' });
    await idle(team);
    expect(team.platform.texts()).toEqual(['Answer to one']);
  });

  it('ends at once when nothing is at work', async () => {
    team = await Team.start({ clock, script: () => ({ text: 'Done.' }) });
    await team.say(lin, 'one');
    await idle(team);
    // The clock stands still: waiting for anything would be waiting for ever.
    await team.stop(drainMs);
    await team.start();
    expect(team.platform.texts()).toEqual(['Done.']);
  });

  it('hands its runs back although a platform fails while it is left', async () => {
    const replies = [door<Scripted>(), door<Scripted>()];
    team = await Team.start({ clock, script: (_r, n) => replies[n - 1]?.opened ?? { text: 'not expected' } });
    team.platform.farewell = new Error('the connection is broken');
    await team.say(lin, 'one');
    await until('the request', () => team.requests.length === 1);
    const stopping = team.stop(drainMs);
    await clock.advance(limitMs);
    await stopping;
    team.platform.farewell = undefined;
    await team.start();
    replies[1]?.open({ text: 'Done.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 0 }]);
    expect(team.logged.join()).toContain('the connection is broken');
  });

  it('keeps a message that had joined the run it hands back', async () => {
    const replies = [door<Scripted>(), door<Scripted>()];
    team = await Team.start({ clock, script: (_r, n) => replies[n - 1]?.opened ?? { text: 'not expected' } });
    const said = team.platform.say(lin, 'weather in Beijing');
    const { thread } = said.place;
    await team.submit(said);
    await until('the request', () => team.requests.length === 1);
    await team.say(lin, 'and in Shanghai', { thread });
    await until('a sign', () => inThread(team, thread).includes('Noted, I am taking this into account.'));
    const stopping = team.stop(drainMs);
    await clock.advance(limitMs);
    await stopping;
    await team.start();
    await until('the request again', () => team.requests.length === 2);
    expect(saidIn(team.requests[1] as (typeof team.requests)[number])).toEqual(['weather in Beijing', 'and in Shanghai']);
    replies[1]?.open({ text: 'Both are sunny.' });
    await idle(team);
    expect(inThread(team, thread).slice(1)).toEqual(['Both are sunny.']);
  });

  it.each([
    { level: 0 as const, what: 'runs again', times: 2, result: 'found after all' },
    { level: 1 as const, what: 'is not repeated, and the model is told that its outcome is unknown', times: 1, result: expect.stringContaining('Whether it took effect is unknown') },
  ])('during a call of level $level: after the start it $what', async ({ level, times, result }) => {
    const tools: HeldCall[] = [];
    team = await Team.start({ clock, tools: [heldTool('slow_task', tools, level)], script: (request) => (resultsIn(request).length > 0 ? { text: 'Done.' } : { calls: [{ name: 'slow_task', args: {} }] }) });
    const said = team.platform.say(lin, 'go');
    await team.submit(said);
    await until('the call', () => tools.length === 1);
    const stopping = team.stop(drainMs);
    await clock.advance(drainMs - 1);
    expect(tools[0]?.signal.aborted).toBe(false);
    await clock.advance(limitMs - drainMs);
    await stopping;
    expect(tools[0]?.signal.aborted).toBe(true);
    await team.start();
    if (times === 2) await until('the call again', () => tools.length === 2);
    tools[1]?.open(found('found after all'));
    await idle(team);
    expect({ times: tools.length, results: resultsIn(team.requests[1]), texts: inThread(team, said.place.thread) }).toEqual({ times, results: [result], texts: ['Done.'] });
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_completed' });
  });
});
