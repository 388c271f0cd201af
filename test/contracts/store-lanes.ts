/** Runs in lanes: who is claimed, by whom, and what happens when an owner is gone. */
import fc from 'fast-check';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { activeRuns, earlierRuns, heartbeat, listRuns, recoverRuns, releaseRun, requeue, runOfMessage } from '../../src/store/runs.ts';
import { isUniqueViolation, type Store } from '../../src/store/store.ts';
import { begun } from '../fakes/runs.ts';
import { claim, type Fixture, move, queued, rowOf } from './store-fixture.ts';

export function lanesContract(fixture: Fixture): void {
  claimsContract(fixture);
  ownersContract(fixture);
  propertiesContract(fixture);
}

/** The store, with something happening between the look and the claim. */
function interrupted(store: Store, between: () => Promise<unknown>): Store {
  const transact: Store['transact'] = async (work, options) => {
    await between();
    return store.transact(work, options);
  };
  return { db: store.db, dialect: store.dialect, transact } as Store;
}

const resume = (store: Store, id: string) => store.transact((tx) => requeue(tx, id));

function claimsContract(fixture: Fixture): void {
  describe('claiming', () => {
    it('takes the oldest queued run of each lane, and never two of one', async () => {
      const { store } = fixture;
      for (const [id, lane] of [
        ['a1', 'a'],
        ['b1', 'b'],
        ['a2', 'a'],
        ['b2', 'b'],
      ] as const)
        await queued(store, id, lane);
      expect(await claim(store)).toEqual(['a1', 'b1']);
      expect(await rowOf(store, 'a1')).toMatchObject({ status: 'running', owner: 'one', lease_until: begun + 60_000, started_at: begun });
      expect(await claim(store)).toEqual([]);
      await move(store, 'b1', 'completed');
      expect(await claim(store, { owner: 'two' })).toEqual(['b2']);
      expect(await rowOf(store, 'b1')).toMatchObject({ status: 'completed', owner: null, lease_until: null, ended_at: begun });
    });

    it('takes no more than it may', async () => {
      const { store } = fixture;
      for (const lane of ['a', 'b', 'c']) await queued(store, `${lane}1`, lane);
      expect(await claim(store, { limit: 2 })).toEqual(['a1', 'b1']);
      expect(await claim(store, { limit: 2 })).toEqual(['c1']);
    });

    it('passes by a suspended run, and takes it before younger ones once it is queued again', async () => {
      const { store } = fixture;
      for (const id of ['a1', 'a2', 'a3']) await queued(store, id, 'a');
      await claim(store);
      await move(store, 'a1', 'suspended');
      expect(await claim(store)).toEqual(['a2']);
      expect(await resume(store, 'a1')).toBe(true);
      expect(await claim(store), 'a running run is never held up by an earlier one, nor joined by it').toEqual([]);
      await move(store, 'a2', 'completed');
      expect(await claim(store)).toEqual(['a1']);
      await move(store, 'a1', 'failed');
      expect(await claim(store)).toEqual(['a3']);
    });

    it('keeps when a run was first started', async () => {
      const { store } = fixture;
      await queued(store, 'a1', 'a');
      await claim(store);
      await move(store, 'a1', 'suspended');
      await resume(store, 'a1');
      await claim(store, { now: begun + 5000 });
      expect(await rowOf(store, 'a1')).toMatchObject({ started_at: begun, lease_until: begun + 65_000 });
    });

    it('only a suspended run is queued again', async () => {
      const { store } = fixture;
      await queued(store, 'a1', 'a');
      expect(await resume(store, 'a1')).toBe(false);
      await claim(store);
      expect(await resume(store, 'a1')).toBe(false);
      await move(store, 'a1', 'cancelled');
      expect(await resume(store, 'a1')).toBe(false);
    });

    it('a second running run in a lane is an error of the database itself', async () => {
      const { store } = fixture;
      for (const id of ['a1', 'a2']) await queued(store, id, 'a');
      await claim(store);
      const second = store.transact((tx) => sql`update runs set status = 'running' where id = 'a2'`.execute(tx));
      expect(isUniqueViolation(await second.catch((error: unknown) => error))).toBe(true);
      expect(await rowOf(store, 'a2')).toMatchObject({ status: 'queued' });
    });

    it('takes no run that an earlier one came before since it looked', async () => {
      const { store } = fixture;
      for (const id of ['a1', 'a2']) await queued(store, id, 'a');
      await claim(store);
      await move(store, 'a1', 'suspended');
      expect(await claim(interrupted(store, () => resume(store, 'a1')))).toEqual([]);
      expect(await claim(interrupted(store, () => claim(store, { owner: 'faster' })))).toEqual([]);
      expect(await rowOf(store, 'a1')).toMatchObject({ status: 'running', owner: 'faster' });
    });

    it('several at once share the runs out, each to one', async () => {
      const stores = [fixture.store, await fixture.another(), await fixture.another()];
      for (let n = 0; n < 12; n++) await queued(fixture.store, `r${n}`, `lane${n % 6}`);
      const claimed = await Promise.all(stores.map((store, index) => claim(store, { owner: `owner${index}` })));
      expect(claimed.flat().sort()).toEqual(['r0', 'r1', 'r2', 'r3', 'r4', 'r5']);
      for (const [index, ids] of claimed.entries()) for (const id of ids) expect((await rowOf(fixture.store, id)).owner).toBe(`owner${index}`);
    });
  });

  it('runs are found by conversation, message, asker and position', async () => {
    const { store } = fixture;
    for (const id of ['a1', 'a2', 'a3']) await queued(store, id, 'a');
    await claim(store);
    await move(store, 'a1', 'completed');
    const { conversation_id, position } = await rowOf(store, 'a3');
    expect((await activeRuns(store.db, conversation_id)).map((row) => row.id)).toEqual(['a2', 'a3']);
    expect((await runOfMessage(store.db, 'key-a2'))?.id).toBe('a2');
    expect((await earlierRuns(store.db, conversation_id, position, 10)).map((row) => row.id)).toEqual(['a2', 'a1']);
    expect((await listRuns(store.db, { limit: 1, before: position })).map((row) => row.id)).toEqual(['a2']);
  });
}

