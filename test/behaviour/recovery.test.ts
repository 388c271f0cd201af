import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { IncomingMessage } from '../../src/adapters/types.ts';
import { pressInteraction } from '../../src/agent/press.ts';
import { loadRun, record } from '../../src/agent/recorder.ts';
import { decide, emptyRun } from '../../src/agent/run.ts';
import type { Command } from '../../src/agent/types.ts';
import { findOrCreateConversation } from '../../src/store/conversations.ts';
import { openInteractions } from '../../src/store/interactions.ts';
import { insertRun } from '../../src/store/runs.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type Scripted, Team, until } from '../fakes/team.ts';
import { door, found, type HeldCall, heldTool, idle, inThread, lastSaid, lin, postsIn, resultsIn, runsOf, stepsOf, zhou } from './fixtures.ts';

/** Within this time what nobody was told of is found. */
const sweepMs = 5000;
const leaseMs = 30_000;

let team: Team;
let clock: FakeClock;
let calls: HeldCall[];
beforeEach(() => {
  clock = fakeClock();
  calls = [];
});
afterEach(() => team.end());

const limits = { maxTurns: 10, maxToolFailures: 6, maxRunMs: 900_000, maxModelRetries: 3 };

/** As a process does it that dies right after its commit: a run is queued, and nobody is told. */
async function queuedElsewhere(message: IncomingMessage): Promise<string> {
  const { dialect } = team.store;
  const id = `r_${message.key}`;
  const at = clock.now();
  await team.store.transact(async (tx) => {
    const conversation = await findOrCreateConversation(tx, message.place, at);
    await insertRun(tx, { id, conversationId: conversation.id, lane: conversation.id, triggerKind: 'mention', messageKey: message.key, asker: message.author.id, at }, dialect);
    const steps = decide(emptyRun(id), { kind: 'start', at, by: message.author, trigger: { kind: 'mention', messageKey: message.key }, place: message.place, content: message.content, limits });
    await record(tx, dialect, { run: emptyRun(id), conversationId: conversation.id, language: 'en', steps, at });
  });
  return id;
}

/** A command carried out by another process: committed, and the driver of the run is not told. */
async function commandedElsewhere(command: Command): Promise<void> {
  const { dialect } = team.store;
  await team.store.transact(async (tx) => {
    const [row] = await tx.selectFrom('runs').selectAll().orderBy('position').execute();
    const loaded = await loadRun(tx, row?.id ?? '');
    if (!loaded) throw new Error('there is no run');
    await record(tx, dialect, { run: loaded.run, conversationId: loaded.row.conversation_id, language: 'en', steps: decide(loaded.run, command), at: command.at });
  });
}

/** Nothing happens for a while, and then, with the next sweep, it does. */
async function notBefore<T>(what: string, look: () => T | Promise<T>): Promise<void> {
  await clock.advance(sweepMs / 10);
  expect(await look(), `${what}, before the sweep`).toBeFalsy();
  await clock.advance(sweepMs);
  await until(what, look);
}

describe('a wake-up that was lost', () => {
  it('of a queued run: the sweep finds it', async () => {
    team = await Team.start({ clock, script: () => ({ text: 'Done.' }) });
    await queuedElsewhere(team.platform.say(lin, 'one'));
    await notBefore('the answer', () => team.platform.texts().includes('Done.'));
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 0 }]);
  });

  it('of an answer that another process has taken: the sweep finds it', async () => {
    team = await Team.start({ clock, script: (_r, n) => (n === 1 ? { calls: [{ name: 'clarify', args: { question: 'Which?', options: ['red', 'blue'] } }] } : { text: 'Blue, then.' }) });
    const asked = team.platform.say(lin, 'one');
    await team.submit(asked);
    await idle(team);
    const { store } = team;
    const [run] = await runsOf(team);
    await store.transact(async (tx) => {
      const [row] = await openInteractions(tx, run?.conversation_id ?? '');
      if (row) await pressInteraction({ store, languageFor: () => 'en' }, { tx, at: clock.now(), moved: [] }, { row, by: lin, choice: 'blue' });
    });
    await notBefore('the answer', () => team.platform.texts().includes('Blue, then.'));
  });

  it('of a stop that another process has taken: the call at work is told with the next sweep', async () => {
    team = await Team.start({ clock, tools: [heldTool('look', calls)], script: () => ({ calls: [{ name: 'look', args: {} }] }) });
    await team.say(lin, 'one');
    await until('the call', () => calls.length === 1);
    await commandedElsewhere({ kind: 'cancel', reason: 'asked', at: clock.now(), by: lin });
    await notBefore('the call is told to stop', () => calls[0]?.signal.aborted);
    calls[0]?.open(found('too late'));
    await idle(team);
    expect((await stepsOf(team)).at(-1)).toMatchObject({ type: 'run_cancelled' });
    expect(team.requests).toHaveLength(1);
  });

  it('of a message that joined through another process: the next request carries it all the same', async () => {
    const first = door<Scripted>();
    team = await Team.start({ clock, script: (request, n) => (n === 1 ? first.opened : { text: `Answer to ${lastSaid(request)}` }) });
    await team.say(lin, 'one');
    await until('the request', () => team.requests.length === 1);
    await commandedElsewhere({ kind: 'add_message', messageKey: 'console:test:C_OPS:m2', content: [{ type: 'text', text: 'two' }], at: clock.now(), by: lin });
    first.open({ text: 'Answer to one' });
    await until('the answers', () => team.platform.texts().length === 2);
    expect(team.platform.texts()).toEqual(['Answer to one', 'Answer to two']);
  });
});

