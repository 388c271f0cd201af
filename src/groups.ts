/** Settings of one group: the first entry of `groups` that matches it, else the defaults. */
import type { Adapter, ChannelRef, Place } from './adapters/types.ts';
import type { GroupSettings } from './agent/calls.ts';
import type { Config } from './config.ts';

export type Groups = {
  of(place: Place): GroupSettings;
  /** Looks up the names in `groups[].match`; answers what is wrong with them. */
  resolveNames(adapters: readonly Adapter[]): Promise<string[]>;
};

type Entry = Config['groups'][number];

export function createGroups(config: Pick<Config, 'groups' | 'language' | 'timezone'>): Groups {
  const idsOfName = new Map<string, string>();
  const matches = (entry: Entry, place: Place): boolean => {
    if (entry.match === '*') return true;
    return entry.match === `${place.platform}:${place.channel}` || idsOfName.get(entry.match) === `${place.platform}:${place.channel}`;
  };
  return {
    of(place) {
      const entry = config.groups.find((candidate) => matches(candidate, place));
      return {
        language: entry?.language ?? config.language,
        timezone: entry?.timezone ?? config.timezone,
        maySendTo: (channel) => (entry?.sendTo ?? []).some((target) => isTarget(target, place, channel)),
      };
    },
    async resolveNames(adapters) {
      const problems: string[] = [];
      for (const { match } of config.groups) {
        const name = /^([a-z]+):#(.+)$/.exec(match);
        if (!name) continue;
        const [, platform = '', wanted = ''] = name;
        const found = (await Promise.all(adapters.filter((a) => a.platform === platform).map((a) => a.findChannels?.(wanted) ?? []))).flat();
        const [only] = found;
        if (found.length === 1 && only) idsOfName.set(match, `${platform}:${only.id}`);
        else problems.push(`groups: "${match}" names ${found.length === 0 ? 'no channel that the bot is in' : `${found.length} channels; use the id of one of them`}`);
      }
      return problems;
    },
  };
}

/** A target must be on the asking group's own platform; `*` never reaches a direct chat. */
function isTarget(target: string, place: Place, channel: ChannelRef): boolean {
  return target === '*' || target === `${place.platform}:${channel.id}` || target === `${place.platform}:#${channel.name}`;
}
