/** What follows when a message was settled: a question that nobody can see, an answer that did not arrive, a post whose fate is unknown. */
import type { Settled } from '../adapters/delivery.ts';
import type { Adapter, Language, OutboundMessage, Place } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { findOrCreateConversation } from '../store/conversations.ts';
import { insertOutbox } from '../store/outbox.ts';
import type { Store } from '../store/store.ts';
import { type Texts, textsFor } from '../texts.ts';
import { loadRun } from './recorder.ts';

export type ComebackDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  readonly languageFor: (place: Place) => Language;
  /** Its time begins, or nobody will ever see it. */
  readonly questionSettled: () => void;
  readonly wake: () => void;
};

export function createComebacks(deps: ComebackDeps): (settled: Settled) => Promise<void> {
  return async (settled) => {
    const { row, state } = settled;
    if (row.kind === 'question') deps.questionSettled();
    if (state === 'sent' || state === 'withdrawn') return;
    if (row.kind === 'group_message') await tellRun(deps, settled);
    if (row.kind === 'answer' || row.kind === 'report') await tellAsker(deps, settled);
  };
}

/** In the thread of the run, unless the run is at work and reads it as the result of its call. */
async function tellRun(deps: ComebackDeps, settled: Settled): Promise<void> {
  const loaded = settled.row.run_id === null ? undefined : await loadRun(deps.store.db, settled.row.run_id);
  if (!loaded || (loaded.row.status === 'running' && settled.state !== 'unknown')) return;
  await post(deps, settled, { conversationId: loaded.row.conversation_id, place: loaded.run.place });
}

/** By another way than the one that failed: a direct message. */
async function tellAsker(deps: ComebackDeps, settled: Settled): Promise<void> {
  const loaded = settled.row.run_id === null ? undefined : await loadRun(deps.store.db, settled.row.run_id);
  if (!loaded) return;
  const direct = deps.adapterOf(loaded.run.place)?.directPlace?.(loaded.run.asker);
  if (!direct || direct.channel === loaded.run.place.channel) return;
  const conversation = await deps.store.transact((tx) => findOrCreateConversation(tx, direct, deps.clock.now()));
  await post(deps, settled, { conversationId: conversation.id, place: direct });
}

async function post(deps: ComebackDeps, settled: Settled, to: { conversationId: string; place: Place }): Promise<void> {
  const language = deps.languageFor(to.place);
  const message: OutboundMessage = { key: `${settled.row.key}/told`, place: to.place, language, markdown: sentence(textsFor(language), settled) };
  await deps.store.transact((tx) => insertOutbox(tx, { kind: 'notice', message }, to.conversationId, deps.clock.now()));
  deps.wake();
}

function sentence(texts: Texts, { row, state, error }: Settled): string {
  const where = `#${row.channel}`;
  return state === 'unknown' ? texts.unknownDelivery(where) : texts.deliveryFailed(where, (error ?? '').split(':')[0] ?? '');
}
