import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { calls, cutStream, delay, error, type FakeLlm, hang, type ReplyFunction, type ScriptedReply, startFakeLlm, text } from './llm.ts';

type Params = OpenAI.ChatCompletionCreateParamsNonStreaming;

const question: Params = { model: 'fake-model', messages: [{ role: 'user', content: 'How many?' }] };
const tool = { type: 'function', function: { name: 'calculator', parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] } } } as const;
const call = (id: string, name = 'calculator') => ({ id, type: 'function', function: { name, arguments: '{}' } }) as const;

const started: FakeLlm[] = [];
async function start(script: readonly ScriptedReply[] | ReplyFunction = []) {
  const fake = await startFakeLlm(script);
  started.push(fake);
  return { fake, client: new OpenAI({ baseURL: fake.url, apiKey: 'test', maxRetries: 0 }) };
}
afterEach(async () => {
  await Promise.all(started.splice(0).map((fake) => fake.close()));
});

async function streamed(client: OpenAI, params: Params = question, options: { signal?: AbortSignal } = {}) {
  const chunks = await client.chat.completions.create({ ...params, stream: true, stream_options: { include_usage: true } }, options);
  const seen = { text: '', args: '', id: '', finish: '', usage: undefined as number | undefined };
  for await (const chunk of chunks) {
    const choice = chunk.choices[0];
    seen.text += choice?.delta.content ?? '';
    seen.args += choice?.delta.tool_calls?.[0]?.function?.arguments ?? '';
    seen.id ||= choice?.delta.tool_calls?.[0]?.id ?? '';
    seen.finish ||= choice?.finish_reason ?? '';
    seen.usage ??= chunk.usage?.total_tokens;
  }
  return seen;
}

describe('what it answers', () => {
  it('streams a scripted text with its usage', async () => {
    const { client } = await start([text('四十 of them 👍, and more', { usage: { prompt_tokens: 7, completion_tokens: 3 } })]);
    expect(await streamed(client)).toMatchObject({ text: '四十 of them 👍, and more', finish: 'stop', usage: 10 });
  });

  it('sends no usage chunk that was not asked for', async () => {
    const { client } = await start([text('x')]);
    const chunks = await client.chat.completions.create({ ...question, stream: true });
    for await (const chunk of chunks) expect(chunk.usage).toBeUndefined();
  });

  it('answers without a stream as well', async () => {
    const { client } = await start([text('forty')]);
    const reply = await client.chat.completions.create(question);
    expect(reply.choices[0]).toMatchObject({ message: { role: 'assistant', content: 'forty' }, finish_reason: 'stop' });
    expect(reply.usage?.total_tokens).toBeGreaterThan(0);
  });

  it('streams tool calls in pieces, with ids that never repeat', async () => {
    const { client } = await start([calls([{ name: 'calculator', args: { expression: '(13+27)*4' } }]), calls([{ name: 'calculator', args: {} }])]);
    const first = await streamed(client, { ...question, tools: [tool] });
    const second = await streamed(client, { ...question, tools: [tool] });
    expect(first).toMatchObject({ args: '{"expression":"(13+27)*4"}', finish: 'tool_calls' });
    expect(first.id).not.toBe(second.id);
  });

  it('sends broken arguments as they were scripted', async () => {
    const { client } = await start([calls([{ name: 'calculator', args: "{'expression': 1,}", id: 'x' }])]);
    const reply = await client.chat.completions.create({ ...question, tools: [tool] });
    expect(reply.choices[0]?.message.tool_calls).toEqual([{ id: 'x', type: 'function', function: { name: 'calculator', arguments: "{'expression': 1,}" } }]);
  });

  it('computes replies by a function that sees the request', async () => {
    const { client, fake } = await start(({ messages }, index) => text(`${index}: ${String(messages.at(-1)?.content)}`));
    expect((await client.chat.completions.create(question)).choices[0]?.message.content).toBe('0: How many?');
    fake.reply(text('queued first'));
    expect((await streamed(client)).text).toBe('queued first');
  });

  it('lists its model', async () => {
    const { client } = await start();
    expect((await client.models.list()).data.map((model) => model.id)).toEqual(['fake-model']);
  });
});