describe('a run that another process had at work', () => {
  it('is taken over when its lease has run out, not before, and is answered once', async () => {
    team = await Team.start({ clock, script: () => ({ text: 'Done.' }) });
    const id = await queuedElsewhere(team.platform.say(lin, 'one'));
    await team.store.transact((tx) =>
      tx
        .updateTable('runs')
        .set({ status: 'running', owner: 'p_other', lease_until: clock.now() + leaseMs })
        .where('id', '=', id)
        .execute(),
    );
    await clock.advance(leaseMs);
    expect(team.requests).toHaveLength(0);
    await clock.advance(sweepMs + 1);
    await until('the answer', () => team.platform.texts().includes('Done.'));
    await clock.advance(2 * leaseMs);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 1 }]);
    expect(team.platform.texts()).toEqual(['Done.']);
  });

  it('keeps its lease as long as it is at work', async () => {
    team = await Team.start({ clock, tools: [heldTool('look', calls)], config: 'tools: { timeout_s: 600 }', script: (_r, n) => (n === 1 ? { calls: [{ name: 'look', args: {} }] } : { text: 'Done.' }) });
    await team.say(lin, 'one');
    await until('the call', () => calls.length === 1);
    await clock.advance(5 * leaseMs);
    calls[0]?.open(found('found'));
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 0 }]);
    expect(calls).toHaveLength(1);
  });
});

describe('a run that takes the process down each time', () => {
  it.each([
    { language: 'en', sentence: 'I was interrupted several times while working on this, and gave up.\nPlease try again later, or ask an admin.', withdrawn: '– Withdrawn: the request has ended. Nothing was executed.' },
    { language: 'zh', sentence: '处理过程中多次被中断，我已放弃。\n请稍后再试，或联系管理员。', withdrawn: '– 已撤回：请求已结束，没有执行任何操作。' },
  ])('is given up after the third time, in a plain sentence, and what it had asked is taken back ($language)', async ({ language, sentence, withdrawn }) => {
    const wanted = [
      { name: 'clarify', args: { question: 'Which?', options: ['red', 'blue'] } },
      { name: 'look', args: {} },
    ];
    team = await Team.start({ clock, config: `language: ${language}`, tools: [heldTool('look', calls)], script: () => ({ calls: wanted }) });
    const asked = team.platform.say(lin, 'one');
    const { thread } = asked.place;
    await team.submit(asked);
    for (const times of [1, 2, 3]) {
      await until(`the call, time ${times}`, () => calls.length === times);
      await until('the question', () => postsIn(team, thread)[0]?.buttons);
      await team.kill();
      await team.start();
    }
    await idle(team);
    expect(inThread(team, thread)).toEqual([expect.stringContaining(withdrawn), sentence]);
    expect(await runsOf(team)).toMatchObject([{ status: 'failed', recoveries: 3 }]);
    const [row] = await runsOf(team);
    expect(await openInteractions(team.store.db, row?.conversation_id ?? '')).toEqual([]);
    expect({ calls: calls.length, requests: team.requests.length }).toEqual({ calls: 3, requests: 1 });
    await team.say(zhou, 'two', { thread, mention: true });
    await until('the next request in the thread', () => team.requests.length === 2);
  });

  it('is not given up before the third time', async () => {
    team = await Team.start({ clock, tools: [heldTool('look', calls)], script: (_r, n) => (n === 1 ? { calls: [{ name: 'look', args: {} }] } : { text: 'Done.' }) });
    await team.say(lin, 'one');
    for (const times of [1, 2]) {
      await until(`the call, time ${times}`, () => calls.length === times);
      await team.kill();
      await team.start();
    }
    await until('the call again', () => calls.length === 3);
    calls[2]?.open(found('found at last'));
    await idle(team);
    expect({ results: resultsIn(team.requests[1]), texts: team.platform.texts() }).toEqual({ results: ['found at last'], texts: ['Done.'] });
  });
});

it('a question that stayed open when its run ended is taken back at its time, once', async () => {
  team = await Team.start({ clock, script: () => ({ calls: [{ name: 'clarify', args: { question: 'Which?', options: ['red', 'blue'] } }] }) });
  const asked = team.platform.say(lin, 'one');
  await team.submit(asked);
  await idle(team);
  await team.say(lin, 'stop', { thread: asked.place.thread });
  await idle(team);
  const at = clock.now() + 60_000;
  await team.store.transact((tx) => tx.updateTable('interactions').set({ resolved_at: null, outcome: null, expires_at: at }).execute());
  await clock.advance(120_000);
  const rows = await team.store.db.selectFrom('interactions').select(['resolved_at', 'outcome']).execute();
  expect(rows).toEqual([{ resolved_at: expect.any(Number), outcome: expect.stringContaining('withdrawn') }]);
  expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }]);
});

it('a run that a fault of ours breaks each time ends with a plain sentence, and the others go on', async () => {
  const broken = {
    ...heldTool('broken', calls),
    args: z.object({}),
    level: (): 0 => {
      throw new Error('a fault in the program');
    },
  };
  team = await Team.start({ clock, tools: [broken], script: (request) => (lastSaid(request) === 'one' ? { calls: [{ name: 'broken', args: {} }] } : { text: 'Done.' }) });
  await team.say(lin, 'one');
  await until('the fault', () => team.logged.length > 0);
  await team.say(zhou, 'two');
  await until('the other answer', () => team.platform.texts().includes('Done.'));
  await clock.advance(4 * sweepMs);
  await idle(team);
  expect(team.platform.texts()).toEqual(['Done.', 'I was interrupted several times while working on this, and gave up.\nPlease try again later, or ask an admin.']);
  expect(team.platform.texts().join()).not.toContain('fault in the program');
  expect(team.logged.join()).toContain('a fault in the program');
});
