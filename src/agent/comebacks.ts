/** What follows when a message was settled: a question that nobody can see, an answer that did not arrive, a post whose fate is unknown. */
import type { Settled } from '../adapters/delivery.ts';
import type { Adapter, Language, OutboundMessage, Place } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { findOrCreateConversation } from '../store/conversations.ts';
import { insertOutbox } from '../store/outbox.ts';
import type { Tx } from '../store/schema.ts';
import { type Texts, textsFor } from '../texts.ts';
import { callKey } from './messages.ts';
import { loadRun } from './recorder.ts';

export type ComebackDeps = {
  readonly clock: Clock;
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  readonly languageFor: (place: Place) => Language;
};

/** Looks up what it needs first, and answers what to write in the transaction that settles the row: a process that dies in between tells nobody less. */
export function createComebacks(deps: ComebackDeps): (settled: Settled) => Promise<(tx: Tx) => Promise<void>> {
  return async (settled) => {
    const { kind } = settled.row;
    const where = `#${await channelName(deps, settled.row)}`;
    if (kind === 'group_message') return (tx) => tellRun(deps, tx, settled, where);
    if (kind === 'answer' || kind === 'report') return (tx) => tellAsker(deps, tx, settled, where);
    return async () => {};
  };
}

/** In the thread of the run. What the run itself reads as the result of its call needs no second word, except where a person has to look. */
async function tellRun(deps: ComebackDeps, tx: Tx, settled: Settled, where: string): Promise<void> {
  const { row, state } = settled;
  const loaded = row.run_id === null ? undefined : await loadRun(tx, row.run_id);
  if (!loaded) return;
  const wasQueued = loaded.run.results[row.key.slice(callKey(loaded.run.id, '').length)]?.ok === true;
  const { place } = loaded.run;
  if (state === 'unknown' || wasQueued) await tell(deps, tx, settled, { conversationId: loaded.row.conversation_id, place, language: deps.languageFor(place), where });
}

/** By another way than the one that failed: a direct message. */
async function tellAsker(deps: ComebackDeps, tx: Tx, settled: Settled, where: string): Promise<void> {
  const loaded = settled.row.run_id === null ? undefined : await loadRun(tx, settled.row.run_id);
  if (!loaded) return;
  const direct = deps.adapterOf(loaded.run.place)?.directPlace?.(loaded.run.asker);
  if (!direct || direct.channel === loaded.run.place.channel) return;
  const { id: conversationId, language } = await findOrCreateConversation(tx, direct, deps.clock.now());
  await tell(deps, tx, settled, { conversationId, place: direct, language: (language as Language | null) ?? deps.languageFor(loaded.run.place), where });
}

type Told = { readonly conversationId: string; readonly place: Place; readonly language: Language; readonly where: string };

async function tell(deps: ComebackDeps, tx: Tx, settled: Settled, { conversationId, place, language, where }: Told): Promise<void> {
  const message: OutboundMessage = { key: `${settled.row.key}/told`, place, language, markdown: sentence(textsFor(language), settled, where) };
  await insertOutbox(tx, { kind: 'notice', message }, conversationId, deps.clock.now());
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
