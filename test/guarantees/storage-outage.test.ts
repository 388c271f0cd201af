/** The database cannot be written for a while: nobody is told that something was done when it was not, nothing is lost, and no restart is needed. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Receipt } from '../../src/adapters/types.ts';
import { DatabaseFileError, StoreError } from '../../src/errors.ts';
import { brokenAudit } from '../../src/store/audit.ts';
import { brokenChain } from '../../src/store/steps.ts';
import { type Door, door, idle, inThread, lin, resultsIn, runsOf, stepsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { fillUp, mountSmall } from '../fakes/disk.ts';
import { type Script as OtherProcess, runScript } from '../fakes/script.ts';
import { purgeTool, type Script, type Scripted, Team, until } from '../fakes/team.ts';
import { buttonOn, cardOf, inTurn, purge, send, within } from './fixtures.ts';

const notice = { en: 'I cannot store anything at the moment, so nothing new is accepted and nothing is changed. Please write again in a few minutes.', zh: '目前无法保存任何内容，因此暂不接收新请求，也不做任何改动。请几分钟后再发。' };
const folder = mkdtempSync(join(tmpdir(), 'hermes-outage-'));
const smallDisk = mountSmall(join(folder, 'small'), 20);
const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);
process.on('unhandledRejection', note);
afterAll(() => {
  process.off('unhandledRejection', note);
  smallDisk?.unmount();
  rmSync(folder, { recursive: true, force: true });
});

let team: Team;
let clock: FakeClock;
let purged: string[];
let folders = 0;
beforeEach(() => {
  clock = fakeClock();
  purged = [];
  unhandled.length = 0;
});
afterEach(() => team.end());

/** The end of every story: all of it is on record, and nothing broke on the way. */
async function isWhole(): Promise<void> {
  const { db } = team.store;
  expect((await sql<{ integrity_check: string }>`pragma integrity_check`.execute(db)).rows).toEqual([{ integrity_check: 'ok' }]);
  for (const run of await runsOf(team)) expect(await brokenChain(db, run.id)).toBeUndefined();
  expect(await brokenAudit(db)).toBeUndefined();
  expect(team.store.degraded()).toBeUndefined();
  expect(team.hermes.problems()).toEqual([]);
  expect(unhandled).toEqual([]);
}

/** A submission whose outcome may come later. */
function submitted(event: Parameters<Team['submit']>[0]): { outcome(): string | undefined } {
  let outcome: string | undefined;
  team.submit(event).then(
    (receipt: Receipt) => (outcome = receipt.state),
    (error: { code?: string }) => (outcome = error.code ?? String(error)),
  );
  return { outcome: () => outcome };
}

const pressOf = (interactionId: string): Parameters<Team['submit']>[0] => ({ type: 'reply', key: `press:${team.platform.nextId()}`, interactionId, by: lin, at: new Date(clock.now()).toISOString(), choice: 'approve' });

async function start(script: Script, options: Partial<ConstructorParameters<typeof Team>[0]> = {}): Promise<void> {
  team = await Team.start({ clock, folder: join(folder, `data${++folders}`), config: 'tools: { level2: [purge_records] }', tools: [purgeTool(purged)], script, ...options });
}

