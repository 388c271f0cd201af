/** The crash matrix: the process dies before and after each commit of a run that uses everything; after a restart nothing is lost and nothing happens twice. */
import { describe, expect, it } from 'vitest';
import type { Capabilities } from '../src/adapters/types.ts';
import type { ModelRequest } from '../src/agent/prompt.ts';
import { adopt, fold } from '../src/agent/run.ts';
import { PlatformError } from '../src/errors.ts';
import { brokenAudit } from '../src/store/audit.ts';
import { brokenChain, readSteps } from '../src/store/steps.ts';
import { person } from './fakes/platform.ts';
import { purgeTool, type Scripted, Team, until } from './fakes/team.ts';

const lin = person('lin', '林一');

/** What the model says depends only on what it has been told, so that a request asked again is answered the same. */
function script(request: ModelRequest): Scripted {
  const turns = request.messages.filter((m) => m.role === 'assistant').length;
  if (turns === 0)
    return {
      calls: [
        { name: 'no_such_tool', args: {} },
        { name: 'clarify', args: { question: 'Which table?', options: ['logs_old', 'tmp_cache'] } },
      ],
    };
  if (turns === 1) return { calls: [{ name: 'purge_records', args: { table: 'logs_old' } }] };
  if (turns === 2) return { calls: [{ name: 'send_group_message', args: { group_name: 'all', content: 'logs_old is purged.' } }] };
  return { text: 'All done.' };
}

class Killed extends Error {}

type Outcome = { readonly commits: number; readonly purged: string[]; readonly team: Team };

type Kill = { readonly at: number; readonly phase: 'before' | 'after' };
type Story = { readonly script: (request: ModelRequest) => Scripted; readonly onSend?: Team['platform']['onSend']; readonly isTold: (team: Team) => boolean };

const wholeStory: Story = { script, isTold: (team) => team.platform.texts('C_OPS').some((text) => text.startsWith('All done.')) };

/** The group takes no post of ours, so the person is told directly. */
const refusedStory: Story = {
  script: () => ({ text: 'The answer.' }),
  onSend: ({ place }) => (place.channel === 'C_OPS' ? new PlatformError('is_archived', 'the channel is archived', { outcome: 'refused' }) : undefined),
  isTold: (team) => team.platform.texts('D_lin').length > 0,
};

/** Plays a story; the process dies once, at commit `at`. */
async function play(kill: Kill | undefined, can: Partial<Capabilities>, story: Story = wholeStory): Promise<Outcome> {
  const purged: string[] = [];
  const team = new Team({ script: story.script, tools: [purgeTool(purged)], can });
  if (story.onSend) team.platform.onSend = story.onSend;
  let commits = 0;
  let dead = false;
  team.onCommit = (phase) => {
    if (dead) throw new Killed();
    if (phase === 'before') commits += 1;
    if (kill && commits === kill.at && phase === kill.phase) {
      dead = true;
      throw new Killed();
    }
  };
  const trigger = team.platform.say(lin, 'clean up');
  const alive = async (work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      if (!dead) throw error;
    }
  };
  await alive(() => team.start());
  await alive(() => team.submit(trigger));
  await until(`the end (killed ${kill?.phase} commit ${kill?.at})`, async () => {
    if (dead) {
      await team.kill();
      dead = false;
      await team.start();
      await team.submit(trigger);
    }
    await alive(() => pressEverything(team));
    return !dead && story.isTold(team) && (await settled(team));
  });
  return { commits, purged, team };
}

/** Each button twice, and then the other one, as impatient people do. */
async function pressEverything(team: Team): Promise<void> {
  for (const message of team.platform.ours()) {
    const [first, second] = message.buttons ?? [];
    if (!first) continue;
    await team.press(first.interactionId, first.choice, lin);
    await team.press(first.interactionId, first.choice, lin);
    if (second) await team.press(second.interactionId, second.choice, lin);
  }
}

async function settled(team: Team): Promise<boolean> {
  const { db } = team.store;
  const due = await db.selectFrom('outbox').select('id').where('state', '=', 'due').executeTakeFirst();
  const active = await db.selectFrom('runs').select('id').where('status', 'in', ['queued', 'running', 'suspended']).executeTakeFirst();
  return !due && !active;
}

