/** Storage does not work: people are told once per conversation, directly, since nothing can be put into the outbox. */
import type { Adapter, Language, Place } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import { textsFor } from '../texts.ts';

export type OutageDeps = { readonly store: Store; readonly clock: Clock; readonly log: Log; readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined };

export function createOutageNotice(deps: OutageDeps): (place: Place, language: Language) => void {
  const told = new Set<string>();
  deps.store.onChange((problem) => {
    if (problem === undefined) {
      told.clear();
      deps.log.info({}, 'storage works again');
    } else deps.log.error({ problem }, 'storage does not work; nothing new is accepted until it does');
  });
  return (place, language) => {
    const where = `${place.platform}:${place.tenant}:${place.channel}:${place.thread}`;
    if (told.has(where)) return;
    told.add(where);
    const sent = deps.adapterOf(place)?.send({ key: `outage/${where}/${deps.clock.now()}`, place, language, markdown: textsFor(language).storageDegraded });
    sent?.catch((error: unknown) => deps.log.warn({ where, error: messageOf(error) }, 'people could not be told that storage does not work'));
  };
}
