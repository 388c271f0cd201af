import { afterEach, describe, expect, it } from 'vitest';
import { fakeClock } from '../fakes/clock.ts';
import type { Posted } from '../fakes/platform.ts';
import { purgeTool, type Script, Team, until } from '../fakes/team.ts';
import { idle, inThread, lastSaid, lin, postsIn, runsOf, stepsOf, zh } from './fixtures.ts';

let team: Team;
let purged: string[];
afterEach(() => team.end());

const purge = (table: string) => ({ name: 'purge_records', args: { table } });

/** Two cards stand in the thread: logs_old above, tmp_cache below. */
async function cards(script: Script, later?: string): Promise<{ thread: string; logs: Posted; cache: Posted }> {
  purged = [];
  team = await Team.start({ clock: fakeClock(), config: zh, tools: [purgeTool(purged)], script });
  const asked = team.platform.say(lin, '清理 logs_old');
  const { thread } = asked.place;
  await team.submit(asked);
  await until('the first card', () => postsIn(team, thread).length >= 1);
  if (later) await team.say(lin, later, { thread, mention: true });
  await until('the cards', () => postsIn(team, thread).length === 2);
  const [logs, cache] = postsIn(team, thread) as [Posted, Posted];
  expect([logs.text, cache.text]).toEqual([expect.stringContaining('- table: logs_old'), expect.stringContaining('- table: tmp_cache')]);
  return { thread, logs, cache };
}

async function press(card: Posted, choice: 'approve' | 'deny'): Promise<void> {
  const button = card.buttons?.find((b) => b.choice === choice);
  expect(await team.press(button?.interactionId ?? '', choice, lin)).toMatchObject({ state: 'accepted' });
}

/** Each call of the conversation as the model wrote it, with the result that stands under its id. */
function callsAndResults(): [unknown, string][] {
  const messages = team.requests.at(-1)?.messages ?? [];
  const results = new Map(messages.flatMap((m) => (m.role === 'tool' ? [[m.tool_call_id, m.content] as const] : [])));
  return messages.flatMap((m) => (m.role === 'assistant' ? (m.tool_calls ?? []) : []).map((call): [unknown, string] => [JSON.parse(call.function.arguments), results.get(call.id) ?? '']));
}

describe('two calls that wait for a decision in one thread', () => {
  it('of one turn: each decision counts for its own call, and the other card stays as it is', async () => {
    const { thread, logs, cache } = await cards((_r, n) => (n === 1 ? { calls: [purge('logs_old'), purge('tmp_cache')] } : { text: '只清理了 tmp_cache。' }));
    const before = { ...logs };
    await press(cache, 'approve');
    await until('the approved call', () => purged.length === 1);
    await idle(team);
    expect({ purged, logs: { ...logs }, requests: team.requests.length }).toEqual({ purged: ['tmp_cache'], logs: before, requests: 1 });
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
    await press(logs, 'deny');
    await idle(team);
    expect(purged).toEqual(['tmp_cache']);
    expect(callsAndResults()).toEqual([
      [{ table: 'logs_old' }, expect.stringContaining('林一 declined this call')],
      [{ table: 'tmp_cache' }, 'Purged tmp_cache.'],
    ]);
    expect([logs.text, cache.text]).toEqual([expect.stringContaining('✘ 已被 林一 (lin) 拒绝'), expect.stringContaining('✔ 已由 林一 (lin) 批准')]);
    expect(inThread(team, thread).at(-1)).toBe('只清理了 tmp_cache。');
  });

  it('of two runs: the decision on the second is not taken for the first', async () => {
    const { thread, logs, cache } = await cards((request) => {
      const wanted = lastSaid(request).replace('清理 ', '');
      return request.messages.some((m) => m.role === 'tool') ? { text: `${wanted} 处理完毕。` } : { calls: [purge(wanted)] };
    }, '清理 tmp_cache');
    const before = { ...logs };
    await press(cache, 'approve');
    await until('the answer of the second run', () => inThread(team, thread).includes('tmp_cache 处理完毕。'));
    expect({ purged, logs: { ...logs } }).toEqual({ purged: ['tmp_cache'], logs: before });
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }, { status: 'completed' }]);
    expect(callsAndResults()).toEqual([[{ table: 'tmp_cache' }, 'Purged tmp_cache.']]);
    await press(logs, 'deny');
    await idle(team);
    expect(purged).toEqual(['tmp_cache']);
    expect(callsAndResults()).toEqual([[{ table: 'logs_old' }, expect.stringContaining('It was not executed')]]);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
  });

  it('of one turn, the first denied: the second can still be approved', async () => {
    const { logs, cache } = await cards((_r, n) => (n === 1 ? { calls: [purge('logs_old'), purge('tmp_cache')] } : { text: '好。' }));
    await press(logs, 'deny');
    await idle(team);
    expect(cache.buttons).toHaveLength(2);
    await press(cache, 'approve');
    await idle(team);
    expect(purged).toEqual(['tmp_cache']);
    expect((await stepsOf(team)).flatMap((step) => (step.type === 'interaction_resolved' ? [step.outcome.kind] : []))).toEqual(['declined', 'approved']);
  });
});
