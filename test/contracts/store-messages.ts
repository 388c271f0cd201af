/** Questions to people and messages to groups, as rows. */
import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../src/agent/types.ts';
import { findConversation, readConversation, setThread } from '../../src/store/conversations.ts';
import { dueInteractions, insertInteraction, interactionByCode, listInteractions, markDelivered, nextDueAt, openInteractions, readInteraction, reminded, resolveInteraction } from '../../src/store/interactions.ts';
import {
  beginAttempt,
  closeLive,
  dueHeads,
  findPost,
  freeOutbox,
  nextAttemptAt,
  openLive,
  outboxOfInteraction,
  partSent,
  postponeOutbox,
  readLive,
  replaceBody,
  setLive,
  settleOutbox,
  staleLive,
  withdrawUnsent,
} from '../../src/store/outbox.ts';
import { isUniqueViolation, type Store } from '../../src/store/store.ts';
import { begun, clarify, hall, lin } from '../fakes/runs.ts';
import { claim, conversationOf, draft, type Fixture, move, outboxRow, posted, queued, rowOf } from './store-fixture.ts';

const hour = 3_600_000;

export function messagesContract(fixture: Fixture): void {
  interactionsContract(fixture);
  orderContract(fixture);
  deliveryContract(fixture);
  liveContract(fixture);
}

function interactionsContract(fixture: Fixture): void {
  const ask = async (store: Store, id: string, own: { code?: string; expiresInMs?: number; tenant?: string } = {}) => {
    const { tenant = 'local', ...interaction } = own;
    await queued(store, `run-${id}`, id);
    const { conversation_id } = await rowOf(store, `run-${id}`);
    await store.transact((tx) => insertInteraction(tx, { interaction: clarify('which1', { id, ...interaction }), runId: `run-${id}`, conversationId: conversation_id, place: { ...hall, tenant }, at: begun }));
  };
  const deliver = (store: Store, id: string, at = begun) => store.transact((tx) => markDelivered(tx, id, at));
  const resolve = (store: Store, id: string, kind: Outcome['kind'] = 'answered') => store.transact((tx) => resolveInteraction(tx, id, { kind, at: '', by: lin }, begun + 9));

  describe('an interaction', () => {
    it('has no clock until people can see it', async () => {
      const { store } = fixture;
      await ask(store, 'i1');
      expect(await readInteraction(store.db, 'i1')).toMatchObject({ delivered_at: null, expires_at: null, remind_at: null, resolved_at: null });
      expect(await nextDueAt(store.db)).toBeUndefined();
      expect(await dueInteractions(store.db, begun + 1000 * hour)).toEqual({ expired: [], remind: [] });
    });

    it('counts from its delivery, and a second delivery does not count', async () => {
      const { store } = fixture;
      await ask(store, 'i1', { expiresInMs: 24 * hour });
      await deliver(store, 'i1', begun + 5);
      await deliver(store, 'i1', begun + 500);
      expect(await readInteraction(store.db, 'i1')).toMatchObject({ delivered_at: begun + 5, expires_at: begun + 5 + 24 * hour, remind_at: begun + 5 + 12 * hour });
    });

    it.each([
      [hour - 1, null],
      [hour, begun + hour / 2],
    ])('open for %i ms is reminded of at %j', async (expiresInMs, remindAt) => {
      const { store } = fixture;
      await ask(store, 'i1', { expiresInMs });
      await deliver(store, 'i1');
      expect(await readInteraction(store.db, 'i1')).toMatchObject({ remind_at: remindAt, expires_at: begun + expiresInMs });
    });

    it('falls due for its reminder, once, and then for its end', async () => {
      const { store } = fixture;
      await ask(store, 'i1', { expiresInMs: 2 * hour });
      await deliver(store, 'i1');
      const due = async (at: number) => {
        const { expired, remind } = await dueInteractions(store.db, at);
        return [expired.map((row) => row.id), remind.map((row) => row.id)];
      };
      expect(await nextDueAt(store.db)).toBe(begun + hour);
      expect(await due(begun + hour - 1)).toEqual([[], []]);
      expect(await due(begun + hour)).toEqual([[], ['i1']]);
      expect(await due(begun + 2 * hour), 'no reminder of what has expired').toEqual([['i1'], []]);
      const reminds = () => store.transact((tx) => reminded(tx, 'i1'));
      expect([await reminds(), await reminds()], 'it comes once, whoever is about to send it').toEqual([true, false]);
      expect(await nextDueAt(store.db)).toBe(begun + 2 * hour);
      expect(await due(begun + 2 * hour - 1)).toEqual([[], []]);
      await resolve(store, 'i1', 'expired');
      expect(await nextDueAt(store.db)).toBeUndefined();
      expect(await due(begun + 9 * hour)).toEqual([[], []]);
    });

    it('is resolved once', async () => {
      const { store } = fixture;
      await ask(store, 'i1');
      await resolve(store, 'i1');
      await resolve(store, 'i1', 'expired');
      const row = await readInteraction(store.db, 'i1');
      expect(row).toMatchObject({ resolved_at: begun + 9, answered_by: lin.id });
      expect(JSON.parse(row?.outcome ?? '')).toMatchObject({ kind: 'answered' });
      await deliver(store, 'i1');
      expect(await readInteraction(store.db, 'i1'), 'what is over gets no clock').toMatchObject({ delivered_at: null });
    });

    it('has a code that no other open one of the tenant has, free again afterwards', async () => {
      const { store } = fixture;
      const local = { platform: 'console', tenant: 'local' };
      await ask(store, 'i1', { code: 'K7PQ' });
      const clash = ask(store, 'i2', { code: 'K7PQ' });
      expect(isUniqueViolation(await clash.catch((error: unknown) => error))).toBe(true);
      await ask(store, 'i3', { code: 'K7PQ', tenant: 'elsewhere' });
      expect((await interactionByCode(store.db, local, 'K7PQ'))?.id).toBe('i1');
      await resolve(store, 'i1');
      expect((await interactionByCode(store.db, local, 'K7PQ'))?.id, 'what was decided is still found').toBe('i1');
      await ask(store, 'i4', { code: 'K7PQ' });
      expect((await interactionByCode(store.db, local, 'K7PQ'))?.id).toBe('i4');
      expect(await interactionByCode(store.db, local, 'XXXX')).toBeUndefined();
    });

    it('is listed while it is open', async () => {
      const { store } = fixture;
      await ask(store, 'i1', { code: 'AAAA' });
      await ask(store, 'i2', { code: 'BBBB' });
      await resolve(store, 'i1');
      expect((await listInteractions(store.db, { limit: 9, openOnly: true })).map((row) => row.id)).toEqual(['i2']);
      expect(await listInteractions(store.db, { limit: 9, openOnly: false })).toHaveLength(2);
      const { conversation_id } = await rowOf(store, 'run-i2');
      expect((await openInteractions(store.db, conversation_id)).map((row) => row.id)).toEqual(['i2']);
    });
  });
}