function ownersContract(fixture: Fixture): void {
  describe('owners', () => {
    const ready = async (store: Store) => {
      await queued(store, 'a1', 'a');
      await queued(store, 'b1', 'b');
      await claim(store, { owner: 'dead', limit: 1 });
      await claim(store, { owner: 'alive', limit: 1, now: begun + 30_000 });
    };

    it('runs of every other owner are recovered, and that is counted', async () => {
      const { store } = fixture;
      await ready(store);
      expect(await store.transact((tx) => recoverRuns(tx, { notOwner: 'alive' }))).toEqual(['a1']);
      expect(await rowOf(store, 'a1')).toMatchObject({ status: 'queued', owner: null, lease_until: null, recoveries: 1 });
      expect(await rowOf(store, 'b1')).toMatchObject({ status: 'running', owner: 'alive', recoveries: 0 });
      expect(await store.transact((tx) => recoverRuns(tx, { notOwner: 'alive' }))).toEqual([]);
    });

    it('runs whose lease ran out are recovered, others not', async () => {
      const { store } = fixture;
      await ready(store);
      const lapsed = (now: number) => store.transact((tx) => recoverRuns(tx, { now }));
      expect(await lapsed(begun + 60_000)).toEqual([]);
      expect(await lapsed(begun + 60_001)).toEqual(['a1']);
      expect(await lapsed(begun + 90_001)).toEqual(['b1']);
      expect(await rowOf(store, 'b1')).toMatchObject({ recoveries: 1 });
    });

    it('a run is recovered by one of several at once', async () => {
      const stores = [fixture.store, await fixture.another(), await fixture.another()];
      await ready(fixture.store);
      const recovered = await Promise.all(stores.map((store) => store.transact((tx) => recoverRuns(tx, { now: begun + 70_000 }))));
      expect(recovered.flat()).toEqual(['a1']);
      expect(await rowOf(fixture.store, 'a1')).toMatchObject({ recoveries: 1 });
    });

    it('a run that is handed back counts as no recovery', async () => {
      const { store } = fixture;
      await ready(store);
      await store.transact((tx) => releaseRun(tx, 'a1', 'alive'));
      expect(await rowOf(store, 'a1'), 'only its owner may').toMatchObject({ status: 'running' });
      await store.transact((tx) => releaseRun(tx, 'a1', 'dead'));
      expect(await rowOf(store, 'a1')).toMatchObject({ status: 'queued', owner: null, lease_until: null, recoveries: 0 });
      expect(await claim(store)).toEqual(['a1']);
    });

    it('a heartbeat extends the leases of its owner and says which runs are still its own', async () => {
      const { store } = fixture;
      await ready(store);
      expect(await store.transact((tx) => heartbeat(tx, 'alive', begun + 120_000))).toEqual([{ id: 'b1', version: 0 }]);
      expect(await store.transact((tx) => recoverRuns(tx, { now: begun + 119_000 }))).toEqual(['a1']);
      expect(await store.transact((tx) => heartbeat(tx, 'dead', begun + 120_000))).toEqual([]);
    });
  });
}

// ---------------------------------------------------------------- any order of things

const lanes = ['x', 'y'];
const anyOperation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('claim' as const), by: fc.nat(2) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('insert' as const), by: fc.nat(2), lane: fc.constantFrom(...lanes) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('complete' as const, 'suspend' as const, 'release' as const), by: fc.nat(2), lane: fc.constantFrom(...lanes) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('resume' as const), by: fc.nat(2), lane: fc.constantFrom(...lanes) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('recover' as const), by: fc.nat(2) }) },
);
type Operation = typeof anyOperation extends fc.Arbitrary<infer T> ? T : never;
/** `claimed` in the order in which it was heard of. */
type World = { readonly stores: readonly Store[]; readonly run: number; readonly laneOf: Map<string, string>; readonly claimed: string[] };

