/** Steps, transactions, chains and the keys under which a thing happens once. */
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { RunConflictError } from '../../src/errors.ts';
import { brokenAudit, listAudit, writeAudit } from '../../src/store/audit.ts';
import { chainHash, macOf } from '../../src/store/chain.ts';
import { findOrCreateConversation } from '../../src/store/conversations.ts';
import { claimMessage, readInbox, settleMessage } from '../../src/store/inbox.ts';
import { memoFor } from '../../src/store/memo.ts';
import type { StepTable } from '../../src/store/schema.ts';
import { appendSteps, brokenChain, readSteps } from '../../src/store/steps.ts';
import { isUniqueViolation, type Store } from '../../src/store/store.ts';
import { fakeClock } from '../fakes/clock.ts';
import { begun, gathered, hall, lin, requested, said, started } from '../fakes/runs.ts';
import { append, claim, conversationOf, type Fixture, queued, rowOf, winners } from './store-fixture.ts';

export function recordContract(fixture: Fixture): void {
  stepsContract(fixture);
  chainContract(fixture);
  auditContract(fixture);
  keysContract(fixture);
}

function stepsContract(fixture: Fixture): void {
  describe('steps', () => {
    it('are numbered one after the other, and read back as they were', async () => {
      const { store } = fixture;
      await queued(store, 'r1');
      await append(store, 'r1', 0, [started(), gathered()]);
      const { recorded } = await append(store, 'r1', 2, [requested()], begun + 5);
      expect(recorded).toEqual([{ ...requested(), seq: 3, at: begun + 5 }]);
      expect(await readSteps(store.db, 'r1')).toEqual([
        { ...started(), seq: 1, at: begun },
        { ...gathered(), seq: 2, at: begun },
        { ...requested(), seq: 3, at: begun + 5 },
      ]);
      expect(await readSteps(store.db, 'r1', 2)).toHaveLength(1);
      expect(await rowOf(store, 'r1')).toMatchObject({ version: 3 });
    });

    it('on top of an old version are refused, and nothing is written', async () => {
      const { store } = fixture;
      await queued(store, 'r1');
      await append(store, 'r1', 0, [started(), gathered()]);
      for (const version of [0, 1, 3]) await expect(append(store, 'r1', version, [requested()])).rejects.toBeInstanceOf(RunConflictError);
      await expect(append(store, 'nobody', 0, [started()])).rejects.toBeInstanceOf(RunConflictError);
      expect(await readSteps(store.db, 'r1')).toHaveLength(2);
    });

    it('of none change nothing', async () => {
      const { store } = fixture;
      await queued(store, 'r1');
      expect((await append(store, 'r1', 0, [])).recorded).toEqual([]);
      expect(await rowOf(store, 'r1')).toMatchObject({ version: 0 });
    });

    it('of two writers at once: exactly one wins, and none is half-written', async () => {
      const writers = [fixture.store, await fixture.another(), await fixture.another()];
      await queued(fixture.store, 'r1');
      await append(fixture.store, 'r1', 0, [started()]);
      for (let round = 0; round < 8; round++) {
        const version = 1 + round * 3;
        const attempts = writers.map((store, index) =>
          store.transact(async (tx) => {
            await tx
              .insertInto('console_channels')
              .values({ id: `${round}-${index}`, name: 'written with the steps', created_at: begun })
              .execute();
            await appendSteps(
              tx,
              { id: 'r1', version },
              Array.from({ length: 3 }, () => said(`m${round}-${index}`, `writer ${index}`)),
              begun,
            );
            return index;
          }),
        );
        const [winner, ...others] = await winners(attempts, RunConflictError);
        expect(others).toEqual([]);
        const steps = await readSteps(fixture.store.db, 'r1', version);
        expect(steps.map((step) => [step.seq, step.type === 'message_added' && step.messageKey])).toEqual([1, 2, 3].map((n) => [version + n, `m${round}-${winner}`]));
        const channels = await fixture.store.db.selectFrom('console_channels').select('id').where('id', 'like', `${round}-%`).execute();
        expect(channels).toEqual([{ id: `${round}-${winner}` }]);
      }
      expect(await brokenChain(fixture.store.db, 'r1')).toBeUndefined();
    });
  });

  describe('a transaction', () => {
    const channel = (id: string) => ({ id, name: id, created_at: begun });
    const channels = async (store: Store) => (await store.db.selectFrom('console_channels').select('id').orderBy('id').execute()).map((row) => row.id);

    it('is all or nothing', async () => {
      const { store } = fixture;
      await store.transact((tx) => tx.insertInto('console_channels').values(channel('a')).execute());
      const half = store.transact(async (tx) => {
        await tx.insertInto('console_channels').values(channel('b')).execute();
        throw new Error('thought better of it');
      });
      await expect(half).rejects.toThrow('thought better of it');
      const clash = store.transact(async (tx) => {
        await tx.insertInto('console_channels').values(channel('c')).execute();
        await tx.insertInto('console_channels').values(channel('a')).execute();
      });
      expect(isUniqueViolation(await clash.catch((error: unknown) => error))).toBe(true);
      expect(await channels(store)).toEqual(['a']);
      expect(store.degraded()).toBeUndefined();
    });

    it('is undone when the process dies before its commit, and stands when it dies after', async () => {
      for (const phase of ['before', 'after'] as const) {
        const store = await fixture.another({
          onCommit: (now) => {
            if (now === phase) throw new Error(`killed ${phase} the commit`);
          },
        });
        await expect(store.transact((tx) => tx.insertInto('console_channels').values(channel(phase)).execute())).rejects.toThrow(`killed ${phase} the commit`);
      }
      expect(await channels(fixture.store)).toEqual(['after']);
    });

    it('inside another one throws instead of waiting for itself', async () => {
      const { store } = fixture;
      const nested = store.transact(() => store.transact(async () => {}));
      await expect(nested).rejects.toThrow('a transaction inside a transaction');
      await store.transact((tx) => tx.insertInto('console_channels').values(channel('a')).execute());
    });

    it('many at once all happen', async () => {
      const stores = [fixture.store, await fixture.another()];
      await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          stores[index % 2]?.transact((tx) =>
            tx
              .insertInto('console_channels')
              .values(channel(`c${index}`))
              .execute(),
          ),
        ),
      );
      expect(await channels(fixture.store)).toHaveLength(40);
    });

    it('on a closed store is refused as closed', async () => {
      const store = await fixture.another({});
      await store.close();
      await expect(store.transact(async () => {})).rejects.toMatchObject({ code: 'store_closed' });
    });
  });

  it('integers of 64 bits arrive as numbers', async () => {
    const { store } = fixture;
    await queued(store, 'r1');
    await claim(store, { now: begun });
    const row = await rowOf(store, 'r1');
    expect(row).toMatchObject({ position: expect.any(Number) as number, created_at: begun, lease_until: begun + 60_000, version: 0 });
    const figures = await store.db
      .selectFrom('runs')
      .select((eb) => [eb.fn.max('created_at').as('newest'), eb.fn.countAll<number>().as('count')])
      .executeTakeFirstOrThrow();
    expect(figures).toEqual({ newest: begun, count: 1 });
    const { rows } = await sql<{ position: number }>`select position from runs`.execute(store.db);
    expect(rows).toEqual([{ position: row.position }]);
  });
}

