/** What follows when a message was settled: a question that nobody can see, an answer that did not arrive, a post whose fate is unknown. */
import type { Settled } from '../adapters/delivery.ts';
import type { Adapter, Language, OutboundMessage, Place } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { findOrCreateConversation } from '../store/conversations.ts';
import { insertOutbox } from '../store/outbox.ts';
import type { Store } from '../store/store.ts';
import { type Texts, textsFor } from '../texts.ts';
import { callKey } from './messages.ts';
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

/** In the thread of the run. What the run itself reads as the result of its call needs no second word, except where a person has to look. */
async function tellRun(deps: ComebackDeps, settled: Settled): Promise<void> {
  const { row, state } = settled;
  const loaded = row.run_id === null ? undefined : await loadRun(deps.store.db, row.run_id);
  if (!loaded) return;
  const wasQueued = loaded.run.results[row.key.slice(callKey(loaded.run.id, '').length)]?.ok === true;
  if (state === 'unknown' || wasQueued) await post(deps, settled, { conversationId: loaded.row.conversation_id, place: loaded.run.place, language: deps.languageFor(loaded.run.place) });
}

/** By another way than the one that failed: a direct message. */
async function tellAsker(deps: ComebackDeps, settled: Settled): Promise<void> {
  const loaded = settled.row.run_id === null ? undefined : await loadRun(deps.store.db, settled.row.run_id);
  if (!loaded) return;
  const direct = deps.adapterOf(loaded.run.place)?.directPlace?.(loaded.run.asker);
  if (!direct || direct.channel === loaded.run.place.channel) return;
  const { id: conversationId, language } = await deps.store.transact((tx) => findOrCreateConversation(tx, direct, deps.clock.now()));
  await post(deps, settled, { conversationId, place: direct, language: (language as Language | null) ?? deps.languageFor(loaded.run.place) });
}

type Told = { readonly conversationId: string; readonly place: Place; readonly language: Language };

async function post(deps: ComebackDeps, settled: Settled, { conversationId, place, language }: Told): Promise<void> {
  const markdown = sentence(textsFor(language), settled, `#${await channelName(deps, settled.row)}`);
  const message: OutboundMessage = { key: `${settled.row.key}/told`, place, language, markdown };
  await deps.store.transact((tx) => insertOutbox(tx, { kind: 'notice', message }, conversationId, deps.clock.now()));
  deps.wake();
}

async function channelName(deps: ComebackDeps, { platform, tenant, channel }: Settled['row']): Promise<string> {
  const found = await deps
    .adapterOf({ platform: platform as Place['platform'], tenant })
    ?.findChannels?.(channel)
    .catch(() => []);
  return found?.find(({ id }) => id === channel)?.name ?? channel;
}

function sentence(texts: Texts, { state, error }: Settled, where: string): string {
  return state === 'unknown' ? texts.unknownDelivery(where) : texts.deliveryFailed(where, (error ?? '').split(':')[0] ?? '');
}
