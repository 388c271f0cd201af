/** The offline demo model: a small OpenAI-compatible server inside the product, for a first try without a model server. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import { estimateTokens } from '../agent/tokens.ts';
import { type Clock, systemClock } from '../clock.ts';
import { type DemoReply, demoReply } from './rules.ts';

const model = 'hermes-demo';

export type DemoModel = { readonly baseUrl: string; readonly apiKey: string; readonly model: typeof model; close(): Promise<void> };

/** Listens on a free port of the loopback interface and answers only requests with its own random key. */
export async function startDemoModel({ clock = systemClock }: { readonly clock?: Clock } = {}): Promise<DemoModel> {
  const apiKey = `demo-${randomUUID()}`;
  const server = createServer((request, response) => {
    answer(request, response, { apiKey, clock }).catch(() => sendError(response, 500, 'The demo model failed on this request.'));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { baseUrl: `http://127.0.0.1:${port}/v1`, apiKey, model, close };
}

const textPart = z.looseObject({ type: z.string(), text: z.string().optional() });
const requestBody = z.looseObject({
  messages: z
    .array(
      z.looseObject({
        role: z.string(),
        content: z.union([z.string(), z.array(textPart)]).nullish(),
        tool_calls: z.array(z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string() }) })).optional(),
        tool_call_id: z.string().optional(),
      }),
    )
    .min(1),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).default([]),
  tool_choice: z.unknown().optional(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
});

const maxBodyBytes = 8_000_000;

async function answer(request: IncomingMessage, response: ServerResponse, { apiKey, clock }: { apiKey: string; clock: Clock }): Promise<void> {
  const path = `${request.method} ${request.url?.split('?')[0]}`;
  if (request.headers.authorization !== `Bearer ${apiKey}`) return sendError(response, 401, 'The demo model serves only the process that started it.');
  if (path === 'GET /v1/models') return sendJson(response, 200, { object: 'list', data: [{ id: model, object: 'model', created: 0, owned_by: 'hermes' }] });
  if (path !== 'POST /v1/chat/completions') return sendError(response, 404, `The demo model does not know ${path}.`);
  const body = requestBody.safeParse(await jsonOf(request));
  if (!body.success) return sendError(response, 400, `The demo model cannot read this request: ${z.prettifyError(body.error)}`);
  const { messages, tools, tool_choice, stream, stream_options } = body.data;
  const offered = tool_choice === 'none' ? [] : tools.map((tool) => tool.function.name);
  const reply = demoReply(
    messages.map(({ content, ...message }) => ({ ...message, content: content ?? null })),
    offered,
  );
  const completion = completionOf(reply, { created: Math.floor(clock.now() / 1000), inputTokens: estimateTokens(JSON.stringify([messages, tools])) });
  if (stream) sendStream(response, completion, stream_options?.include_usage === true);
  else sendJson(response, 200, wholeOf(completion));
}

async function jsonOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += (part as Buffer).length;
    if (size > maxBodyBytes) return undefined;
    parts.push(part as Buffer);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8'));
  } catch {
    return undefined;
  }
}

// ---------------------------------------------------------------- completions

type WireCall = { readonly id: string; readonly type: 'function'; readonly function: { readonly name: string; readonly arguments: string } };
type Completion = {
  readonly head: { readonly id: string; readonly created: number; readonly model: string };
  readonly text: string;
  readonly calls: readonly WireCall[];
  readonly finish: 'stop' | 'tool_calls';
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number };
};

function completionOf(reply: DemoReply, facts: { created: number; inputTokens: number }): Completion {
  const id = randomUUID();
  const text = 'text' in reply ? reply.text : '';
  const calls = 'text' in reply ? [] : reply.toolCalls.map((call, index): WireCall => ({ id: `call_${id.slice(0, 8)}_${index}`, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.args) } }));
  const outputTokens = estimateTokens(text + JSON.stringify(calls));
  const usage = { prompt_tokens: facts.inputTokens, completion_tokens: outputTokens, total_tokens: facts.inputTokens + outputTokens };
  return { head: { id: `chatcmpl-${id}`, created: facts.created, model }, text, calls, finish: calls.length > 0 ? 'tool_calls' : 'stop', usage };
}

function wholeOf({ head, text, calls, finish, usage }: Completion) {
  const message = { role: 'assistant', content: calls.length > 0 ? null : text, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  return { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage };
}

function sendStream(response: ServerResponse, completion: Completion, withUsage: boolean): void {
  const { head, text, calls, finish, usage } = completion;
  const deltas = [{ role: 'assistant', content: '' }, ...pieces(text).map((content) => ({ content })), ...calls.flatMap(callDeltas)];
  const chunks = [...deltas.map((delta) => choice(delta, null)), choice({}, finish), ...(withUsage ? [{ choices: [], usage }] : [])];
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  for (const chunk of chunks) response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...chunk })}\n\n`);
  response.end('data: [DONE]\n\n');
}

const choice = (delta: object, finish: string | null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });

/** Never cut inside a character. */
const pieces = (text: string): string[] => text.match(/[\s\S]{1,24}/gu) ?? [];

function callDeltas(call: WireCall, index: number): object[] {
  const begun = { tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: '' } }] };
  return [begun, ...pieces(call.function.arguments).map((part) => ({ tool_calls: [{ index, function: { arguments: part } }] }))];
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function sendError(response: ServerResponse, status: number, message: string): void {
  sendJson(response, status, { error: { message, type: status === 401 ? 'authentication_error' : 'invalid_request_error', param: null, code: null } });
}
