/** What every part of the store contract needs: a fresh database, and as many stores on it as there are processes. */
import { afterEach, beforeEach, expect } from 'vitest';
import type { OutboxDraft, OutboxKind, Place } from '../../src/adapters/types.ts';
import type { Step } from '../../src/agent/types.ts';
import { findOrCreateConversation } from '../../src/store/conversations.ts';
import { insertOutbox, type OutboxRow, readOutbox } from '../../src/store/outbox.ts';
import { type Claim, claimRuns, insertRun, type RunRow, readRun, setStatus } from '../../src/store/runs.ts';
import { appendSteps } from '../../src/store/steps.ts';
import type { Store, StoreOptions } from '../../src/store/store.ts';
import { begun, hall, lin } from '../fakes/runs.ts';

export type TestDatabase = {
  /** One more store on the same database, as another process would open it; one of its own where options are given. */
  open(options?: Partial<StoreOptions>): Promise<Store>;
  /** Closes what was opened. */
  drop(): Promise<void>;
};
export type MakeDatabase = () => Promise<TestDatabase>;

export type Fixture = {
  /** The first store on the fresh database. */
  readonly store: Store;
  another(options?: Partial<StoreOptions>): Promise<Store>;
};

/** A fresh database for each test. */
export function freshDatabase(makeDatabase: MakeDatabase): Fixture {
  let database: TestDatabase | undefined;
  let stores: Store[] = [];
  const another = async (options?: Partial<StoreOptions>) => {
    if (!database) throw new Error('the database is made before each test');
    const store = await database.open(options);
    stores.push(store);
    return store;
  };
  beforeEach(async () => {
    database = await makeDatabase();
    await another();
  });
  afterEach(async () => {
    stores = [];
    await database?.drop();
  });
  return {
    get store() {
      const [first] = stores;
      if (!first) throw new Error('the store is opened before each test');
      return first;
    },
    another,
  };
}

export const conversationOf = (store: Store, thread = 't1', place: Partial<Place> = {}) => store.transact((tx) => findOrCreateConversation(tx, { ...hall, thread, ...place }, begun));

/** Queued behind what stands in its lane; the lane is also the thread. */
export async function queued(store: Store, id: string, lane = 'lane'): Promise<string> {
  const conversation = await conversationOf(store, lane);
  await store.transact((tx) => insertRun(tx, { id, conversationId: conversation.id, lane, triggerKind: 'mention', messageKey: `key-${id}`, asker: lin.id, at: begun }, store.dialect));
  return id;
}

export const claim = (store: Store, own: Partial<Claim> = {}): Promise<string[]> => claimRuns(store, { owner: 'one', now: begun, leaseMs: 60_000, limit: 100, ...own });

export const move = (store: Store, id: string, status: RunRow['status']): Promise<void> =>
  store.transact((tx) => setStatus(tx, id, { status: status as Parameters<typeof setStatus>[2]['status'], input_tokens: 0, output_tokens: 0, at: begun }));

export async function rowOf(store: Store, id: string): Promise<RunRow> {
  const row = await readRun(store.db, id);
  if (!row) throw new Error(`there is no run ${id}`);
  return row;
}

export const append = (store: Store, id: string, version: number, steps: readonly Step[], at = begun) => store.transact((tx) => appendSteps(tx, { id, version }, steps, at));

export function draft(key: string, kind: OutboxKind = 'answer', own: Partial<OutboxDraft> & { place?: Partial<Place> } = {}): OutboxDraft {
  const { place, ...rest } = own;
  return { kind, message: { key, place: { ...hall, ...place }, language: 'en', markdown: `text of ${key}` }, ...rest };
}

export async function posted(store: Store, conversationId: string | undefined, draft: OutboxDraft, at = begun): Promise<OutboxRow> {
  await store.transact((tx) => insertOutbox(tx, draft, conversationId, at));
  return outboxRow(store, draft.message.key);
}

export async function outboxRow(store: Store, key: string): Promise<OutboxRow> {
  const row = await readOutbox(store.db, key);
  if (!row) throw new Error(`there is no outbox row ${key}`);
  return row;
}

/** How many of these succeeded; every other one must have failed as `failure` says. */
export async function winners<T>(attempts: readonly Promise<T>[], failure?: new (...args: never[]) => Error): Promise<T[]> {
  const results = await Promise.allSettled(attempts);
  for (const result of results) {
    if (result.status === 'fulfilled') continue;
    if (!failure) throw result.reason;
    expect(result.reason).toBeInstanceOf(failure);
  }
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}