/** Each way to falsify a record, and whether it must be noticed. */
const falsifications: readonly (readonly [string, boolean, (store: Store) => Promise<unknown>])[] = [
  ['nothing', false, async () => {}],
  ['data changed', true, (store) => change(store, 2, { data: '{"messageKey":"m2","by":{},"content":[]}' })],
  ['type changed', true, (store) => change(store, 2, { type: 'gathered' })],
  ['time changed', true, (store) => change(store, 2, { at: begun + 1 })],
  ['data changed and salt removed', true, (store) => change(store, 2, { data: '{"messageKey":"other"}', salt: '' })],
  ['a step in the middle removed', true, (store) => store.db.deleteFrom('steps').where('seq', '=', 2).execute()],
  ['the last step removed', true, (store) => store.db.deleteFrom('steps').where('seq', '=', 4).execute()],
  ['two steps exchanged', true, exchange],
  ['a copy of a step appended', true, appendCopy],
  ['a well-formed step appended past the writer', true, appendForged],
  ['data and salt blanked, as an erasure does', false, (store) => change(store, 2, { data: '', salt: '' })],
  ['data blanked to an empty object', false, (store) => change(store, 4, { data: '{}', salt: '' })],
];

const change = (store: Store, seq: number, set: Partial<StepTable>) => store.db.updateTable('steps').set(set).where('seq', '=', seq).execute();

