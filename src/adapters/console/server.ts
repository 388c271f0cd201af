/** What the browser may do in the console's chat. */
import { type Clock, iso } from '../../clock.ts';
import { NotFoundError, StoreError } from '../../errors.ts';
import type { Receipt } from '../types.ts';
import type { Changes } from './changes.ts';
import type { Intake } from './intake.ts';
import { changeOf, checkText, mentionsBot } from './parse.ts';
import { ConsoleError, checkAccess, checkChannel, checkUser, directUser, keyOf, messageIdIn, personOf } from './parse-ids.ts';
import type { ConsoleLine, ConsoleMessage, ConsoleServer, ConsoleStorage, MessagesRequest, PostRequest, PressRequest } from './types.ts';

type Deps = { readonly storage: ConsoleStorage; readonly clock: Clock; readonly newId: () => string; readonly intake: Intake; readonly changes: Changes };

const linesByDefault = 2000;
const mostLines = 5000;

export function createServer(deps: Deps): ConsoleServer {
  const { storage, changes } = deps;
  return {
    postMessage: (request) => postMessage(deps, request),
    async editMessage(key, user, text) {
      const message = await ownMessage(deps, key, user);
      if (message.deleted) throw notFound(key);
      await changeMessage(deps, message, text);
    },
    async deleteMessage(key, user) {
      const message = await ownMessage(deps, key, user);
      deps.intake.checkOpen();
      const at = deps.clock.now();
      await storage.remove(message.messageId, at);
      changes.tell(message);
      // Deleted again, it is the same change: the agent takes it once.
      await deps.intake.submit(changeOf(message, { id: 'deleted', kind: 'deleted', at }));
    },
    press: (interactionId, request) => press(deps, interactionId, request),
    messages: (request) => messages(storage, request),
    channels: () => storage.channels(),
    subscribe: (listener) => changes.subscribe(listener),
  };
}

async function postMessage(deps: Deps, request: PostRequest): Promise<{ key: string; thread: string; notice?: string }> {
  const { storage, clock, intake, changes } = deps;
  const author = checkUser(request.user);
  const channel = checkChannel(request.channel);
  checkAccess(channel, author);
  const mention = request.mention === true;
  const text = checkText(request.text, mentionsBot({ ...request, mention, author }));
  intake.checkOpen();
  const root = await findIn(storage, 'thread', channel, request.thread);
  const quoted = await findIn(storage, 'quote', channel, request.quote);
  const isDirect = directUser(channel) !== undefined;
  if (isDirect && root) throw new ConsoleError('invalid', 'thread: a direct chat has no threads; leave it out');
  const messageId = deps.newId();
  const thread = isDirect ? '' : (root?.thread ?? messageId);
  const message = { messageId, channel, thread, author, text, mention, at: clock.now(), ...(quoted ? { quote: quoted.messageId } : {}) };
  await storage.add(message);
  changes.tell(message);
  try {
    const { state, notice } = await intake.hand({ ...message, body: {}, progress: false, deleted: false });
    // Everything else is said in the thread.
    return { key: keyOf(message), thread, ...(state === 'not_entitled' && notice ? { notice } : {}) };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new StoreError(error.code, 'Your message is kept, but the storage does not work at the moment. It is handed on as soon as it does; there is no need to write it again.', { cause: error });
  }
}

/** The message that a request names by id or key; undefined when it names none. A deleted one still names its thread. */
async function findIn(storage: ConsoleStorage, field: 'thread' | 'quote', channel: string, named: string | undefined): Promise<ConsoleMessage | undefined> {
  if (named === undefined || named === '') return undefined;
  const found = await storage.read(messageIdIn(field, named));
  if (found?.channel !== channel || (field === 'quote' && found.deleted)) throw new NotFoundError(`${field}: no such message in ${channel}`);
  return found;
}

async function changeMessage(deps: Deps, message: ConsoleMessage, wanted: string): Promise<void> {
  const at = deps.clock.now();
  const text = checkText(wanted, mentionsBot({ ...message, text: wanted }));
  deps.intake.checkOpen();
  await deps.storage.edit(message.messageId, { text, at });
  deps.changes.tell(message);
  await deps.intake.submit(changeOf({ ...message, text }, { id: deps.newId(), kind: 'edited', at }));
}

async function ownMessage(deps: Deps, key: string, user: string | undefined): Promise<ConsoleMessage> {
  const author = user === undefined ? undefined : checkUser(user);
  const found = await deps.storage.read(messageIdIn('key', key));
  if (!found || (key.includes(':') && key !== keyOf(found)) || found.progress) throw notFound(key);
  const isTheirs = personOf(found.author).isBot ? false : author === undefined || author === found.author;
  if (!isTheirs) throw new ConsoleError('forbidden', `Only ${found.author} can change this message.`);
  return found;
}

const notFound = (key: string): NotFoundError => new NotFoundError(`There is no message ${key}.`);

async function press(deps: Deps, interactionId: string, { user, choice, text }: PressRequest): Promise<Receipt> {
  const by = personOf(checkUser(user));
  if (choice === undefined && text === undefined) throw new ConsoleError('invalid', 'choice: name a choice, or answer with text');
  const answer = { ...(choice === undefined ? {} : { choice }), ...(text === undefined ? {} : { text: checkText(text, choice !== undefined) }) };
  return deps.intake.submit({ type: 'reply', key: `console:local:press:${deps.newId()}`, interactionId, by, at: iso(deps.clock.now()), ...answer });
}

async function messages(storage: ConsoleStorage, request: MessagesRequest): Promise<ConsoleLine[]> {
  const channel = checkChannel(request.channel);
  checkAccess(channel, request.user === undefined ? undefined : checkUser(request.user));
  const limit = Math.min(Math.max(1, request.limit ?? linesByDefault), mostLines);
  const thread = request.thread === undefined || request.thread === '' ? {} : { thread: messageIdIn('thread', request.thread) };
  const rows = await storage.list({ channel, ...thread, limit, progress: true });
  return rows.map(lineOf);
}

function lineOf(row: ConsoleMessage): ConsoleLine {
  const { buttons, input, settled } = row.body;
  return {
    key: keyOf(row),
    thread: row.thread,
    user: row.author,
    text: row.text,
    at: iso(row.at),
    ...(buttons ? { buttons } : {}),
    ...(input ? { input } : {}),
    ...(row.quote === undefined ? {} : { quote: row.quote }),
    ...(row.mention ? { mention: true } : {}),
    ...(row.progress ? { progress: true } : {}),
    ...(settled ? { settled: true } : {}),
    ...(row.editedAt !== undefined && !settled ? { edited: true } : {}),
  };
}
