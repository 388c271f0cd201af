/** A run that goes wrong ends, in plain words: at a limit, after too many failures, without a model. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ModelError, type ModelErrorCode } from '../../src/errors.ts';
import type { ToolDefinition } from '../../src/tools/types.ts';
import { idle, inThread, lin, resultsIn, runsOf, saidIn, stepsOf } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { calls, error, type FakeLlm, startFakeLlm, text } from '../fakes/llm.ts';
import { type Script, Team, until } from '../fakes/team.ts';
import { within } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let llm: FakeLlm | undefined;
beforeEach(() => {
  clock = fakeClock();
  llm = undefined;
});
afterEach(async () => {
  await team.end();
  await llm?.close();
});

/** Says what it counts; fails from the given call on. */
function countTool(options: { failsFrom?: number; failsUntil?: number; ms?: number } = {}): ToolDefinition<{ n: number }> {
  let count = 0;
  return {
    name: 'count_up',
    description: 'For tests.',
    level: 0,
    args: z.object({ n: z.number() }),
    retrySafe: true,
    trusted: true,
    async execute() {
      count += 1;
      if (count >= (options.failsFrom ?? Number.POSITIVE_INFINITY) && count <= (options.failsUntil ?? Number.POSITIVE_INFINITY)) throw new Error('ECONNREFUSED 10.0.0.7:5432');
      return { ok: true, content: `Counted ${count}.` };
    },
  };
}

const countUp = (n = 0) => ({ calls: [{ name: 'count_up', args: { n } }] });

async function ask(script: Script, options: Partial<ConstructorParameters<typeof Team>[0]> = {}): Promise<string> {
  team = await Team.start({ clock, script, tools: [countTool()], ...options });
  const event = team.platform.say(lin, 'count');
  await team.submit(event);
  return event.place.thread;
}

/** No codes, addresses, names of errors or traces. */
const internals = /ECONN|\d+\.\d+\.\d+\.\d+|Error|error|status|HTTP|stack|at \S+:\d+|undefined|null|\{|\}|sk-/;

describe('the turn limit', () => {
  it('lets the model speak once more without tools, and what it says is the answer', async () => {
    llm = await startFakeLlm((request) => (request.tool_choice === 'none' ? text('Counted to 3; 997 are missing. Ask for the rest in parts.') : calls([{ name: 'count_up', args: { n: 1 } }])));
    const thread = await ask(() => ({ text: '' }), { llm, config: 'agent: { max_turns: 3 }' });
    await until('the answer', () => inThread(team, thread).length === 1);
    await idle(team);
    expect(inThread(team, thread)).toEqual(['Counted to 3; 997 are missing. Ask for the rest in parts.']);
    expect(llm.requests.map((request) => request.body.tool_choice)).toEqual([undefined, undefined, undefined, 'none']);
    expect(new Set(llm.requests.map((request) => JSON.stringify(request.body.tools))).size, 'the tools stay the same bytes').toBe(1);
    expect(llm.requests.at(-1)?.body.messages.at(-1)).toEqual({ role: 'user', content: expect.stringMatching(/^No more tools can be called now\./) });
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_completed', stop: 'turn_limit' });
  });

  it('holds against a model that goes on calling: the run ends all the same', async () => {
    const thread = await ask((_r, n) => countUp(n), { config: 'language: zh\nagent: { max_turns: 2 }' });
    await idle(team);
    expect(team.requests).toHaveLength(3);
    expect(saidIn(team.requests.at(-1) ?? { messages: [], tools: [], last: false }).at(-1)).toMatch(/^现在不能再调用工具/);
    expect(inThread(team, thread)).toEqual(['对此我没有答案。']);
  });

  it('is ten unless configured', async () => {
    await ask((request, n) => (request.last ? { text: 'Enough.' } : countUp(n)));
    await idle(team);
    expect(team.requests).toHaveLength(11);
  });
});