const heads = async (store: Store, now = begun) => (await dueHeads(store.db, now, 10)).map((row) => row.key);
const settle = async (store: Store, key: string, state: 'sent' | 'failed' | 'unknown' = 'sent') => {
  const row = await outboxRow(store, key);
  await store.transact((tx) => settleOutbox(tx, row, { state, at: begun + 1 }));
};
const attempt = async (store: Store, key: string, owner = 'one', now = begun) => {
  const row = await outboxRow(store, key);
  return store.transact((tx) => beginAttempt(tx, row, { owner, now, leaseMs: 30_000 }));
};

function orderContract(fixture: Fixture): void {
  describe('the outbox', () => {
    it('goes strictly in order within a conversation', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      for (const key of ['k1', 'k2', 'k3']) await posted(store, id, draft(key, key === 'k3' ? 'question' : 'answer'));
      expect(await heads(store)).toEqual(['k1']);
      await settle(store, 'k1');
      expect(await heads(store)).toEqual(['k2']);
      await settle(store, 'k2', 'failed');
      expect(await heads(store), 'a row that failed for good is passed').toEqual(['k3']);
      await settle(store, 'k3', 'unknown');
      expect(await heads(store)).toEqual([]);
    });

    it('sends questions and receipts first between conversations, then notices, answers and reports', async () => {
      const { store } = fixture;
      const kinds = ['report', 'answer', 'notice', 'receipt', 'group_message', 'question'] as const;
      for (const kind of kinds) {
        const { id } = await conversationOf(store, kind);
        await posted(store, id, draft(kind, kind));
      }
      expect(await heads(store)).toEqual(['receipt', 'question', 'notice', 'answer', 'group_message', 'report']);
      expect(await dueHeads(store.db, begun, 2)).toHaveLength(2);
    });

    it('keeps one row for a key, the first', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      const first = await posted(store, id, draft('k1'));
      const again = await posted(store, id, draft('k1', 'question'));
      expect(again).toEqual(first);
    });

    it('waits for a postponed row instead of overtaking it, and knows until when', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      await posted(store, id, draft('k1'));
      await posted(store, id, draft('k2'));
      expect(await nextAttemptAt(store.db)).toBe(begun);
      await attempt(store, 'k1');
      const row = await outboxRow(store, 'k1');
      await store.transact((tx) => postponeOutbox(tx, row, { at: begun + 5000, error: 'busy', ambiguous: false }));
      expect(await heads(store, begun + 4999)).toEqual([]);
      expect(await nextAttemptAt(store.db)).toBe(begun + 5000);
      expect(await heads(store, begun + 5000)).toEqual(['k1']);
      expect(await outboxRow(store, 'k1')).toMatchObject({ attempts: 1, attempt_at: null, owner: null, error: 'busy' });
      await settle(store, 'k1');
      expect(await nextAttemptAt(store.db)).toBe(begun);
      await settle(store, 'k2');
      expect(await nextAttemptAt(store.db)).toBeUndefined();
    });
  });
}