describe('how it fails', () => {
  it('passes scripted errors on with their headers', async () => {
    const { client } = await start([error(429, { message: 'slow down', code: 'rate_limit_exceeded' }, { 'retry-after': '7' })]);
    const failure = await client.chat.completions.create(question).catch((e: unknown) => e as InstanceType<typeof OpenAI.APIError>);
    expect(failure).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
    expect((failure as { headers: Headers }).headers.get('retry-after')).toBe('7');
  });

  it('sends a text as an HTML page', async () => {
    const { client } = await start([error(502, '<html>Bad gateway</html>')]);
    await expect(client.chat.completions.create(question)).rejects.toMatchObject({ status: 502 });
  });

  it('says clearly when it is asked more than was scripted', async () => {
    const { client, fake } = await start([text('only one')]);
    await client.chat.completions.create(question);
    await expect(client.chat.completions.create(question)).rejects.toThrow(/request 2 was not expected.*How many\?/);
    expect(fake.unexpected).toHaveLength(1);
  });

  it('breaks a stream off after so many characters', async () => {
    const { client } = await start([cutStream(12, 'It is exactly forty.')]);
    const chunks = await client.chat.completions.create({ ...question, stream: true });
    let seen = '';
    let finish: string | null = null;
    const reading = (async () => {
      for await (const chunk of chunks) {
        seen += chunk.choices[0]?.delta.content ?? '';
        finish ??= chunk.choices[0]?.finish_reason ?? null;
      }
    })();
    await reading.catch(() => undefined);
    expect([seen, finish]).toEqual(['It is exactl', null]);
  });

  it('breaks a plain answer off', async () => {
    const { client } = await start([cutStream(5)]);
    await expect(client.chat.completions.create(question)).rejects.toThrow();
  });

  it('hangs until the client gives up', async () => {
    const { client, fake } = await start([hang(), hang('It is ')]);
    for (const n of [1, 2]) {
      const stop = new AbortController();
      const reading = streamed(client, question, { signal: stop.signal });
      await fake.waitForRequest(n);
      stop.abort();
      await reading.catch(() => undefined);
    }
    expect(fake.requests).toHaveLength(2);
  });
});

describe('what it records', () => {
  it('keeps every body, the order of events and the most requests at once', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { client, fake } = await start(async (_request, index) => {
      if (index < 2) await gate;
      return text('done');
    });
    const both = [client.chat.completions.create(question), client.chat.completions.create({ ...question, user: 'u2' })];
    expect((await fake.waitForRequest(2)).body.user).toBe('u2');
    release();
    await Promise.all(both);
    await client.chat.completions.create(question);
    expect(fake.maxConcurrent).toBe(2);
    expect(fake.requests.map((request) => request.startedAt)).toEqual([1, 2, expect.any(Number)]);
    expect(fake.requests[0]?.endedAt).toBeLessThan(fake.requests[2]?.startedAt ?? 0);
  });

  it('waits for a request that has not come yet', async () => {
    const { client, fake } = await start([delay(1, text('later'))]);
    const waiting = fake.waitForRequest(1);
    await client.chat.completions.create(question);
    expect((await waiting).headers.authorization).toBe('Bearer test');
  });
});

