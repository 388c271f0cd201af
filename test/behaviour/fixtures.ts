/** What the behaviour tests share: the people of one group, and doors that a test opens when it wants something to go on. */
import { z } from 'zod';
import type { ModelRequest } from '../../src/agent/prompt.ts';
import type { RecordedStep } from '../../src/agent/types.ts';
import type { RunRow } from '../../src/store/runs.ts';
import { readSteps } from '../../src/store/steps.ts';
import type { Level, ToolDefinition, ToolResult } from '../../src/tools/types.ts';
import { type Posted, person } from '../fakes/platform.ts';
import { type Team, until } from '../fakes/team.ts';

export const lin = person('lin', '林一');
export const zhou = person('zhou', '周二');
export const zhao = person('zhao', '赵三');

export const zh = 'language: zh\ntools: { level2: [purge_records] }';

export type Door<T> = { readonly opened: Promise<T>; open(value: T): void };

export function door<T = void>(): Door<T> {
  let open: (value: T) => void = () => {};
  const opened = new Promise<T>((resolve) => (open = resolve));
  return { opened, open };
}

/** One call of a tool that a test answers: what it was given, whether it was told to stop, and its end. */
export type HeldCall = { readonly name: string; readonly note: string; readonly signal: AbortSignal } & Pick<Door<ToolResult>, 'open'>;

/** A tool that returns when the test says so. `calls` grows as it is called. */
export function heldTool(name: string, calls: HeldCall[], level: Level = 0): ToolDefinition<{ note: string }> {
  return {
    name,
    description: `${name} for tests.`,
    level,
    args: z.object({ note: z.string().default('') }),
    retrySafe: level === 0,
    trusted: true,
    async execute({ note }, { signal }) {
      const { opened, open } = door<ToolResult>();
      calls.push({ name, note, signal, open });
      return opened;
    },
  };
}

export const found = (content: string): ToolResult => ({ ok: true, content });

/** What people said, as the model reads it. */
export const saidIn = (request: ModelRequest): string[] => request.messages.flatMap((m) => (m.role === 'user' ? [m.content] : []));

/** Results in the order in which the model reads them. */
export const resultsIn = (request: ModelRequest | undefined): string[] => (request?.messages ?? []).flatMap((m) => (m.role === 'tool' ? [m.content] : []));

export const lastSaid = (request: ModelRequest): string => saidIn(request).at(-1) ?? '';

/** What the bot posted in a thread, as it reads now. */
export const inThread = (team: Team, thread: string): string[] => postsIn(team, thread).map((m) => m.text);
export const postsIn = (team: Team, thread: string): Posted[] => team.platform.ours().filter((m) => m.thread === thread);

export async function runsOf(team: Team): Promise<RunRow[]> {
  return team.store.db.selectFrom('runs').selectAll().orderBy('position').execute();
}

export async function stepsOf(team: Team, index = 0): Promise<RecordedStep[]> {
  const run = (await runsOf(team))[index];
  return run ? readSteps(team.store.db, run.id) : [];
}

/** Nothing is left to do: no run is at work or queued, and every message was sent or given up. */
export async function idle(team: Team): Promise<void> {
  await until('nothing left to do', async () => {
    const { db } = team.store;
    const run = await db.selectFrom('runs').select('id').where('status', 'in', ['queued', 'running']).executeTakeFirst();
    const due = await db.selectFrom('outbox').select('id').where('state', '=', 'due').executeTakeFirst();
    return !run && !due;
  });
}
