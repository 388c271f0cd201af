import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../clock.ts';
import { calculator } from '../tools/calculator.ts';
import { currentTime } from '../tools/current-time.ts';
import type { AnyTool, ToolContext } from '../tools/types.ts';
import { type DemoModel, startDemoModel } from './server.ts';

type Messages = OpenAI.ChatCompletionMessageParam[];

const clock: Clock = { now: () => Date.UTC(2026, 11, 1, 1, 3, 12), setTimer: () => () => {} };
const tool = (name: string): OpenAI.ChatCompletionTool => ({ type: 'function', function: { name, parameters: { type: 'object', properties: {} } } });
const tools = ['calculator', 'clarify', 'current_time', 'send_group_message'].map(tool);

let demo: DemoModel;
let client: OpenAI;
beforeAll(async () => {
  demo = await startDemoModel({ clock });
  client = new OpenAI({ baseURL: demo.baseUrl, apiKey: demo.apiKey, maxRetries: 0 });
});
afterAll(() => demo.close());

/** Streams one reply and puts it together, as any client does. */
async function reply(messages: Messages) {
  const stream = client.chat.completions.stream({ model: demo.model, messages, tools, stream_options: { include_usage: true } });
  const { choices, usage } = await stream.finalChatCompletion();
  const message = choices[0]?.message;
  if (!message || !usage) throw new Error('no message or no usage');
  expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
  return { message, finish: choices[0]?.finish_reason };
}

/** The loop of an agent, with the real tools where there are any. */
async function converse(asked: string): Promise<{ answer: string; called: string[] }> {
  const messages: Messages = [{ role: 'user', content: asked }];
  const called: string[] = [];
  for (let turn = 0; turn < 5; turn++) {
    const { message, finish } = await reply(messages);
    if (finish === 'stop') return { answer: message.content ?? '', called };
    messages.push(message);
    for (const call of message.tool_calls ?? []) {
      if (call.type !== 'function') continue;
      called.push(`${call.function.name} ${call.function.arguments}`);
      messages.push({ role: 'tool', tool_call_id: call.id, content: await run(call.function.name, call.function.arguments) });
    }
  }
  throw new Error('the conversation does not end');
}

async function run(name: string, args: string): Promise<string> {
  const context = { timezone: 'Asia/Shanghai', clock } as ToolContext;
  if (name === 'clarify') return '林一 answered: 生产环境';
  if (name === 'send_group_message') return 'Posted 1 message at 2026-12-01T01:03:12.000Z.';
  const tool: AnyTool = name === 'calculator' ? calculator : currentTime;
  const result = await tool.execute?.(JSON.parse(args), context, undefined);
  return result?.content ?? '';
}

describe('the demo model', () => {
  it('calculates through the calculator', async () => {
    expect(await converse('（13＋27）×4 等于多少？')).toEqual({ answer: '(13+27)*4 = 160\n\n—— 演示模型', called: ['calculator {"expression":"(13+27)*4"}'] });
  });

  it('says what the calculator refused', async () => {
    expect((await converse('what is 9^9^9?')).answer).toMatch(/^I could not calculate that: Not calculated: a value in it is larger than 10\^100\.\n\n— demo model$/);
  });

  it('tells the time', async () => {
    expect((await converse('现在几点？')).answer).toBe('现在是 2026-12-01 09:03，星期二（Asia/Shanghai，UTC+08:00）。\n\n—— 演示模型');
  });

  it('asks back and names the choice', async () => {
    const { answer, called } = await converse('部署新版本');
    expect(answer).toContain('环境：生产环境。');
    expect(called).toHaveLength(1);
  });

  it('calculates and passes the result on', async () => {
    const { answer, called } = await converse('work out (13+27)*4 and tell #all the result');
    expect(called).toEqual(['calculator {"expression":"(13+27)*4"}', 'send_group_message {"group_name":"all","content":"(13+27)*4 = 160"}']);
    expect(answer).toBe('(13+27)*4 = 160\nPosted to #all: (13+27)*4 = 160\n\n— demo model');
  });

  it('answers without a stream, and without tools when none may be called', async () => {
    const messages: Messages = [{ role: 'user', content: '1+1' }];
    const called = await client.chat.completions.create({ model: demo.model, messages, tools });
    expect(called.choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { content: null, tool_calls: [{ type: 'function', function: { name: 'calculator' } }] } });
    expect(called.created).toBe(clock.now() / 1000);
    const last = await client.chat.completions.create({ model: demo.model, messages, tools, tool_choice: 'none' });
    expect(last.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.stringContaining('not available') } });
    expect(last.usage?.prompt_tokens).toBeGreaterThan(0);
  });

  it('gives every call an id of its own', async () => {
    const ids = await Promise.all(['1+1', '1+1'].map(async (content) => (await reply([{ role: 'user', content }])).message.tool_calls?.[0]?.id));
    expect(new Set(ids).size).toBe(2);
  });

  it('never tears a character apart', async () => {
    const content = `tell #all: ${'👍'.repeat(40)}`;
    const { message } = await reply([{ role: 'user', content }]);
    expect(message.tool_calls?.[0]).toMatchObject({ function: { arguments: JSON.stringify({ group_name: 'all', content: '👍'.repeat(40) }) } });
  });

  it('lists its model', async () => {
    expect((await client.models.list()).data.map((model) => model.id)).toEqual(['hermes-demo']);
  });

  it('serves nobody without its key', async () => {
    const stranger = new OpenAI({ baseURL: demo.baseUrl, apiKey: 'guessed', maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401 });
  });

  it('refuses what it cannot read', async () => {
    await expect(client.chat.completions.create({ model: demo.model, messages: [] })).rejects.toMatchObject({ status: 400 });
    const headers = { authorization: `Bearer ${demo.apiKey}` };
    expect((await fetch(`${demo.baseUrl}/chat/completions`, { method: 'POST', headers, body: 'no json' })).status).toBe(400);
    expect((await fetch(`${demo.baseUrl}/embeddings`, { headers })).status).toBe(404);
  });

  it('closes although clients keep connections open', async () => {
    const other = await startDemoModel();
    await fetch(`${other.baseUrl}/models`);
    await other.close();
    await expect(fetch(`${other.baseUrl}/models`)).rejects.toThrow();
  });
});
