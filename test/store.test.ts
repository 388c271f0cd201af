/** SQLite: the contract, and what only its driver has to get right. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { afterAll, describe, expect, it } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { sqliteDialect } from '../src/store/sqlite.ts';
import { openStore, type Store } from '../src/store/store.ts';
import { storeContract } from './contracts/store.ts';
import type { TestDatabase } from './contracts/store-fixture.ts';
import { runScript } from './fakes/script.ts';

const folder = mkdtempSync(join(tmpdir(), 'hermes-store-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const freshPath = (): string => join(folder, String(++files), 'hermes.db');

storeContract('SQLite', async (): Promise<TestDatabase> => {
  const url = `sqlite:${freshPath()}`;
  const opened: Store[] = [];
  return {
    async open(options) {
      const store = await openStore({ url, clock: systemClock, ...options });
      opened.push(store);
      return store;
    },
    drop: () => Promise.all(opened.map((store) => store.close())).then(() => {}),
  };
});

describe('the SQLite driver', () => {
  it('a query on the database inside a transaction throws instead of waiting for itself', async () => {
    const store = await openStore({ url: `sqlite:${freshPath()}`, clock: systemClock });
    const outside = store.transact(async (tx) => {
      await tx.insertInto('console_channels').values({ id: 'a', name: 'a', created_at: 0 }).execute();
      return store.db.selectFrom('console_channels').selectAll().execute();
    });
    await expect(outside).rejects.toThrow('inside a transaction would wait for itself');
    expect(await store.db.selectFrom('console_channels').selectAll().execute()).toEqual([]);
    await store.close();
  });

  it('transactions that queue share a commit: each stays whole, one that fails takes nobody with it, and none counts before the commit', async () => {
    const path = freshPath();
    const store = await openStore({ url: `sqlite:${path}`, clock: systemClock });
    const other = new SqliteDatabase(path, { readonly: true });
    const seen: number[] = [];
    const add = (id: string, fails: boolean, durable: boolean) =>
      store
        .transact(
          async (tx) => {
            await tx.insertInto('console_channels').values({ id, name: id, created_at: 0 }).execute();
            await tx
              .insertInto('console_channels')
              .values({ id: `${id}+`, name: id, created_at: 0 })
              .execute();
            if (fails) throw new Error(`${id} fails`);
          },
          { durable },
        )
        .then(() => seen.push((other.prepare('select count(*) as n from console_channels where name = ?').get(id) as { n: number }).n));
    const all = await Promise.allSettled(Array.from({ length: 60 }, (_, i) => add(`c${i}`, i % 7 === 3, i % 11 === 5)));
    expect(all.map((result) => result.status === 'rejected')).toEqual(all.map((_, i) => i % 7 === 3));
    expect(seen).toEqual(seen.map(() => 2));
    const ids = await store.db.selectFrom('console_channels').select('id').execute();
    expect(ids).toHaveLength(2 * all.filter((result) => result.status === 'fulfilled').length);
    other.close();
    await store.close();
  });

  it('a shared commit that the disk refuses is refused to each of its transactions', async () => {
    const path = freshPath();
    const store = await openStore({ url: `sqlite:${path}`, clock: systemClock });
    const pages = (await sql<{ page_count: number }>`pragma page_count`.execute(store.db)).rows[0]?.page_count ?? 0;
    await sql.raw(`pragma max_page_count = ${pages + 2}`).execute(store.db);
    const add = (id: string) =>
      store.transact((tx) =>
        tx
          .insertInto('console_channels')
          .values({ id, name: id.repeat(400), created_at: 0 })
          .execute(),
      );
    const all = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => add(`channel-${i}-`)));
    const kept = await store.db.selectFrom('console_channels').select('id').execute();
    const fulfilled = all.flatMap((result, i) => (result.status === 'fulfilled' ? [`channel-${i}-`] : []));
    expect(kept.map((row) => row.id).sort()).toEqual(fulfilled.sort());
    expect(fulfilled.length).toBeLessThan(40);
    expect(all.flatMap((result) => (result.status === 'rejected' ? [(result.reason as { code: string }).code] : [])).every((code) => code.startsWith('store_'))).toBe(true);
    expect(await store.transact(async () => 'works')).toBe('works');
    await store.close();
  });

  it('a read sees a transaction whole or not at all', async () => {
    const store = await openStore({ url: `sqlite:${freshPath()}`, clock: systemClock });
    const begun = Promise.withResolvers<void>();
    const written = store.transact(async (tx) => {
      await tx.insertInto('console_channels').values({ id: 'a', name: 'a', created_at: 0 }).execute();
      begun.resolve();
      await tx.insertInto('console_channels').values({ id: 'b', name: 'b', created_at: 0 }).execute();
    });
    await begun.promise;
    expect(await store.db.selectFrom('console_channels').select('id').execute()).toHaveLength(2);
    await written;
    await store.close();
  });

  it('transactions happen in the order they were asked for', async () => {
    const store = await openStore({ url: `sqlite:${freshPath()}`, clock: systemClock });
    await Promise.all(Array.from({ length: 20 }, (_, n) => store.transact((tx) => tx.insertInto('audit').values({ at: n, kind: 'x', actor: '', run_id: null, conversation_id: null, subject: '', data: '', hash: '' }).execute())));
    const rows = await store.db.selectFrom('audit').select('at').orderBy('id').execute();
    expect(rows.map((row) => row.at)).toEqual(Array.from({ length: 20 }, (_, n) => n));
    await store.close();
  });
});

describe('migrations', () => {
  const creates = (name: string): Migration => ({
    up: (db) =>
      sql
        .raw(`create table ${name} (id integer primary key) strict`)
        .execute(db)
        .then(() => {}),
  });
  const fails: Migration = {
    async up(db) {
      await sql`create table half (id integer primary key) strict`.execute(db);
      await sql`alter table one rename to uno`.execute(db);
      throw new Error('the second half failed');
    },
  };

  it('that fail roll back whole, and the next start does them again', async () => {
    const handle = new SqliteDatabase(':memory:', { timeout: 0 });
    const db = new Kysely<unknown>({ dialect: sqliteDialect({ handle, clock: systemClock, scope: new AsyncLocalStorage() }) });
    const migrate = async (migrations: Record<string, Migration>) => (await new Migrator({ db, provider: { getMigrations: async () => migrations } }).migrateToLatest()).error;
    const tables = async () => (await db.introspection.getTables()).map((table) => table.name).sort();
    expect(await migrate({ '1': creates('one') })).toBeUndefined();
    expect(await migrate({ '1': creates('one'), '2': creates('two'), '3': fails })).toMatchObject({ message: 'the second half failed' });
    expect(await tables()).toEqual(['one']);
    expect(await migrate({ '1': creates('one'), '2': creates('two'), '3': creates('half') })).toBeUndefined();
    expect(await tables()).toEqual(['half', 'one', 'two']);
    await db.destroy();
  });

  it('that fail fail the start, and leave the database to the version before', async () => {
    const url = `sqlite:${freshPath()}`;
    const before = await openStore({ url, clock: systemClock }, () => ({ '1': creates('one') }));
    await before.close();
    await expect(openStore({ url, clock: systemClock }, () => ({ '1': creates('one'), '2': fails }))).rejects.toThrow('the second half failed');
    const again = await openStore({ url, clock: systemClock }, () => ({ '1': creates('one') }));
    expect((await again.db.introspection.getTables()).map((table) => table.name)).toEqual(['one']);
    await again.close();
  });
});

describe('several processes', () => {
  it('that open a fresh database at once all succeed', { timeout: 60_000 }, async () => {
    // All files are opened by the same four processes, which wait for the word each time.
    const script = `
      import { createInterface } from 'node:readline';
      import { openStore } from '${new URL('../src/store/store.ts', import.meta.url).href}';
      import { systemClock } from '${new URL('../src/clock.ts', import.meta.url).href}';
      const [id, ...paths] = process.argv.slice(2);
      const words = createInterface(process.stdin)[Symbol.asyncIterator]();
      for (const path of paths) {
        console.log('ready for ' + path);
        await words.next();
        const store = await openStore({ url: 'sqlite:' + path, clock: systemClock });
        for (let n = 0; n < 5; n++) await store.transact((tx) => tx.insertInto('console_channels').values({ id: id + n, name: id, created_at: 0 }).execute());
        await store.close();
      }
      process.exit();`;
    const paths = [freshPath(), freshPath(), freshPath(), freshPath(), freshPath()];
    const scripts = ['a', 'b', 'c', 'd'].map((id) => runScript(folder, script, [id, ...paths]));
    for (const path of paths) {
      await Promise.all(scripts.map((process) => process.said(`ready for ${path}`)));
      for (const { process } of scripts) process.stdin?.write('go\n');
    }
    for (const { ended } of scripts) expect((await ended).code).toBe(0);
    for (const path of paths) {
      const store = await openStore({ url: `sqlite:${path}`, clock: systemClock });
      expect(await store.db.selectFrom('console_channels').selectAll().execute()).toHaveLength(20);
      await store.close();
      expect(readdirSync(join(path, '..'))).toEqual(['hermes.db']);
    }
  });
});
