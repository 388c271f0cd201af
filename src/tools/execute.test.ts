import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fakeClock } from '../../test/fakes/clock.ts';
import { hall, lin } from '../../test/fakes/runs.ts';
import { runTool } from './execute.ts';
import type { ToolDefinition } from './types.ts';

const clock = fakeClock();
const context = { runId: 'r1', callId: '4.0', place: hall, asker: lin, language: 'en', timezone: 'UTC', clock, findChannels: async () => [], maySendTo: () => true } as const;

function tool(execute: NonNullable<ToolDefinition['execute']>): ToolDefinition {
  return { name: 'look', description: '', level: 0, args: z.unknown(), retrySafe: true, trusted: true, execute };
}

const run = (definition: ToolDefinition, signal = new AbortController().signal) => runTool({ tool: definition, args: {}, resolved: undefined, context, signal, timeoutMs: 30_000, clock, clean: (text) => text });

describe('a tool call', () => {
  it('of a run that has ended is not begun', async () => {
    let begun = false;
    const done = await run(
      tool(async () => {
        begun = true;
        return { ok: true, content: 'done' };
      }),
      AbortSignal.abort(),
    );
    expect({ begun, ok: done.result.ok }).toEqual({ begun: false, ok: false });
  });

  it('that throws is a sentence for the model, never a stack', async () => {
    const done = await run(
      tool(async () => {
        throw new Error('the file is locked');
      }),
    );
    expect(done.result).toEqual({ ok: false, error: 'business', content: 'look failed: the file is locked. Try once more if that may help; otherwise take another way.' });
  });

  it('leaves no timer and no listener behind', async () => {
    await run(tool(async () => ({ ok: true, content: 'done' })));
    expect(clock.pending()).toBe(0);
  });

  it('that returns too much is cut, and says by how much', async () => {
    const done = await run({ ...tool(async () => ({ ok: true, content: '数据'.repeat(100) })), maxChars: 10 });
    expect(done.result.content).toBe(`${'数据'.repeat(5)}\n(Cut: 200 characters in all, the first 10 are shown.)`);
  });

  it('of a tool that is not trusted taints its result', async () => {
    const { trusted: _, ...web } = tool(async () => ({ ok: true, content: 'done' }));
    expect((await run(web)).result.tainted).toBe(true);
    expect((await run({ ...web, trusted: true })).result.tainted).toBeUndefined();
  });
});
