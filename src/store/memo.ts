import type { Memo } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import type { Store } from './store.ts';

/** What one adapter remembers over a restart. */
export function memoFor(store: Store, adapter: string, clock: Clock): Memo {
  return {
    async get(key) {
      const row = await store.db.selectFrom('memo').select(['value', 'expires_at']).where('adapter', '=', adapter).where('key', '=', key).executeTakeFirst();
      return row && (row.expires_at === null || row.expires_at > clock.now()) ? JSON.parse(row.value) : undefined;
    },
    async set(key, value, ttlMs) {
      const row = { value: JSON.stringify(value), expires_at: ttlMs === undefined ? null : clock.now() + ttlMs };
      await store.transact((tx) =>
        tx
          .insertInto('memo')
          .values({ adapter, key, ...row })
          .onConflict((oc) => oc.columns(['adapter', 'key']).doUpdateSet(row))
          .execute(),
      );
    },
    async delete(key) {
      await store.transact((tx) => tx.deleteFrom('memo').where('adapter', '=', adapter).where('key', '=', key).execute());
    },
  };
}
