import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type Scripted, Team, until } from '../fakes/team.ts';
import { type Door, door, found, type HeldCall, heldTool, idle, inThread, lin, resultsIn, runsOf, stepsOf, zhou } from './fixtures.ts';

/** A busy database is waited for this long. */
const waitMs = 1000;
const notice = { en: 'I cannot store anything at the moment, so nothing new is accepted and nothing is changed. Please write again in a few minutes.', zh: '目前无法保存任何内容，因此暂不接收新请求，也不做任何改动。请几分钟后再发。' };

let team: Team;
let clock: FakeClock;
let reply: Door<Scripted>;
let thread: string;
let release: () => void;
beforeEach(() => {
  clock = fakeClock();
  reply = door();
  release = () => {};
});
afterEach(async () => {
  release();
  await team.end();
});

/** 林一's request is with the model; then somebody else holds the database. */
async function held(language: 'en' | 'zh' = 'en'): Promise<void> {
  team = await Team.start({ clock, waitMs, config: `language: ${language}`, script: (_r, n) => (n === 1 ? reply.opened : { text: 'Another answer.' }) });
  const asked = team.platform.say(lin, 'one');
  thread = asked.place.thread;
  await team.submit(asked);
  await until('the request', () => team.requests.length === 1);
  hold();
}

function hold(): void {
  const other = new SqliteDatabase(join(team.folder, 'hermes.db'));
  other.exec('begin immediate');
  release = () => {
    release = () => {};
    other.exec('rollback');
    other.close();
  };
}

describe('a database that another program holds in the middle of a run', () => {
  it.each(['en', 'zh'] as const)('for longer than it is waited for: people are told once, and the run goes on afterwards without loss (%s)', async (language) => {
    await held(language);
    reply.open({ text: 'The answer.' });
    await clock.advance(60_000);
    expect(inThread(team, thread)).toEqual([notice[language]]);
    release();
    await clock.advance(10_000);
    await idle(team);
    expect(inThread(team, thread)).toEqual([notice[language], 'The answer.']);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 0 }]);
    // The reply was kept, not asked for again.
    expect(team.requests).toHaveLength(1);
    expect((await stepsOf(team)).map((step) => step.type)).toEqual(['run_started', 'context_gathered', 'model_requested', 'model_responded', 'run_completed']);
  });

  it('for less than that: nobody notices', async () => {
    await held();
    reply.open({ text: 'The answer.' });
    await clock.advance(waitMs - 500);
    release();
    await clock.advance(500);
    await idle(team);
    expect(inThread(team, thread)).toEqual(['The answer.']);
  });

  it('takes no new message, says so once in each thread, and takes it when it comes again', async () => {
    await held();
    const other = team.platform.say(zhou, 'two');
    for (let times = 0; times < 3; times++) {
      const refused = expect(team.submit(other)).rejects.toBeInstanceOf(StoreError);
      await clock.advance(2 * waitMs);
      await refused;
    }
    expect(inThread(team, other.place.thread)).toEqual([notice.en]);
    expect(team.hermes.problems()).toEqual([expect.stringContaining('storage: the database is held by another process')]);
    release();
    await clock.advance(10_000);
    expect(team.hermes.problems()).toEqual([]);
    expect(await team.submit(other)).toEqual({ state: 'accepted' });
    await until('the answer', () => inThread(team, other.place.thread).includes('Another answer.'));
    reply.open({ text: 'The answer.' });
    await idle(team);
    expect(inThread(team, thread)).toEqual(['The answer.']);
  });

  it('loses no result of a call that came back meanwhile, and does not run it again', async () => {
    const calls: HeldCall[] = [];
    team = await Team.start({ clock, waitMs, tools: [heldTool('save', calls, 1)], script: (request) => (resultsIn(request).length > 0 ? { text: 'Saved.' } : { calls: [{ name: 'save', args: {} }] }) });
    const asked = team.platform.say(lin, 'one');
    await team.submit(asked);
    await until('the call', () => calls.length === 1);
    hold();
    calls[0]?.open(found('saved 3 rows'));
    await clock.advance(20_000);
    release();
    await clock.advance(10_000);
    await idle(team);
    expect({ calls: calls.length, results: resultsIn(team.requests[1]), texts: inThread(team, asked.place.thread) }).toEqual({ calls: 1, results: ['saved 3 rows'], texts: [notice.en, 'Saved.'] });
  });

  it('for longer than a lease: the run stays with the process that has it', async () => {
    await held();
    await clock.advance(60_000);
    reply.open({ text: 'The answer.' });
    await clock.advance(60_000);
    release();
    await clock.advance(40_000);
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed', recoveries: 0 }]);
    expect(inThread(team, thread).filter((text) => text === 'The answer.')).toHaveLength(1);
  });
});

it('a database that cannot be read while the context is gathered only delays the run', async () => {
  team = await Team.start({ clock, can: { history: false }, script: () => ({ text: 'The answer.' }) });
  const { db } = team.store;
  const selectFrom = db.selectFrom.bind(db);
  let reads = 0;
  // The first read of the run is that of its driver, the second that of its context.
  Object.assign(db, {
    selectFrom: (table: Parameters<typeof selectFrom>[0]) => {
      if (table === 'runs' && ++reads === 2) throw new StoreError('store_failed', 'the disk does not answer');
      return selectFrom(table);
    },
  });
  await team.say(lin, 'one');
  await clock.advance(1000);
  await until('the answer', () => team.platform.texts().length > 0);
  expect(reads).toBeGreaterThan(2);
  expect(team.platform.texts().at(-1)).toBe('The answer.');
});