describe('while another process writes to the database', () => {
  const source = `
    import SqliteDatabase from '${import.meta.resolve('better-sqlite3')}';
    import { createInterface } from 'node:readline';
    const handle = new SqliteDatabase(process.argv[2]);
    handle.exec('begin immediate');
    console.log('held');
    for await (const _ of createInterface(process.stdin)) {
      handle.exec('commit');
      console.log('released');
      process.exit();
    }`;
  let holder: OtherProcess;
  const hold = async () => {
    holder = runScript(folder, source, [join(team.folder, 'hermes.db')]);
    await holder.said('held');
  };
  const release = async () => {
    holder.process.stdin?.write('release\n');
    await holder.said('released').catch(() => holder.ended);
    await holder.ended;
  };
  afterEach(async () => {
    holder.process.kill('SIGKILL');
    await holder.ended;
  });

  it('for four seconds, a mention is acknowledged and answered late, and nobody is troubled', async () => {
    await start(() => ({ text: 'Hello.' }));
    await hold();
    const asked = team.platform.say(lin, 'hi');
    const submission = submitted(asked);
    await clock.advance(4000);
    expect(submission.outcome()).toBeUndefined();
    await release();
    await within(clock, 1000, 'the acknowledgement', () => submission.outcome() === 'accepted');
    await within(clock, 1000, 'the answer', () => inThread(team, asked.place.thread).length === 1);
    await idle(team);
    expect(team.platform.texts()).toEqual(['Hello.']);
    expect((await stepsOf(team)).map((step) => step.type)).toEqual(['run_started', 'context_gathered', 'model_requested', 'model_responded', 'run_completed']);
    await isWhole();
  });

  it('for four seconds in the middle of a run, what the model said is kept and stored', async () => {
    const reply: Door<Scripted> = door();
    await start(() => reply.opened);
    const asked = team.platform.say(lin, 'hi');
    await team.submit(asked);
    await until('the request', () => team.requests.length === 1);
    await hold();
    reply.open({ text: 'Hello.' });
    await clock.advance(4000);
    expect(inThread(team, asked.place.thread)).toEqual([]);
    await release();
    await within(clock, 2000, 'the answer', () => inThread(team, asked.place.thread).includes('Hello.'));
    expect(team.requests).toHaveLength(1);
    await isWhole();
  });

  it.each(['en', 'zh'] as const)('for longer than it is waited for, each conversation gets one notice, nothing is acknowledged, and everything works afterwards (%s)', async (language) => {
    await start(() => ({ text: 'Hello.' }), { config: `language: ${language}` });
    await hold();
    const mentions = [team.platform.say(lin, 'hi'), team.platform.say(zhou, 'hello')];
    const submissions = [...mentions, ...mentions].map((event) => submitted(event));
    await clock.advance(130_000);
    expect(submissions.map((submission) => submission.outcome())).toEqual(submissions.map(() => 'store_busy'));
    for (const { place } of mentions) expect(inThread(team, place.thread)).toEqual([notice[language]]);
    expect(team.hermes.problems()).toEqual([expect.stringContaining('storage: the database is held by another process')]);
    await release();
    await clock.advance(6000);
    expect(team.hermes.problems()).toEqual([]);
    // The platform delivers again what was not acknowledged.
    for (const mention of mentions) expect((await team.submit(mention)).state).toBe('accepted');
    await within(clock, 1000, 'the answers', () => team.platform.texts().filter((text) => text === 'Hello.').length === 2);
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
    await isWhole();
  });

  it('for longer than it is waited for, a press is not acknowledged and counts for nothing; pressed again it counts', async () => {
    await start(inTurn(purge('logs_old'), { text: 'Purged.' }));
    await team.say(lin, 'purge');
    const card = await cardOf(team);
    await idle(team);
    const { interactionId } = buttonOn(card, 'approve');
    await hold();
    const press = submitted(pressOf(interactionId));
    await clock.advance(70_000);
    expect(press.outcome()).toBe('store_busy');
    await release();
    await clock.advance(10_000);
    expect({ purged, buttons: card.buttons?.length }).toEqual({ purged: [], buttons: 2 });
    expect((await team.submit(pressOf(interactionId))).state).toBe('accepted');
    await until('the end', () => team.platform.texts().includes('Purged.'));
    expect(purged).toEqual(['logs_old']);
    await isWhole();
  });

  it('for longer than it is waited for, a run at work tells its thread once, and goes on where it was', async () => {
    const reply: Door<Scripted> = door();
    await start(() => reply.opened);
    const asked = team.platform.say(lin, 'hi');
    await team.submit(asked);
    await until('the request', () => team.requests.length === 1);
    await hold();
    reply.open({ text: 'Hello.' });
    await clock.advance(200_000);
    expect(inThread(team, asked.place.thread)).toEqual([notice.en]);
    await release();
    await within(clock, 10_000, 'the answer', () => inThread(team, asked.place.thread).includes('Hello.'));
    await idle(team);
    expect(team.requests).toHaveLength(1);
    await isWhole();
  });
});