async function exchange(store: Store): Promise<void> {
  for (const [from, to] of [
    [2, 99],
    [3, 2],
    [99, 3],
  ] as const) {
    await change(store, from, { seq: to });
  }
}

async function appendCopy(store: Store): Promise<void> {
  const last = await store.db.selectFrom('steps').selectAll().where('seq', '=', 4).executeTakeFirstOrThrow();
  await store.db
    .insertInto('steps')
    .values({ ...last, seq: 5 })
    .execute();
}

async function appendForged(store: Store): Promise<void> {
  const last = await store.db.selectFrom('steps').selectAll().where('seq', '=', 4).executeTakeFirstOrThrow();
  const mac = macOf(last.salt, last.data);
  const hash = chainHash(last.hash, last.run_id, 5, last.type, last.at, mac);
  await store.db
    .insertInto('steps')
    .values({ ...last, seq: 5, mac, hash })
    .execute();
}

function chainContract(fixture: Fixture): void {
  it.each(falsifications)('the chain of a run after: %s', async (_, noticed, falsify) => {
    const { store } = fixture;
    await queued(store, 'r1');
    await append(store, 'r1', 0, [started(), said('m2', 'two'), said('m3', 'three')]);
    await append(store, 'r1', 3, [said('m4', 'four')]);
    await falsify(store);
    const problem = await brokenChain(store.db, 'r1');
    expect(problem !== undefined).toBe(noticed);
    expect(await readSteps(store.db, 'r1')).toBeDefined();
  });

  it('two runs with the same steps have different chains', async () => {
    const { store } = fixture;
    for (const id of ['r1', 'r2']) {
      await queued(store, id);
      await append(store, id, 0, [started()]);
    }
    expect((await rowOf(store, 'r1')).head).not.toBe((await rowOf(store, 'r2')).head);
  });
}

function auditContract(fixture: Fixture): void {
  const entry = (subject: string) => ({ at: begun, kind: 'press' as const, actor: lin.id, subject, data: { choice: 'approve' } });
  const written = (store: Store, ...subjects: string[]) => store.transact((tx) => writeAudit(tx, subjects.map(entry), store.dialect));

  describe('the audit', () => {
    it('is one chain, whoever writes', async () => {
      const stores = [fixture.store, await fixture.another(), await fixture.another()];
      await Promise.all(stores.flatMap((store, index) => Array.from({ length: 5 }, (_, n) => written(store, `${index}-${n}-a`, `${index}-${n}-b`))));
      expect(await brokenAudit(fixture.store.db)).toBeUndefined();
      const rows = await listAudit(fixture.store.db, { limit: 100 });
      expect(new Set(rows.map((row) => row.subject)).size).toBe(30);
      expect(rows[0]).toMatchObject({ at: begun, kind: 'press', actor: lin.id, data: { choice: 'approve' } });
      expect(await listAudit(fixture.store.db, { limit: 3, before: rows[9]?.id ?? 0 })).toEqual(rows.slice(10, 13));
    });

    it.each<[string, (store: Store, ids: number[]) => Promise<unknown>, number]>([
      [
        'a changed row',
        (store, ids) =>
          store.db
            .updateTable('audit')
            .set({ actor: 'somebody else' })
            .where('id', '=', ids[1] ?? 0)
            .execute(),
        1,
      ],
      [
        'changed data',
        (store, ids) =>
          store.db
            .updateTable('audit')
            .set({ data: '{"choice":"deny"}' })
            .where('id', '=', ids[2] ?? 0)
            .execute(),
        2,
      ],
      [
        'a removed row',
        (store, ids) =>
          store.db
            .deleteFrom('audit')
            .where('id', '=', ids[1] ?? 0)
            .execute(),
        2,
      ],
      [
        'rows exchanged',
        (store, ids) =>
          store.db
            .updateTable('audit')
            .set({ subject: 'c' })
            .where('id', '=', ids[1] ?? 0)
            .execute(),
        1,
      ],
    ])('shows %s at the first row that does not follow', async (_, falsify, index) => {
      const { store } = fixture;
      await written(store, 'a', 'b', 'c', 'd');
      const ids = (await listAudit(store.db, { limit: 10 })).map((row) => row.id).reverse();
      expect(await brokenAudit(store.db)).toBeUndefined();
      await falsify(store, ids);
      expect(await brokenAudit(store.db)).toBe(ids[index]);
    });

    it('of a transaction that failed does not exist', async () => {
      const { store } = fixture;
      await written(store, 'a');
      const failed = store.transact(async (tx) => {
        await writeAudit(tx, [entry('b')], store.dialect);
        throw new Error('no');
      });
      await expect(failed).rejects.toThrow('no');
      await written(store, 'c');
      expect(await brokenAudit(store.db)).toBeUndefined();
      expect((await listAudit(store.db, { limit: 10 })).map((row) => row.subject)).toEqual(['c', 'a']);
    });
  });
}

