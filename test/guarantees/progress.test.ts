/** The bubble that shows a run at work: when it appears, what it says, and how it ends. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlatformError } from '../../src/errors.ts';
import { type HeldCall, heldTool, idle, inThread, lin, postsIn, runsOf } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import type { Posted } from '../fakes/platform.ts';
import { purgeTool, type Script, Team, until } from '../fakes/team.ts';
import { cardOf, pressOn, purge } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let calls: HeldCall[];
let thread: string;
beforeEach(() => {
  clock = fakeClock();
  calls = [];
});
afterEach(() => team.end());

const slow: Script = (request) => (request.messages.some((m) => m.role === 'tool') ? { text: 'Finished.' } : { calls: [{ name: 'slow_task', args: { note: 'secret plans' } }] });

/** A run whose tool is held by the test. */
async function working(config = 'language: en', script = slow): Promise<void> {
  team = await Team.start({ clock, config, tools: [heldTool('slow_task', calls), purgeTool([])], script });
  const asked = team.platform.say(lin, 'do it');
  thread = asked.place.thread;
  await team.submit(asked);
  await until('the call', () => calls.length === 1);
}

const bubbles = (): Posted[] => team.platform.posted.filter((m) => m.by.isBot && m.progress && !m.gone);
const bubble = () => until('the bubble', () => bubbles()[0]);
const liveRows = () => team.store.db.selectFrom('live').selectAll().execute();
const finish = async () => {
  calls.at(-1)?.open({ ok: true, content: 'ok' });
  await idle(team);
};

describe('a run at work', () => {
  it.each([
    { language: 'en', says: ['Working… 1 s', 'Working… 4 s', 'Working… 7 s'] },
    { language: 'zh', says: ['正在处理… 1 秒', '正在处理… 4 秒', '正在处理… 7 秒'] },
  ])('shows a bubble after a second and changes it in place: a verb and the time, nothing of the request ($language)', async ({ language, says }) => {
    await working(`language: ${language}`);
    await clock.advance(900);
    expect(bubbles()).toEqual([]);
    const seen: string[] = [];
    for (const step of [200, 3000, 3000]) {
      await clock.advance(step);
      seen.push(bubbles()[0]?.text ?? '');
    }
    expect(seen).toEqual(says);
    expect(bubbles()).toHaveLength(1);
    await finish();
  });

  it('writes the answer into that same bubble', async () => {
    await working();
    await clock.advance(4500);
    const shown = await bubble();
    await finish();
    expect(postsIn(team, thread)).toEqual([shown]);
    expect(shown).toMatchObject({ text: 'Finished.', progress: false });
    expect(await liveRows()).toEqual([]);
    await clock.advance(30_000);
    expect(shown.text).toBe('Finished.');
  });

  it('that is done within a second shows none', async () => {
    await working();
    await clock.advance(900);
    await finish();
    await clock.advance(30_000);
    expect(team.platform.posted.filter((m) => m.by.isBot)).toMatchObject([{ text: 'Finished.', edits: 0 }]);
  });

  it('shows none where it is switched off', async () => {
    await working('agent: { progress: false }');
    await clock.advance(30_000);
    expect(bubbles()).toEqual([]);
    await finish();
    expect(inThread(team, thread)).toEqual(['Finished.']);
  });

  it('puts a question into its bubble, and shows a new one after the answer', async () => {
    const script: Script = (request) => {
      const results = request.messages.filter((m) => m.role === 'tool').length;
      return results === 1 ? purge('logs_old') : results === 2 ? { calls: [{ name: 'slow_task', args: {} }] } : slow(request, 0, new AbortController().signal);
    };
    await working('tools: { level2: [purge_records] }', script);
    await clock.advance(1500);
    const first = await bubble();
    calls[0]?.open({ ok: true, content: 'ok' });
    const card = await cardOf(team);
    expect(card).toBe(first);
    expect(await liveRows()).toEqual([]);
    await clock.advance(60_000);
    expect(bubbles(), 'nothing is at work while people are asked').toEqual([]);
    await pressOn(team, card, 'approve', lin);
    await until('the second call', () => calls.length === 2);
    await clock.advance(1500);
    const second = await bubble();
    expect(second.id).not.toBe(first.id);
    await finish();
    expect(second.text).toBe('Finished.');
    expect(card.text).toContain('✔ Approved');
  });

  it('whose bubble somebody deleted posts the answer by itself', async () => {
    await working();
    await clock.advance(1500);
    (await bubble()).gone = true;
    await finish();
    expect(inThread(team, thread)).toEqual(['Finished.']);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'delivered' }]);
    expect(await liveRows()).toEqual([]);
  });

  it('is not disturbed when the bubble cannot be shown', async () => {
    await working();
    team.platform.onProgress = () => new PlatformError('overloaded', 'no', { outcome: 'retry' });
    await clock.advance(10_000);
    expect(bubbles()).toEqual([]);
    await finish();
    expect(inThread(team, thread)).toEqual(['Finished.']);
  });

  it('that is stopped takes its bubble away', async () => {
    await working();
    await clock.advance(1500);
    await bubble();
    await team.say(lin, 'stop', { thread });
    await idle(team);
    await until('no bubble', () => bubbles().length === 0);
    expect(inThread(team, thread)).toEqual(['Stopped by 林一 (lin). Nothing more will be done for this request.']);
    expect(await liveRows()).toEqual([]);
  });
});

describe('the bubble of a process that was killed', () => {
  it('is finished by the answer when the run goes on after the restart', async () => {
    await working();
    await clock.advance(1500);
    const shown = await bubble();
    await team.kill();
    await team.start();
    await until('the call again', () => calls.length === 2);
    await finish();
    expect(postsIn(team, thread)).toEqual([shown]);
    expect(shown.text).toBe('Finished.');
  });

  /** Stopped by the asker; the process dies with the commit that says so. */
  async function stoppedAndKilled(): Promise<void> {
    let isDead = false;
    team.onCommit = (phase) => {
      if (phase === 'before' && !isDead) return;
      isDead = true;
      throw new Error('killed');
    };
    await team.say(lin, 'stop', { thread }).catch(() => {});
    await team.kill();
  }

  it('is taken away when the run had ended', async () => {
    await working();
    await clock.advance(1500);
    await bubble();
    await stoppedAndKilled();
    expect(bubbles()).toHaveLength(1);
    await team.start();
    await until('no bubble', () => bubbles().length === 0);
    expect(await runsOf(team)).toMatchObject([{ status: 'cancelled' }]);
    expect(await liveRows()).toEqual([]);
  });

  it('is found and taken away even when the process died before it could note which message it is', async () => {
    await working();
    team.onCommit = (phase) => {
      if (phase === 'before' && bubbles().length === 1) throw new Error('killed');
    };
    await clock.advance(1100);
    await bubble();
    expect(await liveRows()).toMatchObject([{ handle: null }]);
    team.onCommit = undefined;
    await stoppedAndKilled();
    await team.start();
    await until('no bubble', () => bubbles().length === 0);
    expect(await liveRows()).toEqual([]);
  });
});