describe('the time limit', () => {
  it('counts working time, not the time that people take, and ends like the turn limit', async () => {
    const slow: ToolDefinition<{ n: number }> = { ...countTool(), execute: (_args, context) => new Promise((resolve) => context.clock.setTimer(20_000, () => resolve({ ok: true, content: 'Counted.' }))) };
    const script: Script = (request, n) => (request.last ? { text: 'Time is up.' } : n === 1 ? { calls: [{ name: 'clarify', args: { question: 'How far?' } }] } : countUp(n));
    const thread = await ask(script, { config: 'agent: { max_run_time: 1m, max_turns: 50 }', tools: [slow] });
    await until('the question', () => inThread(team, thread).length === 1);
    clock.sleep(3_600_000);
    await team.say(lin, 'to ten', { thread });
    await within(clock, 90_000, 'the end', () => inThread(team, thread).includes('Time is up.'));
    expect(resultsIn(team.requests.at(-1)).filter((result) => result === 'Counted.')).toHaveLength(3);
  });
});

describe('failures of tools', () => {
  it.each([
    { language: 'en', words: 'Too many steps failed one after the other, so I stopped.\nDone until then: count_up ×2. Did not work: count_up ×6.\nPlease try again later, or ask an admin.' },
    { language: 'zh', words: '连续多个步骤失败，我已停止。\n此前已完成：count_up ×2。未成功：count_up ×6。\n请稍后再试，或联系管理员。' },
  ])('six in a row end the run: what was done, what failed and how often, what to do ($language)', async ({ language, words }) => {
    const thread = await ask((_r, n) => countUp(n), { config: `language: ${language}\nagent: { max_turns: 20 }`, tools: [countTool({ failsFrom: 3 })] });
    await idle(team);
    expect(inThread(team, thread)).toEqual([words]);
    expect(words).not.toMatch(internals);
    expect(await runsOf(team)).toMatchObject([{ status: 'failed' }]);
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_failed', error: { code: 'tool_failures', message: expect.stringContaining('ECONNREFUSED') } });
  });

  it('with a success between them go on', async () => {
    const thread = await ask((_r, n) => (n <= 9 ? countUp(n) : { text: 'Finished.' }), { tools: [countTool({ failsFrom: 1, failsUntil: 5 })] });
    await idle(team);
    expect(inThread(team, thread)).toEqual(['Finished.']);
  });

  it('end the run as early as configured', async () => {
    await ask((_r, n) => countUp(n), { config: 'agent: { max_tool_failures: 2 }', tools: [countTool({ failsFrom: 1 })] });
    await idle(team);
    expect(team.requests).toHaveLength(2);
  });

  it('do not count a person who says no', async () => {
    const script: Script = (_r, n) => (n <= 2 ? { calls: [{ name: 'send_group_message', args: { group_name: 'all', content: `${n}` } }] } : { text: 'Then not.' });
    const thread = await ask(script, { config: "agent: { max_tool_failures: 1 }\ntools: { level2: [send_group_message] }\ngroups: [{ match: '*', send_to: ['*'] }]" });
    for (const n of [1, 2]) {
      await until(`card ${n}`, () => team.platform.ours().filter((m) => m.buttons).length === 1);
      await team.press(team.button('Deny').interactionId, 'deny', lin);
      await until('the receipt', () => team.platform.ours().every((m) => !m.buttons) || team.requests.length > n);
    }
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe('Then not.');
  });
});