function keysContract(fixture: Fixture): void {
  const message = (messageKey: string, app = 'a1') => ({ platform: 'console', app, messageKey, at: begun });
  const taken = (store: Store, messageKey: string, app?: string) => store.transact((tx) => claimMessage(tx, message(messageKey, app)));

  describe('the inbox', () => {
    it('takes a message once', async () => {
      const { store } = fixture;
      expect(await taken(store, 'm1')).toBe(true);
      expect(await taken(store, 'm1')).toBe(false);
      expect(await taken(store, 'm2')).toBe(true);
      expect(await taken(store, 'm1', 'a2')).toBe(true);
    });

    it('takes a message once however many deliver it at the same time', async () => {
      const stores = [fixture.store, await fixture.another(), await fixture.another()];
      for (let round = 0; round < 5; round++) {
        const results = await Promise.all([...stores, ...stores].map((store) => taken(store, `m${round}`)));
        expect(results.filter(Boolean)).toHaveLength(1);
      }
    });

    it('takes a message again whose first taking was undone', async () => {
      const { store } = fixture;
      const failed = store.transact(async (tx) => {
        await claimMessage(tx, message('m1'));
        throw new Error('no');
      });
      await expect(failed).rejects.toThrow('no');
      expect(await taken(store, 'm1')).toBe(true);
    });

    it('says what became of it', async () => {
      const { store } = fixture;
      await store.transact(async (tx) => {
        await claimMessage(tx, message('m1'));
        await settleMessage(tx, message('m1'), { outcome: 'started', runId: 'r1', raw: { text: 'x' } });
      });
      expect(await readInbox(store.db, 'console', 'a1', 'm1')).toEqual({ outcome: 'started', reason: null, run_id: 'r1' });
    });
  });

  it('a conversation is made once, however many find it missing', async () => {
    const stores = [fixture.store, await fixture.another(), await fixture.another()];
    const found = await Promise.all([...stores, ...stores].map((store) => conversationOf(store)));
    expect(new Set(found.map((conversation) => conversation.id)).size).toBe(1);
    expect(await fixture.store.db.selectFrom('conversations').selectAll().execute()).toHaveLength(1);
    const own = await fixture.store.transact((tx) => findOrCreateConversation(tx, { ...hall, thread: 't1' }, begun, lin.id));
    expect(own.id).not.toBe(found[0]?.id);
  });

  it('a memo is forgotten when its time is over', async () => {
    const clock = fakeClock();
    const memo = memoFor(fixture.store, 'wecom', clock);
    await memo.set('url', { address: 'x' }, 1000);
    await memo.set('card', [1, 2]);
    expect(await memo.get('url')).toEqual({ address: 'x' });
    expect(await memoFor(fixture.store, 'slack', clock).get('url')).toBeUndefined();
    await clock.advance(1000);
    expect(await memo.get('url')).toBeUndefined();
    expect(await memo.get('card')).toEqual([1, 2]);
    await memo.set('url', 'again', 1000);
    expect(await memo.get('url')).toBe('again');
    await memo.delete('card');
    expect(await memo.get('card')).toBeUndefined();
  });
}
