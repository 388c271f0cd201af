/** A SQLite database that another process holds: waited for, given up in words, and found well again. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { openStore, type Store, type StoreOptions } from '../src/store/store.ts';
import { fakeClock } from './fakes/clock.ts';
import { runScript, type Script } from './fakes/script.ts';

const folder = mkdtempSync(join(tmpdir(), 'hermes-busy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const write = (store: Store, id: string) => store.transact((tx) => tx.insertInto('console_channels').values({ id, name: 'x', created_at: 0 }).execute());
/** In the order in which they were written. */
const written = async (store: Store) => (await sql<{ id: string }>`select id from console_channels order by rowid`.execute(store.db)).rows.map((row) => row.id);

describe('a database that another process holds', () => {
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
  let holder: Script;
  let store: Store;

  const held = async (options: Partial<StoreOptions>) => {
    const path = join(folder, `data${++files}`, 'hermes.db');
    store = await openStore({ url: `sqlite:${path}`, clock: systemClock, ...options });
    await write(store, 'before');
    holder = runScript(folder, source, [path]);
    await holder.said('held');
  };
  const release = async () => {
    holder.process.stdin?.write('release\n');
    await holder.said('released').catch(() => holder.ended);
  };
  afterEach(async () => {
    holder.process.kill('SIGKILL');
    await holder.ended;
    await store.close();
  });

  it('is waited for: the write succeeds, reads go on, and the event loop is not blocked', async () => {
    await held({});
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 20);
    const waiting = Promise.all([write(store, 'a'), write(store, 'b')]);
    let done = false;
    const finished = waiting.finally(() => (done = true));
    const startedAt = Date.now();
    while (Date.now() - startedAt < 1500) {
      expect(await written(store)).toEqual(['before']);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(done).toBe(false);
    await release();
    await finished;
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(30);
    expect(await written(store)).toEqual(['before', 'a', 'b']);
    expect(store.degraded()).toBeUndefined();
  });

  it('for too long is a StoreError; storage is degraded until a probe gets through', async () => {
    const clock = fakeClock();
    await held({ clock, waitMs: 60_000 });
    const told: (string | undefined)[] = [];
    store.onChange(() => {
      throw new Error('a listener that fails harms nobody');
    });
    store.onChange((problem) => told.push(problem));
    const attempts = Promise.allSettled([write(store, 'a'), write(store, 'b')]);
    await clock.advance(59_000);
    expect(store.degraded()).toBeUndefined();
    await clock.advance(2000);
    for (const result of await attempts) expect(result).toMatchObject({ status: 'rejected', reason: { code: 'store_busy', message: expect.stringContaining('60 s') as string } });
    expect(store.degraded()).toContain('held by another process');
    await clock.advance(100_000);
    expect(told).toEqual([expect.stringContaining('held by another process')]);
    expect(await written(store), 'reads work all the time').toEqual(['before']);

    const writable = store.whenWritable(new AbortController().signal);
    await release();
    await clock.advance(6000);
    await writable;
    expect(told).toEqual([expect.any(String), undefined]);
    expect(store.degraded()).toBeUndefined();
    await write(store, 'c');
    expect(await written(store)).toEqual(['before', 'c']);
  });

  it('is written by those who wait in the order in which they came', async () => {
    const clock = fakeClock();
    await held({ clock });
    const first = write(store, 'first');
    await clock.advance(600);
    // By now the first one looks every 250 ms only, and a newcomer looks at once.
    const second = write(store, 'second');
    await clock.advance(5);
    await release();
    await clock.advance(500);
    await Promise.all([first, second]);
    expect(await written(store)).toEqual(['before', 'first', 'second']);
  });

  it('does not keep a store from closing', async () => {
    const clock = fakeClock();
    await held({ clock, waitMs: 1000 });
    const late = write(store, 'a').catch((error: unknown) => error);
    await clock.advance(100);
    await store.close();
    await clock.advance(100);
    expect(await late).toMatchObject({ code: 'store_closed' });
    await expect(store.whenWritable(new AbortController().signal)).rejects.toMatchObject({ code: 'store_closed' });
  });
});
