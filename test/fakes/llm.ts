/** A strict fake of an OpenAI-compatible server over real HTTP. It answers what a test scripted, and refuses what real providers refuse. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ChatRequest, problemWith } from './llm-checks.ts';

export type { ChatRequest } from './llm-checks.ts';

export type FakeUsage = { readonly prompt_tokens: number; readonly completion_tokens: number };
/** `args` given as text is sent as it is, however broken; `id` overrides the unique one. */
export type FakeCall = { readonly name: string; readonly args: unknown; readonly id?: string };

type Answer = { readonly kind: 'answer'; readonly text: string; readonly reasoning?: string; readonly calls: readonly FakeCall[]; readonly usage?: FakeUsage; readonly finish?: string };
type Failure =
  | { readonly kind: 'error'; readonly status: number; readonly body: unknown; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: 'hang'; readonly text: string }
  | { readonly kind: 'cut'; readonly text: string };
export type ScriptedReply = (Answer | Failure) & { readonly delayMs?: number };

/** `index` counts the accepted requests from 0. */
export type ReplyFunction = (request: ChatRequest, index: number) => ScriptedReply | undefined | Promise<ScriptedReply | undefined>;

/** `startedAt` and `endedAt` are marks of one common counter: what happened first has the smaller one. */
export type RecordedRequest = {
  readonly body: ChatRequest;
  readonly headers: IncomingHttpHeaders;
  readonly startedAt: number;
  endedAt?: number;
  /** Why it was refused with 400; such a request takes no reply from the script. */
  readonly refused?: string;
};

export type FakeLlm = {
  /** Ends in /v1. */
  readonly url: string;
  /** Every chat request in order of arrival, refused ones too. */
  readonly requests: readonly RecordedRequest[];
  /** One line for each request that the script had no reply for. A test that expects none asserts that it is empty. */
  readonly unexpected: readonly string[];
  /** The most requests that were ever open at once. */
  readonly maxConcurrent: number;
  /** Adds replies to the queue. */
  reply(...replies: readonly ScriptedReply[]): void;
  /** Computes replies once the queue is empty; `undefined` means none. */
  respond(answer: ReplyFunction): void;
  /** Resolves when the n-th request (from 1) has arrived. */
  waitForRequest(n: number): Promise<RecordedRequest>;
  close(): Promise<void>;
};

export const text = (content: string, extra: { reasoning?: string; usage?: FakeUsage; finish?: string } = {}): ScriptedReply => ({ kind: 'answer', text: content, calls: [], ...extra });
export const calls = (list: readonly FakeCall[], extra: { text?: string; reasoning?: string; usage?: FakeUsage } = {}): ScriptedReply => ({ kind: 'answer', text: '', calls: list, ...extra });
/** A body given as text is sent as HTML; `{ message, type?, code? }` becomes an OpenAI error. */
export const error = (status: number, body: unknown = { message: `scripted ${status}` }, headers: Readonly<Record<string, string>> = {}): ScriptedReply => ({ kind: 'error', status, body, headers });
/** Sends `before`, then nothing more until the client gives up. */
export const hang = (before = ''): ScriptedReply => ({ kind: 'hang', text: before });
/** Breaks the connection after so many characters of the answer. */
export const cutStream = (afterChars: number, answer = 'This answer never reaches its end.'): ScriptedReply => ({ kind: 'cut', text: answer.slice(0, afterChars) });
export const delay = (delayMs: number, reply: ScriptedReply): ScriptedReply => ({ ...reply, delayMs });

