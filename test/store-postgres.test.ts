/** PostgreSQL: the same contract on a real server, and what only several replicas have to get right. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { insertRun } from '../src/store/runs.ts';
import { openStore, type Store, type StoreOptions } from '../src/store/store.ts';
import { storeContract } from './contracts/store.ts';
import { claim, conversationOf, freshDatabase, move, queued, rowOf, type TestDatabase } from './contracts/store-fixture.ts';
import { fakeClock, settled } from './fakes/clock.ts';
import { type PostgresServer, startPostgres } from './fakes/postgres.ts';
import { begun, lin } from './fakes/runs.ts';

let server: PostgresServer;
let admin: pg.Client;

beforeAll(async () => {
  server = await startPostgres();
  const first = await openStore({ url: server.url, clock: systemClock });
  await first.close();
  admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
}, 60_000);

afterAll(async () => {
  await Promise.all(kept.map((store) => store.close()));
  await admin?.end();
  await server?.stop();
});

const tables = 'inbox, conversations, runs, steps, interactions, outbox, posts, live, memo, audit, console_channels, console_messages';

const kept: Store[] = [];

/** One database and the same stores for all tests; each finds it empty. */
async function emptied(): Promise<TestDatabase> {
  await admin.query(`truncate ${tables} restart identity cascade`);
  const own: Store[] = [];
  let used = 0;
  const opened = async (list: Store[], options: Partial<StoreOptions> = {}): Promise<Store> => {
    const store = await openStore({ url: server.url, clock: systemClock, ...options });
    list.push(store);
    return store;
  };
  return {
    open: async (options) => (options ? opened(own, options) : (kept[used++] ?? opened(kept))),
    drop: () => Promise.all(own.map((store) => store.close())).then(() => {}),
  };
}

storeContract('PostgreSQL', emptied);

describe('several replicas on PostgreSQL', () => {
  const fixture = freshDatabase(emptied);

  it('that start on an empty database at once all succeed', async () => {
    await admin.query('create database fresh');
    const url = server.url.replace(/postgres$/, 'fresh');
    const stores = await Promise.all(Array.from({ length: 4 }, () => openStore({ url, clock: systemClock })));
    for (const store of stores) expect(await store.db.selectFrom('runs').selectAll().execute()).toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
  });

  it('that queue into one lane commit in the order of their positions', async () => {
    const other = await fixture.another();
    const conversation = await conversationOf(fixture.store);
    const run = (id: string) => ({ id, conversationId: conversation.id, lane: 'a', triggerKind: 'mention', messageKey: null, asker: lin.id, at: begun });
    const inserted = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const first = fixture.store.transact(async (tx) => {
      await insertRun(tx, run('a1'), 'postgres');
      inserted.resolve();
      await mayCommit.promise;
    });
    await inserted.promise;
    const second = other.transact((tx) => insertRun(tx, run('a2'), 'postgres'));
    await waiting('advisory');
    expect(await claim(other), 'the second waits for the first, so it cannot be claimed before it').toEqual([]);
    mayCommit.resolve();
    await Promise.all([first, second]);
    expect(await claim(other)).toEqual(['a1']);
  });

  it('that claim two runs of one lane at the same moment: the index lets one through', async () => {
    const other = await fixture.another();
    for (const id of ['a1', 'a2']) await queued(other, id, 'a');
    await claim(other, { limit: 1 });
    await move(other, 'a1', 'suspended');
    const claimedFirst = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const first = fixture.store.transact(async (tx) => {
      await tx.updateTable('runs').set({ status: 'running', owner: 'first' }).where('id', '=', 'a1').execute();
      claimedFirst.resolve();
      await mayCommit.promise;
    });
    await claimedFirst.promise;
    const second = claim(other, { owner: 'second' });
    await waiting('transactionid');
    mayCommit.resolve();
    await first;
    expect(await second).toEqual([]);
    expect(await rowOf(other, 'a1')).toMatchObject({ status: 'running', owner: 'first' });
    expect(other.degraded()).toBeUndefined();
  });

  /** Resolves when some session waits for a lock of this kind. */
  async function waiting(locktype: string): Promise<void> {
    for (;;) {
      const { rows } = await admin.query('select 1 from pg_locks where not granted and locktype = $1', [locktype]);
      if (rows.length > 0) return;
    }
  }

  const others = `from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'`;
  const cutConnections = async () => {
    await admin.query(`select pg_terminate_backend(pid) ${others}`);
    while ((await admin.query(`select 1 ${others}`)).rows.length > 0);
    await settled();
  };
  const written = (store: Store, id: string) => store.transact((tx) => tx.insertInto('console_channels').values({ id, name: id, created_at: begun }).execute());

  it('a connection cut inside a transaction is a StoreError, storage is degraded, and the next probe finds it well again', async () => {
    const clock = fakeClock();
    const store = await fixture.another({ clock });
    const told: (string | undefined)[] = [];
    store.onChange((problem) => told.push(problem));
    const cut = store.transact(async (tx) => {
      await tx.insertInto('console_channels').values({ id: 'a', name: 'a', created_at: begun }).execute();
      await cutConnections();
      await tx.insertInto('console_channels').values({ id: 'b', name: 'b', created_at: begun }).execute();
    });
    await expect(cut).rejects.toMatchObject({ code: 'store_failed', message: expect.stringContaining('does not answer') as string });
    expect(store.degraded()).toContain('does not answer');
    await clock.advance(5000);
    while (store.degraded() !== undefined) await settled();
    expect(told).toEqual([expect.stringContaining('does not answer'), undefined]);
    await written(store, 'c');
    expect(await store.db.selectFrom('console_channels').select('id').execute()).toEqual([{ id: 'c' }]);
  });

  it('idle connections that are cut harm nobody', async () => {
    const store = await fixture.another({});
    await Promise.all(['a', 'b', 'c'].map((id) => written(store, id)));
    await cutConnections();
    await written(store, 'd');
    expect(await store.db.selectFrom('console_channels').select('id').execute()).toHaveLength(4);
  });

  it('a server that is not there fails the start in words', async () => {
    await expect(openStore({ url: 'postgres://hermes:topsecret@127.0.0.1:1/none', clock: systemClock })).rejects.toMatchObject({ code: 'store_failed', message: expect.not.stringContaining('topsecret') as string });
  });
});
