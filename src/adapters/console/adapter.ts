/** The console as a platform like any other: what the outbox calls. */
import { type Clock, iso } from '../../clock.ts';
import { PlatformError } from '../../errors.ts';
import { splitMessage } from '../shared/split.ts';
import type { Adapter, Capabilities, ChannelRef, HistoryLine, OutboundMessage, Place } from '../types.ts';
import type { Changes } from './changes.ts';
import type { Intake } from './intake.ts';
import { readText } from './parse.ts';
import { botUser, directUser, personOf, placeIn, userOf } from './parse-ids.ts';
import type { ConsoleBody, ConsoleMessage, ConsolePost, ConsoleStorage, Spot } from './types.ts';

type Deps = { readonly storage: ConsoleStorage; readonly clock: Clock; readonly channels: readonly ChannelRef[]; readonly newId: () => string; readonly intake: Intake; readonly changes: Changes };

const can: Capabilities = {
  threads: true,
  buttons: true,
  editing: true,
  settleLater: true,
  privateNotice: true,
  progress: true,
  history: true,
  unmentionedMessages: true,
  idempotentSend: true,
  askWhetherSent: true,
  lengthUnit: 'utf16',
  lengthLimit: 4000,
  paceMs: 0,
};

export function createAdapter(deps: Deps): Adapter {
  const { storage, clock, intake, changes } = deps;
  let since: number | undefined;
  let lastSent: number | undefined;
  const stood = (spot: Spot | undefined, place: Place): { platformMessageId: string } => {
    if (!spot) throw new PlatformError('channel_not_found', `the console has no channel ${place.channel}`, { outcome: 'refused' });
    changes.tell(spot);
    return { platformMessageId: spot.messageId };
  };
  return {
    platform: 'console',
    tenant: 'local',
    can,
    async start(submit) {
      await storage.addChannels(deps.channels, clock.now());
      since = clock.now();
      await intake.start(submit);
    },
    split: (message) => splitMessage(message, { limit: can.lengthLimit, unit: can.lengthUnit }),
    async send(part, live) {
      const sent = stood(await storage.post({ ...postAt(deps, part.place, part.key, part.markdown), body: bodyOf(part), ...(part.quote === undefined ? {} : { quote: part.quote }) }, live?.platformMessageId), part.place);
      lastSent = clock.now();
      return sent;
    },
    async progress(place, state, live) {
      return stood(await storage.showProgress(postAt(deps, place, state.key, state.text), live?.platformMessageId), place);
    },
    async closeProgress(_place, live) {
      const spot = await storage.closeProgress(live.platformMessageId);
      if (spot) changes.tell(spot);
    },
    async wasSent(key) {
      const post = await storage.findPost(key);
      return post?.deleted === false ? post.messageId : undefined;
    },
    async history(place, after, limit) {
      const rows = await storage.list({ channel: place.channel, thread: place.thread, ...(after === undefined ? {} : { after }), limit, progress: false });
      const root = after !== undefined || place.thread === '' || rows.some((row) => row.messageId === place.thread) ? undefined : await storage.read(place.thread);
      return [...(root && !root.deleted ? [root] : []), ...rows].map(historyLine);
    },
    async isMember(person, channel) {
      const user = userOf(person);
      return user !== undefined && !person.isBot && (directUser(channel) ?? user) === user;
    },
    async findChannels(nameOrId) {
      const wanted = [nameOrId, nameOrId.replace(/^#/, '')];
      return (await storage.channels()).filter(({ id, name }) => wanted.includes(id) || wanted.includes(name));
    },
    directPlace: (person) => placeIn(`@${userOf(person) ?? person.id}`, ''),
    health() {
      const lastEventAt = intake.lastEventAt();
      return {
        connected: since !== undefined,
        ...(since === undefined ? { problem: 'not started' } : { since: iso(since) }),
        ...(lastEventAt === undefined ? {} : { lastEventAt }),
        ...(lastSent === undefined ? {} : { lastSentAt: iso(lastSent) }),
      };
    },
    async stop() {
      since = undefined;
      intake.stop();
    },
  };
}

/** On the main level of a group a message opens a thread under itself. */
function postAt(deps: Deps, place: Place, key: string, text: string): ConsolePost {
  const messageId = deps.newId();
  const thread = place.audience === 'direct' ? '' : place.thread || messageId;
  return { messageId, channel: place.channel, thread, text: text.toWellFormed().replaceAll('\0', '\ufffd'), body: {}, key, at: deps.clock.now() };
}

function bodyOf({ buttons, input, files, replacesKey }: OutboundMessage): ConsoleBody {
  return {
    ...(buttons ? { buttons } : {}),
    ...(input ? { input } : {}),
    ...(files ? { files } : {}),
    ...(replacesKey !== undefined && !buttons && !input ? { settled: true } : {}),
  };
}

function historyLine(row: ConsoleMessage): HistoryLine {
  const ours = row.author === botUser;
  const text = ours ? row.text : readText(row.text).text || row.text;
  return { messageId: row.messageId, by: personOf(row.author), text, at: iso(row.at), ours };
}