async function check({ team, purged }: Outcome): Promise<void> {
  const { db } = team.store;
  const runs = await db.selectFrom('runs').selectAll().execute();
  expect(runs).toHaveLength(1);
  const row = runs[0] as (typeof runs)[number];
  const steps = await readSteps(db, row.id);
  const run = fold(row.id, steps);
  expect(steps.map((s) => s.seq)).toEqual(steps.map((_, i) => i + 1));
  expect({ status: row.status, version: row.version, input: row.input_tokens }).toEqual({ status: 'completed', version: run.version, input: run.usage.inputTokens });
  expect(await brokenChain(db, row.id)).toBeUndefined();
  expect(await brokenAudit(db)).toBeUndefined();
  expect(adopt(run)).toEqual(run);
  expect(purged.length).toBeLessThanOrEqual(1);
  if (purged.length === 0) expect(Object.values(run.results).some((r) => !r.ok && r.error === 'outcome_unknown')).toBe(true);
  const open = await db.selectFrom('interactions').select('id').where('resolved_at', 'is', null).execute();
  expect(open).toEqual([]);
  // A card whose id never arrived cannot be settled; its repeat can.
  const unsettled = team.platform.ours().filter((m) => m.buttons && !team.platform.ours().some((other) => other !== m && other.keys.some((key) => m.keys.includes(key))));
  expect(unsettled).toEqual([]);
}

/** How often each message of ours stands on the platform. */
function copies(team: Team): Map<string, number> {
  const counts = new Map<string, number>();
  for (const message of team.platform.ours()) for (const key of message.keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

async function matrix(can: Partial<Capabilities>, inspect: (outcome: Outcome) => void | Promise<void>): Promise<number> {
  const whole = await play(undefined, can);
  await check(whole);
  expect(whole.purged).toEqual(['logs_old']);
  await whole.team.end();
  for (let at = 1; at <= whole.commits; at++) {
    for (const phase of ['before', 'after'] as const) {
      const outcome = await play({ at, phase }, can);
      try {
        await check(outcome);
        await inspect(outcome);
      } catch (error) {
        throw new Error(`killed ${phase} commit ${at} of ${whole.commits}: ${String(error)}`, { cause: error });
      } finally {
        await outcome.team.end();
      }
    }
  }
  return whole.commits;
}

describe('a process that dies at any commit', () => {
  it('finishes after the restart with every message posted exactly once where the platform can be asked', { timeout: 180_000 }, async () => {
    const commits = await matrix({ askWhetherSent: true }, ({ team }) => {
      for (const [key, count] of copies(team)) expect([key, count]).toEqual([key, 1]);
      expect(team.platform.texts('C_ALL')).toHaveLength(1);
    });
    expect(commits).toBeGreaterThan(20);
  });

  it('repeats an answer at most once, marked, and a group message never, where it cannot be asked', { timeout: 180_000 }, async () => {
    await matrix({ askWhetherSent: false, idempotentSend: false }, ({ team }) => {
      expect(team.platform.texts('C_ALL').length).toBeLessThanOrEqual(1);
      for (const [key, count] of copies(team)) {
        expect(count, key).toBeLessThanOrEqual(2);
        if (count === 2)
          expect(
            team.platform.ours().filter((m) => m.keys.includes(key) && m.original.includes('possibly a repeat')),
            key,
          ).toHaveLength(1);
      }
    });
  });

  it('tells the asker directly, once, of an answer that the platform refused', { timeout: 60_000 }, async () => {
    const whole = await play(undefined, {}, refusedStory);
    await whole.team.end();
    for (let at = 1; at <= whole.commits; at++) {
      for (const phase of ['before', 'after'] as const) {
        const { team } = await play({ at, phase }, {}, refusedStory);
        expect(team.platform.texts('D_lin'), `killed ${phase} commit ${at}`).toHaveLength(1);
        expect(await team.store.db.selectFrom('runs').select(['status', 'delivery']).execute()).toEqual([{ status: 'completed', delivery: 'failed' }]);
        await team.end();
      }
    }
  });
});