/** `script` is the queue of replies, or the function that computes them. Listens on a free port of the loopback interface. */
export async function startFakeLlm(script: readonly ScriptedReply[] | ReplyFunction = []): Promise<FakeLlm> {
  const state = newState(script);
  const server = createServer((request, response) => {
    route(state, request, response).catch((cause: unknown) => sendError(response, 500, { message: `fake model server: ${String(cause)}`, type: 'server_error' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests: state.requests,
    unexpected: state.unexpected,
    get maxConcurrent() {
      return state.maxConcurrent;
    },
    reply: (...replies) => void state.queue.push(...replies),
    respond(answer) {
      state.respond = answer;
    },
    waitForRequest: (n) => arrived(state, n),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type State = {
  readonly requests: RecordedRequest[];
  readonly unexpected: string[];
  readonly queue: ScriptedReply[];
  readonly waiting: Set<() => void>;
  respond: ReplyFunction | undefined;
  marks: number;
  accepted: number;
  open: number;
  maxConcurrent: number;
};

function newState(script: readonly ScriptedReply[] | ReplyFunction): State {
  const respond = typeof script === 'function' ? script : undefined;
  return { requests: [], unexpected: [], queue: typeof script === 'function' ? [] : [...script], waiting: new Set(), respond, marks: 0, accepted: 0, open: 0, maxConcurrent: 0 };
}

function arrived(state: State, n: number): Promise<RecordedRequest> {
  return new Promise((resolve) => {
    const look = () => {
      const found = state.requests[n - 1];
      if (!found) return;
      state.waiting.delete(look);
      resolve(found);
    };
    state.waiting.add(look);
    look();
  });
}

async function route(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split('?')[0];
  if (!/^Bearer \S+$/.test(request.headers.authorization ?? '')) return sendError(response, 401, { message: "You didn't provide an API key.", type: 'invalid_request_error', code: 'invalid_api_key' });
  if (request.method === 'GET' && path === '/v1/models') return sendJson(response, 200, { object: 'list', data: [{ id: 'fake-model', object: 'model', created: 0, owned_by: 'tests' }] });
  if (request.method !== 'POST' || path !== '/v1/chat/completions') return sendError(response, 404, { message: `Invalid URL (${request.method} ${path})`, type: 'invalid_request_error' });
  await complete(state, request, response);
}

async function complete(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = parsed(await bodyOf(request));
  const refused = problemWith(body);
  const record: RecordedRequest = { body: body as ChatRequest, headers: request.headers, startedAt: ++state.marks, ...(refused === undefined ? {} : { refused }) };
  begin(state, record, response);
  if (refused !== undefined) return sendError(response, 400, { message: refused, type: 'invalid_request_error' });
  const index = state.accepted++;
  const reply = state.queue.shift() ?? (await state.respond?.(record.body, index));
  if (!reply) return unscripted(state, record.body, response);
  if (reply.delayMs) await new Promise((resolve) => setTimeout(resolve, reply.delayMs));
  perform(reply, { body: record.body, index, response });
}

function begin(state: State, record: RecordedRequest, response: ServerResponse): void {
  state.requests.push(record);
  state.open++;
  state.maxConcurrent = Math.max(state.maxConcurrent, state.open);
  response.once('close', () => {
    state.open--;
    record.endedAt = ++state.marks;
  });
  for (const look of [...state.waiting]) look();
}

function unscripted(state: State, body: ChatRequest, response: ServerResponse): void {
  const last = body.messages.at(-1);
  const line = `request ${state.accepted} was not expected; its last message (${last?.role}) is: ${JSON.stringify(last?.content)?.slice(0, 200)}`;
  state.unexpected.push(line);
  sendError(response, 500, { message: `fake model server: ${line}`, type: 'server_error', code: 'not_scripted' });
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

// ---------------------------------------------------------------- replies

type Exchange = { readonly body: ChatRequest; readonly index: number; readonly response: ServerResponse };

function perform(reply: ScriptedReply, exchange: Exchange): void {
  const { body, response } = exchange;
  switch (reply.kind) {
    case 'answer':
      if (body.stream) streamAnswer(reply, exchange);
      else sendJson(response, 200, completion(reply, exchange));
      break;
    case 'error':
      if (typeof reply.body === 'string') send(response, reply.status, 'text/html', reply.body, reply.headers);
      else sendError(response, reply.status, reply.body, reply.headers);
      break;
    case 'hang':
      if (reply.text !== '') beginStream(reply.text, exchange);
      break;
    case 'cut':
      beginStream(reply.text, exchange);
      // After what was written has left.
      setImmediate(() => response.destroy());
  }
}

function beginStream(content: string, exchange: Exchange): void {
  if (!exchange.body.stream) {
    exchange.response.writeHead(200, { 'content-type': 'application/json' });
    exchange.response.write(`{"id":"cut","choices":[{"message":{"content":${JSON.stringify(content).slice(0, -1)}`);
    return;
  }
  openStream(exchange.response);
  for (const delta of textDeltas('content', content)) writeChunk(exchange, choice(delta));
}

const base = ({ body, index }: Exchange) => ({ id: `chatcmpl-${index}`, created: 0, model: body.model });
const choice = (delta: unknown, finish: string | null = null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });
const finishOf = (reply: Answer): string => reply.finish ?? (reply.calls.length > 0 ? 'tool_calls' : 'stop');

function wireCalls(reply: Answer, { index }: Exchange) {
  return reply.calls.map((call, i) => ({ id: call.id ?? `call_${index}_${i}`, type: 'function', function: { name: call.name, arguments: typeof call.args === 'string' ? call.args : JSON.stringify(call.args) } }));
}

function usageOf(reply: Answer, { body }: Exchange) {
  const estimate = { prompt_tokens: Math.ceil(JSON.stringify(body.messages).length / 4), completion_tokens: Math.ceil((reply.text.length + JSON.stringify(reply.calls).length) / 4) };
  const { prompt_tokens, completion_tokens } = reply.usage ?? estimate;
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function completion(reply: Answer, exchange: Exchange) {
  const toolCalls = reply.calls.length > 0 ? { tool_calls: wireCalls(reply, exchange) } : {};
  const reasoning = reply.reasoning === undefined ? {} : { reasoning_content: reply.reasoning };
  const message = { role: 'assistant', content: reply.text === '' && reply.calls.length > 0 ? null : reply.text, ...reasoning, ...toolCalls };
  return { ...base(exchange), object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finishOf(reply) }], usage: usageOf(reply, exchange) };
}

function streamAnswer(reply: Answer, exchange: Exchange): void {
  openStream(exchange.response);
  writeChunk(exchange, choice({ role: 'assistant', content: '' }));
  for (const delta of [...textDeltas('reasoning_content', reply.reasoning ?? ''), ...textDeltas('content', reply.text), ...callDeltas(reply, exchange)]) writeChunk(exchange, choice(delta));
  writeChunk(exchange, choice({}, finishOf(reply)));
  if (exchange.body.stream_options?.include_usage) writeChunk(exchange, { choices: [], usage: usageOf(reply, exchange) });
  exchange.response.end('data: [DONE]\n\n');
}

function textDeltas(field: string, content: string): Record<string, string>[] {
  return (content.match(/[\s\S]{1,8}/gu) ?? []).map((piece) => ({ [field]: piece }));
}

function callDeltas(reply: Answer, exchange: Exchange): unknown[] {
  return wireCalls(reply, exchange).flatMap((call, index) => {
    const pieces = call.function.arguments.match(/[\s\S]{1,8}/gu) ?? [];
    const first = { tool_calls: [{ index, id: call.id, type: call.type, function: { name: call.function.name, arguments: '' } }] };
    return [first, ...pieces.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] }))];
  });
}

// ---------------------------------------------------------------- wire

function openStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
}

function writeChunk(exchange: Exchange, content: object): void {
  exchange.response.write(`data: ${JSON.stringify({ ...base(exchange), object: 'chat.completion.chunk', ...content })}\n\n`);
}

function send(response: ServerResponse, status: number, type: string, body: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, { 'content-type': type, ...headers });
  response.end(body);
}

const sendJson = (response: ServerResponse, status: number, body: unknown, headers?: Readonly<Record<string, string>>): void => send(response, status, 'application/json', JSON.stringify(body), headers);

function sendError(response: ServerResponse, status: number, body: unknown, headers?: Readonly<Record<string, string>>): void {
  const inner = typeof body === 'object' && body !== null && !('error' in body) ? { error: { type: 'error', param: null, code: null, ...body } } : body;
  sendJson(response, status, inner, headers);
}
