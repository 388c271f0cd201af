/** Runs one tool call. Never throws, never lasts longer than its time-out, and never hands the model more than it may read. */
import { clip } from '../adapters/shared/visible.ts';
import type { Clock } from '../clock.ts';
import { messageOf } from '../errors.ts';
import type { AnyTool, ToolContext, ToolResult } from './types.ts';

const defaultMaxChars = 6000;

export type Execution = {
  readonly tool: AnyTool;
  readonly args: unknown;
  readonly resolved: unknown;
  readonly context: Omit<ToolContext, 'signal'>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly clock: Clock /** Secrets out: before anything is cut, since half a secret would not be known as one. */;
  readonly clean: (text: string) => string;
};

/** The result and how long it took. A result that comes after the time-out or the abort is dropped. */
export async function runTool(execution: Execution): Promise<{ result: ToolResult; ms: number }> {
  const { clock, tool } = execution;
  const startedAt = clock.now();
  const result = await bounded(execution);
  const tainted = tool.trusted === true ? {} : { tainted: true };
  return { result: { ...result, ...tainted, content: cut(execution.clean(result.content), tool.maxChars ?? defaultMaxChars) }, ms: Math.max(0, clock.now() - startedAt) };
}

async function bounded({ tool, args, resolved, context, signal, timeoutMs, clock }: Execution): Promise<ToolResult> {
  const stopped: ToolResult = { ok: false, error: 'business', content: 'Stopped.' };
  if (signal.aborted) return stopped;
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  let cancelTimer = () => {};
  const timeout = new Promise<ToolResult>((resolve) => {
    cancelTimer = clock.setTimer(timeoutMs, () => {
      stop.abort(new Error('time-out'));
      resolve({ ok: false, error: 'timeout', content: `${tool.name} did not finish within ${timeoutMs / 1000} s and was stopped. Try it once more with a smaller request, or go on without it.` });
    });
  });
  const aborted = new Promise<ToolResult>((resolve) => {
    stop.signal.addEventListener('abort', () => signal.aborted && resolve(stopped), { once: true });
  });
  try {
    return await Promise.race([started({ tool, args, resolved, context: { ...context, signal: stop.signal } }), timeout, aborted]);
  } finally {
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
  }
}

async function started(call: { tool: AnyTool; args: unknown; resolved: unknown; context: ToolContext }): Promise<ToolResult> {
  try {
    const result = await call.tool.execute?.(call.args, call.context, call.resolved);
    return result ?? { ok: false, error: 'business', content: `${call.tool.name} cannot be executed.` };
  } catch (error) {
    // What the model reads is a sentence, never a stack.
    return { ok: false, error: 'business', content: `${call.tool.name} failed: ${messageOf(error)}. Try once more if that may help; otherwise take another way.` };
  }
}

function cut(content: string, maxChars: number): string {
  if (content.length <= maxChars) return content.toWellFormed();
  const kept = clip(content.toWellFormed(), maxChars);
  return `${kept}\n(Cut: ${content.length} characters in all, the first ${kept.length} are shown.)`;
}