describe('a model that fails', () => {
  const sentences: Readonly<Record<ModelErrorCode, { en: string; zh: string; retried: boolean }>> = {
    network: { en: 'The model service cannot be reached.', zh: '无法连接模型服务。', retried: true },
    timeout: { en: 'The model service did not answer in time.', zh: '模型服务没有及时响应。', retried: true },
    stream_cut: { en: 'The model service broke off in the middle of its reply.', zh: '模型服务的回复中途断开。', retried: true },
    rate_limited: { en: 'The model service is overloaded at the moment.', zh: '模型服务目前过载。', retried: true },
    overloaded: { en: 'The model service is overloaded at the moment.', zh: '模型服务目前过载。', retried: true },
    empty_reply: { en: 'The model service gave no usable reply.', zh: '模型服务没有给出可用的回复。', retried: true },
    bad_response: { en: 'The model service gave no usable reply.', zh: '模型服务没有给出可用的回复。', retried: false },
    quota: { en: 'The quota of the model service is used up; an admin has to look at it.', zh: '模型服务的额度已用完，需要管理员处理。', retried: false },
    unauthorized: { en: 'The model service refused our key; an admin has to look at it.', zh: '模型服务拒绝了我们的密钥，需要管理员处理。', retried: false },
    not_found: { en: 'The configured model does not exist at the model service; an admin has to look at it.', zh: '配置的模型在模型服务上不存在，需要管理员处理。', retried: false },
    bad_request: { en: 'The model service did not accept the request; an admin has to look at it.', zh: '模型服务不接受这个请求，需要管理员处理。', retried: false },
    context_length: { en: 'This conversation has become too long for the model. Please start a new thread.', zh: '这段对话对模型来说太长了，请另起一个话题。', retried: false },
  };
  const cases = Object.entries(sentences).flatMap(([code, facts]) => (['en', 'zh'] as const).map((language) => ({ code: code as ModelErrorCode, language, says: facts[language], retried: facts.retried })));

  it.each(cases)('with $code is one plain sentence and what to do ($language)', async ({ code, language, says, retried }) => {
    const thread = await ask(() => new ModelError(code, 'HTTP 418 {"error": "10.0.0.7 at main.ts:1"}', { retryable: retried }), { config: `language: ${language}` });
    await within(clock, 30_000, 'the answer', () => inThread(team, thread).length === 1);
    await idle(team);
    const advice = code === 'context_length' ? '' : language === 'en' ? '\nPlease try again later, or ask an admin.' : '\n请稍后再试，或联系管理员。';
    expect(inThread(team, thread)).toEqual([`${says}${advice}`]);
    expect(says).not.toMatch(internals);
    expect(team.requests).toHaveLength(retried ? 4 : 1);
    expect((await stepsOf(team)).filter((step) => step.type === 'model_failed')).toHaveLength(retried ? 4 : 1);
  });

  it('after some work says what was done', async () => {
    const thread = await ask((_r, n) => (n === 1 ? countUp() : new ModelError('quota', 'no more', { retryable: false })));
    await idle(team);
    expect(inThread(team, thread)).toEqual(['The quota of the model service is used up; an admin has to look at it.\nDone until then: count_up.\nPlease try again later, or ask an admin.']);
  });

  it('once is asked again after a second, and then answers as if nothing had been', async () => {
    llm = await startFakeLlm([error(503, '<html>Bad gateway at 10.0.0.7</html>'), text('Here I am.')]);
    const thread = await ask(() => ({ text: '' }), { llm });
    await llm.waitForRequest(1);
    await within(clock, 1500, 'the answer', () => inThread(team, thread).length === 1);
    expect(inThread(team, thread)).toEqual(['Here I am.']);
    expect(llm.requests).toHaveLength(2);
  });

  it('waits as long as the server asks for', async () => {
    llm = await startFakeLlm([error(429, { message: 'slow down' }, { 'retry-after': '20' }), text('Here I am.')]);
    const thread = await ask(() => ({ text: '' }), { llm });
    await llm.waitForRequest(1);
    await until('the failure on record', async () => (await stepsOf(team)).some((step) => step.type === 'model_failed'));
    await clock.advance(19_500);
    expect(llm.requests).toHaveLength(1);
    await clock.advance(6000);
    await until('the answer', () => inThread(team, thread).includes('Here I am.'));
  });

  it('because of a fault of ours says so, and the next request works', async () => {
    const thread = await ask((_r, n) => {
      if (n === 1) throw new TypeError('Cannot read properties of undefined');
      return { text: 'Here I am.' };
    });
    await idle(team);
    await team.say(lin, 'again', { thread, mention: true });
    await idle(team);
    expect(inThread(team, thread)).toEqual(['Something went wrong on my side.\nPlease try again later, or ask an admin.', 'Here I am.']);
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_failed', error: { code: 'internal', message: 'Cannot read properties of undefined' } });
  });
});
