import { afterEach, expect, it } from 'vitest';
import { fakeClock } from '../../test/fakes/clock.ts';
import { error, type FakeLlm, hang, startFakeLlm } from '../../test/fakes/llm.ts';
import { createModel } from './model.ts';

let llm: FakeLlm;
afterEach(() => llm.close());

const request = { messages: [{ role: 'user' as const, content: 'hi' }], tools: [], last: false };
const settings = { apiKey: 'k', model: 'm', temperature: 0.2, maxTokens: 100, extraParams: {} };

it.each([
  { what: 'a web page', reply: error(200, '<html>hello</html>'), code: 'bad_response', retryable: false },
  { what: 'a refused key', reply: error(401, { error: { message: 'no' } }), code: 'unauthorized', retryable: false },
  { what: 'an unknown model', reply: error(404, { error: { message: 'no' } }), code: 'not_found', retryable: false },
  { what: 'a used-up quota', reply: error(429, { error: { message: 'no', code: 'insufficient_quota' } }), code: 'quota', retryable: false },
  { what: 'too many requests', reply: error(429, { error: { message: 'no' } }, { 'retry-after': '7' }), code: 'rate_limited', retryable: true, retryAfterMs: 7000 },
  { what: 'a server that is down', reply: error(503, { error: { message: 'no' } }), code: 'overloaded', retryable: true },
])('$what is $code', async ({ reply, code, retryable, retryAfterMs }) => {
  llm = await startFakeLlm([reply]);
  const model = createModel({ ...settings, baseUrl: llm.url, timeoutMs: 30_000, clock: fakeClock() });
  await expect(model.complete(request, new AbortController().signal)).rejects.toMatchObject({ code, retryable, retryAfterMs });
  expect(llm.requests, 'asked once: each retry is a step of the run').toHaveLength(1);
});

it('a server that falls silent is given up after the time-out', async () => {
  llm = await startFakeLlm([hang('half an ans')]);
  const clock = fakeClock();
  const model = createModel({ ...settings, baseUrl: llm.url, timeoutMs: 30_000, clock });
  const answer = model.complete(request, new AbortController().signal);
  const failed = expect(answer).rejects.toMatchObject({ code: 'timeout', retryable: true });
  await llm.waitForRequest(1);
  await clock.advance(30_001);
  await failed;
});

it('a stop ends a request at once', async () => {
  llm = await startFakeLlm([hang()]);
  const stop = new AbortController();
  const model = createModel({ ...settings, baseUrl: llm.url, timeoutMs: 30_000, clock: fakeClock() });
  const answer = model.complete(request, stop.signal);
  await llm.waitForRequest(1);
  stop.abort(new Error('stopped'));
  await expect(answer).rejects.toThrow('stopped');
});
