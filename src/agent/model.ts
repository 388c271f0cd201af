/** The model behind any OpenAI-compatible server. One request, no retries of its own: each retry is a step of the run. */
import type OpenAI from 'openai';
import type { Clock } from '../clock.ts';
import { ModelError, messageOf } from '../errors.ts';
import type { ModelRequest } from './prompt.ts';
import { estimateTokens } from './tokens.ts';
import type { Usage } from './types.ts';

export type RawCall = { readonly providerId: string; readonly name: string; readonly argsText: string };
export type ModelReply = { readonly text: string; readonly reasoning?: string; readonly calls: readonly RawCall[]; readonly finish: string; readonly usage: Usage; readonly model: string };

/** Rejects with a ModelError; with the signal's reason when it was aborted. */
export type ModelPort = { complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply> };

export type ModelSettings = {
  readonly baseUrl?: string;
  readonly apiKey: string;
  readonly model: string;
  readonly temperature: number;
  readonly maxTokens: number;
  /** Longest silence, and a tenth of the longest whole reply, ms. */
  readonly timeoutMs: number;
  readonly extraParams: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
};

export function createModel(settings: ModelSettings): ModelPort {
  let client: Promise<OpenAI> | undefined;
  return {
    async complete(request, signal) {
      client ??= connect(settings);
      const attempt = new AbortController();
      const silence = watchdog(settings.clock, settings.timeoutMs, () => attempt.abort());
      const onAbort = () => attempt.abort();
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) attempt.abort();
      try {
        return await stream(await client, settings, request, attempt.signal, silence.touch);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (silence.fired()) throw new ModelError('timeout', `the model server sent nothing for ${settings.timeoutMs / 1000} s`, { retryable: true, cause: error });
        throw classified(error);
      } finally {
        silence.stop();
        signal.removeEventListener('abort', onAbort);
      }
    },
  };
}

/** Loaded at the first call: the client costs 200 ms and 36 MB. */
async function connect(settings: ModelSettings): Promise<OpenAI> {
  const { default: Client } = await import('openai');
  return new Client({ apiKey: settings.apiKey, maxRetries: 0, timeout: settings.timeoutMs * 10, ...(settings.baseUrl ? { baseURL: settings.baseUrl } : {}) });
}

function watchdog(clock: Clock, ms: number, bite: () => void): { touch(): void; stop(): void; fired(): boolean } {
  let fired = false;
  const set = () =>
    clock.setTimer(ms, () => {
      fired = true;
      bite();
    });
  let cancel = set();
  let setAt = clock.now();
  return {
    touch() {
      // A timer for every token would cost more than the token.
      if (clock.now() - setAt < ms / 10) return;
      cancel();
      setAt = clock.now();
      cancel = set();
    },
    stop: () => cancel(),
    fired: () => fired,
  };
}

function body(settings: ModelSettings, request: ModelRequest): OpenAI.ChatCompletionCreateParamsStreaming {
  const tools = request.tools.length > 0 ? { tools: request.tools as OpenAI.ChatCompletionTool[], ...(request.last ? { tool_choice: 'none' as const } : {}) } : {};
  return {
    model: settings.model,
    messages: request.messages as OpenAI.ChatCompletionMessageParam[],
    temperature: settings.temperature,
    max_tokens: settings.maxTokens,
    ...tools,
    ...settings.extraParams,
    stream: true,
    stream_options: { include_usage: true },
  };
}

type PartialCall = { providerId: string; name: string; argsText: string };
type Collected = { text: string; reasoning: string; calls: Map<number, PartialCall>; finish: string; usage: Usage | undefined; model: string };

async function stream(client: OpenAI, settings: ModelSettings, request: ModelRequest, signal: AbortSignal, touch: () => void): Promise<ModelReply> {
  const { data: chunks, response } = await client.chat.completions.create(body(settings, request), { signal }).withResponse();
  const type = response.headers.get('content-type') ?? '';
  if (type.includes('text/html')) throw new ModelError('bad_response', `the server answered with a web page (${type}); is the base URL right? It usually ends in /v1`, { retryable: false });
  const collected: Collected = { text: '', reasoning: '', calls: new Map(), finish: '', usage: undefined, model: settings.model };
  for await (const chunk of chunks) {
    touch();
    collect(collected, chunk);
  }
  if (collected.finish === '') throw new ModelError('stream_cut', 'the reply broke off before its end', { retryable: true });
  return finished(collected, request);
}

function collect(collected: Collected, chunk: OpenAI.ChatCompletionChunk): void {
  if (chunk.model) collected.model = chunk.model;
  if (chunk.usage) collected.usage = { inputTokens: chunk.usage.prompt_tokens ?? 0, outputTokens: chunk.usage.completion_tokens ?? 0 };
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.finish_reason) collected.finish = choice.finish_reason;
  const delta = choice.delta as OpenAI.ChatCompletionChunk.Choice.Delta & { reasoning_content?: string | null };
  collected.text += delta?.content ?? '';
  collected.reasoning += delta?.reasoning_content ?? '';
  for (const call of delta?.tool_calls ?? []) {
    const known = collected.calls.get(call.index) ?? { providerId: '', name: '', argsText: '' };
    known.providerId ||= call.id ?? '';
    known.name ||= call.function?.name ?? '';
    known.argsText += call.function?.arguments ?? '';
    collected.calls.set(call.index, known);
  }
}

/** On the last call a server that asks for tools anyway is not listened to. */
function finished(collected: Collected, request: ModelRequest): ModelReply {
  const calls = request.last ? [] : [...collected.calls.entries()].sort(([a], [b]) => a - b).map(([, call]) => call);
  const text = collected.text.trim();
  if (text === '' && calls.length === 0 && !request.last) throw new ModelError('empty_reply', 'the model answered with nothing', { retryable: true });
  const usage = collected.usage ?? { inputTokens: estimateTokens(JSON.stringify(request.messages)), outputTokens: estimateTokens(collected.text) };
  return { text, calls, finish: collected.finish, usage, model: collected.model, ...(collected.reasoning ? { reasoning: collected.reasoning } : {}) };
}

type ApiFailure = { status?: number; code?: string | null; headers?: Headers; name?: string };

/** Network, cut stream, 429 and 5xx may work again; everything else is for a person to mend. */
function classified(error: unknown): ModelError {
  if (error instanceof ModelError) return error;
  const { status, code, headers, name } = error as ApiFailure;
  const facts = { cause: error, retryAfterMs: retryAfter(headers) };
  const message = messageOf(error);
  if (name === 'APIConnectionTimeoutError') return new ModelError('timeout', message, { ...facts, retryable: true });
  if (status === undefined) return new ModelError('network', message, { ...facts, retryable: true });
  if (code === 'insufficient_quota') return new ModelError('quota', message, { ...facts, retryable: false });
  if (code === 'context_length_exceeded') return new ModelError('context_length', message, { ...facts, retryable: false });
  if (status === 401 || status === 403) return new ModelError('unauthorized', message, { ...facts, retryable: false });
  if (status === 404) return new ModelError('not_found', message, { ...facts, retryable: false });
  if (status === 429) return new ModelError('rate_limited', message, { ...facts, retryable: true });
  if (status === 408 || status >= 500) return new ModelError('overloaded', message, { ...facts, retryable: true });
  return new ModelError('bad_request', message, { ...facts, retryable: false });
}

function retryAfter(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  const seconds = value ? Number(value) : Number.NaN;
  return Number.isFinite(seconds) ? seconds * 1000 : undefined;
}