function propertiesContract(fixture: Fixture): void {
  describe('in any order of things', () => properties(fixture));
}

function properties(fixture: Fixture): void {
  let stores: Store[] = [];
  let runs = 0;
  beforeEach(async () => {
    stores = [fixture.store, await fixture.another(), await fixture.another()];
  });
  const play = async (batches: readonly (readonly Operation[])[], check: (world: World) => Promise<void>) => {
    const world: World = { stores, run: ++runs, laneOf: new Map(), claimed: [] };
    for (const batch of batches) {
      await Promise.all(batch.map((operation) => perform(world, operation)));
      await check(world);
    }
    await fixture.store.db.updateTable('runs').set({ status: 'cancelled' }).where('status', 'in', ['queued', 'running', 'suspended']).execute();
  };

  it('whatever happens at once, a lane has at most one running run and every run one owner', async () => {
    const batches = fc.array(fc.array(anyOperation, { minLength: 1, maxLength: 4 }), { minLength: 4, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(batches, (list) => play(list, oneRunningPerLane)),
      { numRuns: 6 },
    );
  });

  it('claimers at once take the runs of a lane in their order', async () => {
    const simple = anyOperation.filter((o) => o.do === 'claim' || o.do === 'insert' || o.do === 'complete');
    const batches = fc.array(fc.array(simple, { minLength: 1, maxLength: 4 }), { minLength: 4, maxLength: 10 });
    const inOrder = async (world: World) => {
      await oneRunningPerLane(world);
      const positions = new Map((await fixture.store.db.selectFrom('runs').select(['id', 'position']).execute()).map((row) => [row.id, row.position]));
      for (const lane of lanes) {
        const taken = world.claimed.filter((id) => world.laneOf.get(id) === lane).map((id) => positions.get(id) ?? 0);
        expect(taken).toEqual([...new Set(taken)].sort((a, b) => a - b));
      }
    };
    await fc.assert(
      fc.asyncProperty(batches, (list) => play(list, inOrder)),
      { numRuns: 6 },
    );
  });

  it('one after the other, a claim takes exactly the earliest queued run of each free lane', async () => {
    const batches = fc.array(
      anyOperation.map((operation) => [operation]),
      { minLength: 8, maxLength: 20 },
    );
    const complete = async (world: World) => {
      const rows = await fixture.store.db.selectFrom('runs').select(['id', 'lane', 'status']).where('status', 'in', ['queued', 'running']).orderBy('position').execute();
      const busy = new Set(rows.filter((row) => row.status === 'running').map((row) => row.lane));
      const firsts = rows.filter((row, index) => !busy.has(row.lane) && rows.findIndex((other) => other.lane === row.lane) === index);
      expect(await claim(world.stores[1] ?? fixture.store)).toEqual(firsts.map((row) => row.id));
      for (const { id } of firsts) await fixture.store.transact((tx) => releaseRun(tx, id, 'one'));
    };
    await fc.assert(
      fc.asyncProperty(batches, (list) => play(list, complete)),
      { numRuns: 6 },
    );
  });
}

async function oneRunningPerLane(world: World): Promise<void> {
  const running = await world.stores[0]?.db.selectFrom('runs').select(['lane', 'owner']).where('status', '=', 'running').execute();
  expect(new Set(running?.map((row) => row.lane)).size).toBe(running?.length);
  expect(running?.filter((row) => row.owner === null)).toEqual([]);
}

async function perform(world: World, operation: Operation): Promise<void> {
  const store = world.stores[operation.by];
  if (!store) return;
  switch (operation.do) {
    case 'insert': {
      const id = `${world.run}-${world.laneOf.size}`;
      world.laneOf.set(id, operation.lane);
      await queued(store, id, operation.lane);
      return;
    }
    case 'claim':
      world.claimed.push(...(await claim(store, { owner: `owner${operation.by}`, limit: 5 })));
      return;
    case 'recover':
      await store.transact((tx) => recoverRuns(tx, { notOwner: `owner${operation.by}` }));
      return;
    case 'resume': {
      const row = await inLane(store, operation.lane, 'suspended');
      if (row) await store.transact((tx) => requeue(tx, row.id));
      return;
    }
    case 'complete':
    case 'suspend':
    case 'release': {
      const row = await inLane(store, operation.lane, 'running');
      // Whoever ends a run has heard of its claim.
      if (!row || !world.claimed.includes(row.id)) return;
      if (operation.do === 'release') await store.transact((tx) => releaseRun(tx, row.id, row.owner ?? ''));
      else await move(store, row.id, operation.do === 'complete' ? 'completed' : 'suspended');
    }
  }
}

const inLane = (store: Store, lane: string, status: string) => store.db.selectFrom('runs').select(['id', 'owner']).where('lane', '=', lane).where('status', '=', status).executeTakeFirst();