describe('what it refuses', () => {
  const user = { role: 'user', content: 'x' };
  const assistant = { role: 'assistant', content: null, tool_calls: [call('a'), call('b')] };
  const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: '1' });
  const named = (name: string) => ({ ...tool, function: { ...tool.function, name } });
  const withSchema = (parameters: unknown) => ({ ...tool, function: { name: 'calculator', parameters } });

  const refused: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['a call without its result', { messages: [user, assistant, result('a')] }, /did not have response messages: b/],
    ['a call followed by a person', { messages: [user, assistant, result('a'), user, result('b')] }, /did not have response messages: b/],
    ['two results for one call', { messages: [user, assistant, result('a'), result('a'), result('b')] }, /must be a response to a preceding message/],
    ['a result without a call', { messages: [user, result('a')] }, /must be a response to a preceding message/],
    ['two calls of one id', { messages: [user, { ...assistant, tool_calls: [call('a'), call('a')] }, result('a')] }, /Duplicate/],
    ['an id used again later', { messages: [user, { ...assistant, tool_calls: [call('a')] }, result('a'), { ...assistant, tool_calls: [call('a')] }, result('a')] }, /Duplicate/],
    ['an unknown role', { messages: [{ role: 'hermes', content: 'x' }] }, /messages\[0\]\.role/],
    ['no messages', { messages: [] }, /minimum length 1/],
    ['content that is an object', { messages: [{ role: 'user', content: { text: 'x' } }] }, /content/],
    ['content that is missing', { messages: [{ role: 'user' }] }, /content/],
    ['an assistant message without content and calls', { messages: [user, { role: 'assistant', content: null }] }, /content/],
    ['an unknown part', { messages: [{ role: 'user', content: [{ type: 'video' }] }] }, /type/],
    ['a part without its text', { messages: [{ role: 'user', content: [{ type: 'text' }] }] }, /content\[0\]\.text/],
    ['an image from the assistant', { messages: [user, { role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'https://x' } }] }] }, /only 'user'/],
    ['an image that is no URL', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'cat.png' } }] }] }, /data URL/],
    ['arguments that are no text', { messages: [user, { ...assistant, tool_calls: [{ id: 'a', type: 'function', function: { name: 'x', arguments: {} } }] }, result('a')] }, /arguments/],
    ['an empty list of calls', { messages: [user, { role: 'assistant', content: 'x', tool_calls: [] }] }, /tool_calls/],
    ['a tool name with a point', { tools: [named('a.b')] }, /does not match pattern/],
    ['a tool name that is too long', { tools: [named('a'.repeat(65))] }, /does not match pattern/],
    ['two tools of one name', { tools: [tool, tool] }, /unique/],
    ['an empty list of tools', { tools: [] }, /minimum length 1/],
    ['parameters that are no object', { tools: [withSchema({ type: 'string' })] }, /JSON Schema of 'type: "object"'/],
    ['a schema without a type', { tools: [withSchema({})] }, /JSON Schema/],
    ['a required parameter that is not described', { tools: [withSchema({ type: 'object', properties: {}, required: ['x'] })] }, /'required' names 'x'/],
    ['tool_choice without tools', { tool_choice: 'none' }, /only allowed when 'tools'/],
    ['a chosen tool that is not offered', { tools: [tool], tool_choice: { type: 'function', function: { name: 'other' } } }, /tool_choice/],
    ['ill-formed Unicode in a message', { messages: [{ role: 'user', content: 'cut \ud83d' }] }, /lone surrogate.*body\.messages\.0\.content/],
    ['ill-formed Unicode in a tool', { tools: [{ ...tool, function: { ...tool.function, description: '\udc00' } }] }, /lone surrogate/],
    ['a temperature out of range', { temperature: 3 }, /temperature/],
    ['stream options without a stream', { stream_options: { include_usage: true } }, /stream_options/],
    ['no model', { model: '' }, /model/],
  ];

  it.each(refused)('%s', async (_name, change, message) => {
    const { client, fake } = await start([text('never sent')]);
    const failure = client.chat.completions.create({ ...question, ...change } as Params);
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toMatchObject({ status: 400, type: 'invalid_request_error' });
    expect(fake.requests[0]?.refused).toMatch(message);
    expect((await client.chat.completions.create(question)).choices[0]?.message.content).toBe('never sent');
  });

  it('a request without a key, and an unknown path', async () => {
    const { fake } = await start();
    expect((await fetch(`${fake.url}/models`)).status).toBe(401);
    expect((await fetch(`${fake.url}/embeddings`, { headers: { authorization: 'Bearer x' } })).status).toBe(404);
  });

  it('nothing that real providers take', async () => {
    const { client, fake } = await start(() => text('ok'));
    const parts = [
      { type: 'text', text: 'look' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
    ];
    const messages = [{ role: 'system', content: 's' }, { role: 'user', content: parts }, assistant, result('b'), result('a'), { role: 'assistant', content: 'done' }, user, user];
    await streamed(client, { ...question, messages, tools: [tool], tool_choice: 'none', temperature: 0.2, max_tokens: 4096 } as unknown as Params);
    expect(fake.requests[0]?.refused).toBeUndefined();
  });
});