function deliveryContract(fixture: Fixture): void {
  describe('a message', () => {
    it('is taken by one process, and by another only when the first counts as gone', async () => {
      const stores = [fixture.store, await fixture.another()];
      const { id } = await conversationOf(fixture.store);
      for (const key of ['k1', 'k2', 'k3']) {
        const row = await posted(fixture.store, id, draft(key));
        const taken = await Promise.all(stores.map((store, index) => store.transact((tx) => beginAttempt(tx, row, { owner: `owner${index}`, now: begun, leaseMs: 30_000 }))));
        expect(taken.filter(Boolean)).toHaveLength(1);
        expect(await outboxRow(fixture.store, key)).toMatchObject({ attempts: 1, attempt_at: begun, owner: `owner${taken.indexOf(true)}`, lease_until: begun + 30_000 });
        expect(await heads(fixture.store, begun + 29_999)).toEqual([]);
        expect(await nextAttemptAt(fixture.store.db)).toBe(begun + 30_000);
        expect(await heads(fixture.store, begun + 30_000)).toEqual([key]);
        await settle(fixture.store, key);
        expect(await attempt(fixture.store, key), 'a settled row is not begun again').toBe(false);
      }
    });

    it('of a process that is gone is free at once on a database of one process', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      await posted(store, id, draft('k1'));
      await attempt(store, 'k1', 'dead');
      await store.transact((tx) => freeOutbox(tx));
      expect(await heads(store)).toEqual(['k1']);
      expect(await outboxRow(store, 'k1'), 'the attempt without an outcome stays in the record').toMatchObject({ attempts: 1, attempt_at: begun });
    });

    it('whose attempt is ambiguous stays so when it is postponed', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      await posted(store, id, draft('k1'));
      await attempt(store, 'k1');
      const row = await outboxRow(store, 'k1');
      await store.transact((tx) => postponeOutbox(tx, row, { at: begun + 1, error: 'cut', ambiguous: true }));
      expect(await outboxRow(store, 'k1')).toMatchObject({ attempt_at: begun, owner: null });
    });

    it('stores each part, and the last one is found by its id on the platform', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      const row = await posted(store, id, draft('k1'));
      const parts = [1, 2].map((n) => ({ key: `k1#${n}`, platformMessageId: `ts${n}` }));
      for (const count of [1, 2]) await store.transact((tx) => partSent(tx, row, parts.slice(0, count), hall));
      expect(JSON.parse((await outboxRow(store, 'k1')).parts)).toEqual(parts);
      for (const { platformMessageId } of parts) expect(await findPost(store.db, hall, platformMessageId)).toEqual({ conversation_id: id, outbox_id: row.id });
      expect(await findPost(store.db, { ...hall, channel: 'other' }, 'ts1')).toBeUndefined();
      await settle(store, 'k1');
      expect(await outboxRow(store, 'k1')).toMatchObject({ state: 'sent', settled_at: begun + 1, attempt_at: null, owner: null, lease_until: null });
      expect(await readConversation(store.db, id)).toMatchObject({ last_post_at: begun + 1, thread: 't1' });
    });

    it('is settled once', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      await posted(store, id, draft('k1'));
      await settle(store, 'k1', 'failed');
      await settle(store, 'k1', 'sent');
      expect(await outboxRow(store, 'k1')).toMatchObject({ state: 'failed' });
    });

    it('may be rewritten while it is due', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store);
      const row = await posted(store, id, draft('k1', 'question', { interactionId: 'i1' }));
      await store.transact((tx) => replaceBody(tx, row, { ...draft('k1').message, markdown: 'new' }));
      expect(JSON.parse((await outboxOfInteraction(store.db, 'i1'))?.body ?? '')).toMatchObject({ markdown: 'new' });
    });

    it('of an ended run is withdrawn unless it was begun, sent in part or sent', async () => {
      const { store } = fixture;
      for (const key of ['unsent', 'begun', 'in part', 'sent', 'notice', 'other run']) {
        const { id } = await conversationOf(store, key);
        await posted(store, id, draft(key, key === 'notice' ? 'notice' : 'question', { runId: key === 'other run' ? 'r2' : 'r1' }));
      }
      await attempt(store, 'begun');
      const row = await outboxRow(store, 'in part');
      await store.transact((tx) => partSent(tx, row, [{ key: 'in part', platformMessageId: 'ts1' }], hall));
      await settle(store, 'sent');
      await store.transact((tx) => withdrawUnsent(tx, 'r1', ['question', 'answer'], begun + 7));
      const states = await store.db.selectFrom('outbox').select(['key', 'state']).orderBy('id').execute();
      expect(states.map((s) => `${s.key}: ${s.state}`)).toEqual(['unsent: withdrawn', 'begun: due', 'in part: due', 'sent: sent', 'notice: due', 'other run: due']);
    });
  });

  describe('a post on the main level', () => {
    const elsewhere = { ...hall, channel: 'work', thread: '' };

    it('opens a thread of its own, to which replies belong', async () => {
      const { store } = fixture;
      const [first, second] = [await posted(store, undefined, draft('k1', 'group_message', { place: elsewhere })), await posted(store, undefined, draft('k2', 'group_message', { place: elsewhere }))];
      expect(first.conversation_id).not.toBe(second.conversation_id);
      expect(await heads(store), 'they do not wait for each other').toEqual(['k1', 'k2']);
      await store.transact((tx) => partSent(tx, first, [{ key: 'k1', platformMessageId: 'ts1' }], elsewhere));
      expect((await findConversation(store.db, { ...elsewhere, thread: 'ts1' }))?.id).toBe(first.conversation_id);
      await store.transact((tx) =>
        partSent(
          tx,
          first,
          ['ts1', 'ts2'].map((ts, n) => ({ key: `k1#${n}`, platformMessageId: ts })),
          elsewhere,
        ),
      );
      expect(await readConversation(store.db, first.conversation_id), 'only the first part is the root').toMatchObject({ thread: 'ts1' });
    });

    it('does not move a conversation that was there before it', async () => {
      const { store } = fixture;
      const { id } = await conversationOf(store, '', { audience: 'direct' });
      const row = await posted(store, id, draft('k1', 'answer', { place: { thread: '' } }));
      await store.transact((tx) => partSent(tx, row, [{ key: 'k1', platformMessageId: 'ts1' }], { ...hall, thread: '' }));
      expect(await readConversation(store.db, id)).toMatchObject({ thread: '' });
    });

    it('answered before its id was stored leaves the thread to the conversation of the answer', async () => {
      const { store } = fixture;
      const row = await posted(store, undefined, draft('k1', 'group_message', { place: elsewhere }));
      const reply = await conversationOf(store, 'ts1', { channel: 'work' });
      await store.transact((tx) => partSent(tx, row, [{ key: 'k1', platformMessageId: 'ts1' }], elsewhere));
      await store.transact((tx) => setThread(tx, row.conversation_id, 'ts1'));
      expect((await findConversation(store.db, { ...elsewhere, thread: 'ts1' }))?.id).toBe(reply.id);
      expect(await findPost(store.db, elsewhere, 'ts1')).toMatchObject({ conversation_id: row.conversation_id });
    });
  });
}

function liveContract(fixture: Fixture): void {
  it('bubbles of runs that are not at work are stale', async () => {
    const { store } = fixture;
    for (const id of ['r1', 'r2', 'r3']) {
      await queued(store, id, id);
      const { conversation_id } = await rowOf(store, id);
      await store.transact((tx) => openLive(tx, { runId: id, conversationId: conversation_id, place: hall }));
    }
    await claim(store);
    await move(store, 'r2', 'suspended');
    await move(store, 'r3', 'completed');
    expect((await staleLive(store.db)).map((row) => row.run_id).sort()).toEqual(['r2', 'r3']);
    await store.transact((tx) => setLive(tx, 'r1', { platformMessageId: 'ts1' }));
    expect(JSON.parse((await readLive(store.db, 'r1'))?.handle ?? '')).toEqual({ platformMessageId: 'ts1' });
    await store.transact((tx) => closeLive(tx, 'r1'));
    expect(await readLive(store.db, 'r1')).toBeUndefined();
  });
}