// Not every machine lets a test mount a disk of its own; there the store's own tests limit the database instead.
describe.skipIf(!smallDisk)('on a full disk', () => {
  const onSmallDisk = () => ({ folder: join(folder, 'small', `data${++folders}`) });
  const fill = () => fillUp(join(folder, 'small'));

  it('a run at work tells its thread once, and the answer comes when there is space again', async () => {
    const reply: Door<Scripted> = door();
    await start(() => reply.opened, onSmallDisk());
    const asked = team.platform.say(lin, 'hi');
    await team.submit(asked);
    await until('the request', () => team.requests.length === 1);
    const free = fill();
    reply.open({ text: 'Hello.' });
    await clock.advance(60_000);
    expect(inThread(team, asked.place.thread)).toEqual([notice.en]);
    expect(team.hermes.problems()).toEqual([expect.stringContaining('full')]);
    free();
    await within(clock, 10_000, 'the answer', () => inThread(team, asked.place.thread).includes('Hello.'));
    await idle(team);
    expect(team.requests).toHaveLength(1);
    await isWhole();
  });

  it('a new request is not acknowledged, and is answered when it is delivered again', async () => {
    await start(() => ({ text: 'Hello.' }), onSmallDisk());
    const free = fill();
    const asked = team.platform.say(lin, 'hi');
    for (let n = 0; n < 3; n++) await expect(team.submit(asked)).rejects.toMatchObject({ code: 'store_full' });
    await until('the notice', () => inThread(team, asked.place.thread).length > 0);
    expect(inThread(team, asked.place.thread)).toEqual([notice.en]);
    free();
    await clock.advance(6000);
    expect((await team.submit(asked)).state).toBe('accepted');
    await idle(team);
    expect(inThread(team, asked.place.thread)).toEqual([notice.en, 'Hello.']);
    await isWhole();
  });

  it('what cannot be undone is not done, since its decision cannot be recorded; pressed again later it is done once', async () => {
    await start(inTurn(purge('logs_old'), { text: 'Purged.' }), onSmallDisk());
    await team.say(lin, 'purge');
    const card = await cardOf(team);
    await idle(team);
    const { interactionId } = buttonOn(card, 'approve');
    const free = fill();
    for (let n = 0; n < 2; n++) await expect(team.submit(pressOf(interactionId))).rejects.toMatchObject({ code: 'store_full' });
    await clock.advance(30_000);
    expect({ purged, buttons: card.buttons?.length }).toEqual({ purged: [], buttons: 2 });
    free();
    await clock.advance(6000);
    expect(purged).toEqual([]);
    expect((await team.submit(pressOf(interactionId))).state).toBe('accepted');
    await until('the end', () => team.platform.texts().includes('Purged.'));
    expect(purged).toEqual(['logs_old']);
    await isWhole();
  });

  it.each([
    { minutes: 5, cards: 1 },
    { minutes: 20, cards: 2 },
  ])('what was approved just before is not begun, since its start cannot be recorded; after $minutes minutes it has taken $cards card(s)', async ({ minutes, cards }) => {
    await start(inTurn(purge('logs_old'), { text: 'Purged.' }), onSmallDisk());
    await team.say(lin, 'purge');
    const card = await cardOf(team);
    await idle(team);
    let free = () => {};
    team.onCommit = (phase) => {
      if (phase !== 'after') return;
      team.onCommit = undefined;
      free = fill();
    };
    expect((await team.submit(pressOf(buttonOn(card, 'approve').interactionId))).state).toBe('accepted');
    await clock.advance(minutes * 60_000);
    expect(purged).toEqual([]);
    free();
    await clock.advance(12_000);
    if (cards === 2) {
      expect(purged).toEqual([]);
      await team.submit(pressOf(buttonOn(await cardOf(team, 2), 'approve').interactionId));
    }
    await until('the end', () => team.platform.texts().includes('Purged.'));
    expect(purged).toEqual(['logs_old']);
    await isWhole();
  });
});

describe('right after a write has failed', () => {
  it.each([true, false])('what changes something is refused until a write went through (refused: %s)', async (refused) => {
    const reply: Door<Scripted> = door();
    await start((_r, n) => (n === 1 ? reply.opened : { text: 'Finished.' }));
    const asked = team.platform.say(lin, 'tell them');
    await team.submit(asked);
    await until('the request', () => team.requests.length === 1);
    team.onCommit = () => {
      team.onCommit = undefined;
      throw new StoreError('store_full', 'the disk is full');
    };
    await expect(team.say(zhou, 'hi')).rejects.toMatchObject({ code: 'store_full' });
    if (!refused) await clock.advance(6000);
    reply.open(send('ops', 'Hello all.'));
    await until('the answer', () => inThread(team, asked.place.thread).includes('Finished.'));
    expect(resultsIn(team.requests.at(-1))).toEqual([refused ? 'Not executed: nothing can be recorded at the moment, so nothing may be changed. Try again later.' : expect.stringMatching(/^Posted 1 message/)]);
    expect(team.platform.texts().filter((text) => text.startsWith('Hello all.'))).toHaveLength(refused ? 0 : 1);
    await clock.advance(6000);
    await isWhole();
  });
});

describe('a database that was damaged while the bot was down', () => {
  async function damaged(harm: (bytes: Buffer) => Buffer): Promise<{ error: unknown; path: string; before: Buffer; good: Buffer }> {
    await start(() => ({ text: 'Hello.' }));
    await team.say(lin, 'hi');
    await idle(team);
    await team.stop();
    const path = join(team.folder, 'hermes.db');
    const good = readFileSync(path);
    writeFileSync(path, harm(Buffer.from(good)));
    const before = readFileSync(path);
    const error: unknown = await team.start().catch((e: unknown) => e);
    return { error, path, before, good };
  }

  it.each([
    { what: 'four kilobytes in the middle', harm: (bytes: Buffer) => bytes.fill(0xa5, Math.floor(bytes.length / 8192) * 4096, Math.floor(bytes.length / 8192) * 4096 + 4096), says: /is damaged/ },
    { what: 'everything', harm: () => Buffer.alloc(0), says: /has 0 bytes: history, open questions and schedules are missing/ },
  ])('($what) keeps it from starting, with the reason; the file is kept, and with the good one back it knows everything', async ({ harm, says }) => {
    const { error, path, before, good } = await damaged(harm);
    expect(error).toBeInstanceOf(DatabaseFileError);
    expect((error as Error).message).toMatch(says);
    expect((error as Error).message).toContain(path);
    expect(readFileSync(path).equals(before), 'the damaged file is left as it is').toBe(true);
    expect(team.platform.texts()).toEqual(['Hello.']);
    writeFileSync(path, good);
    await team.start();
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }]);
    await isWhole();
  });
});
