/** Makes a database look as after years: finished runs with their messages, steps and deliveries. */
import { randomUUID } from 'node:crypto';
import type { Store } from '../src/store/store.ts';

const stepsEach = 5;

/** `messages` inbox rows; each a finished run of its own with five steps and one sent outbox row. */
export async function fill(store: Store, messages: number): Promise<void> {
  const batch = 500;
  for (let from = 0; from < messages; from += batch) {
    await store.transact(async (tx) => {
      const at = 1_700_000_000_000 + from * 1000;
      const rows = Array.from({ length: Math.min(batch, messages - from) }, (_, i) => ({ n: from + i, run: `r_${randomUUID()}`, conversation: `c_${randomUUID()}`, at: at + i * 1000 }));
      const chunks = <T>(items: T[]) => Array.from({ length: Math.ceil(items.length / 100) }, (_, i) => items.slice(i * 100, (i + 1) * 100));
      for (const part of chunks(rows)) {
        await tx
          .insertInto('conversations')
          .values(
            part.map((r) => ({ id: r.conversation, platform: 'console', tenant: 'test', channel: 'C_OPS', thread: `old${r.n}`, person: '', audience: 'group', language: null, seen_through: null, last_post_at: r.at, created_at: r.at })),
          )
          .execute();
        await tx
          .insertInto('runs')
          .values(
            part.map((r) => ({
              id: r.run,
              conversation_id: r.conversation,
              lane: r.conversation,
              status: 'completed',
              version: stepsEach,
              head: '',
              owner: null,
              lease_until: null,
              recoveries: 0,
              trigger_kind: 'mention',
              message_key: `old:${r.n}`,
              asker: 'console:test:lin',
              input_tokens: 9,
              output_tokens: 2,
              delivery: 'delivered',
              created_at: r.at,
              started_at: r.at,
              ended_at: r.at,
            })),
          )
          .execute();
        await tx
          .insertInto('inbox')
          .values(part.map((r) => ({ platform: 'console', app: 'test', message_key: `old:${r.n}`, received_at: r.at, outcome: 'started', reason: null, run_id: r.run, raw: null })))
          .execute();
        await tx
          .insertInto('outbox')
          .values(
            part.map((r) => ({
              key: `${r.run}/answer`,
              platform: 'console',
              tenant: 'test',
              channel: 'C_OPS',
              conversation_id: r.conversation,
              run_id: r.run,
              interaction_id: null,
              kind: 'answer',
              priority: 2,
              level: 0,
              body: '{}',
              replaces_key: null,
              state: 'sent',
              attempts: 1,
              repeats: 0,
              attempt_at: null,
              next_attempt_at: r.at,
              owner: null,
              lease_until: null,
              parts: '[]',
              error: null,
              created_at: r.at,
              settled_at: r.at,
            })),
          )
          .execute();
        const steps = part.flatMap((r) =>
          Array.from({ length: stepsEach }, (_, i) => ({
            run_id: r.run,
            seq: i + 1,
            type: 'model_requested',
            data: '{"attempt":1,"promptSha":"","parts":{"fixed":0,"pinned":0,"memory":0,"summary":0,"newest":0}}',
            v: 1,
            at: r.at,
            salt: '',
            mac: '',
            hash: '',
          })),
        );
        await tx.insertInto('steps').values(steps).execute();
      }
    });
  }
}
