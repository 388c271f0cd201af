/** The door for everything that people do. One transaction takes the event and does what follows from it; only then may the adapter acknowledge. */
import { label } from '../adapters/shared/visible.ts';
import type { Adapter, IncomingEvent, IncomingMessage, InteractionReply, Language, MessageChange, OutboxKind, Place, Receipt } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { NotFoundError, RunConflictError, StoreError } from '../errors.ts';
import { type Conversation, findOrCreateConversation, setLanguage } from '../store/conversations.ts';
import { newId } from '../store/ids.ts';
import { claimMessage, type InboxRow, settleMessage } from '../store/inbox.ts';
import { interactionByCode, readInteraction } from '../store/interactions.ts';
import { insertOutbox } from '../store/outbox.ts';
import { activeRuns, insertRun, runOfMessage } from '../store/runs.ts';
import type { Tx } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { languageOf, type Texts, textsFor } from '../texts.ts';
import { mayAsk } from '../tools/policy.ts';
import { type FollowUp, gatherFacts } from './facts.ts';
import { pressInteraction } from './press.ts';
import { loadRun, record } from './recorder.ts';
import { type Route, route, textOf } from './route.ts';
import { authorOfWaiting, decide, emptyRun } from './run.ts';
import type { Limits, Run } from './types.ts';

export type InboxDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly clean: <T>(value: T) => T;
  readonly limits: Limits;
  readonly queueLimit: number;
  readonly followUp: FollowUp;
  readonly onEdit: 'post' | 'suppress';
  readonly onDelete: 'post' | 'suppress';
  readonly operators: readonly string[];
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  readonly languageFor: (place: Place) => Language;
  /** After the commit: runs may be queued, these runs were moved, messages may wait. */
  readonly wake: (movedRuns: readonly string[]) => void;
  /** The event could not be stored; people are told directly, once. */
  readonly refusedByStorage: (place: Place, language: Language) => void;
};

export type Inbox = { accept(event: IncomingEvent): Promise<Receipt>; stopRun(runId: string, by: string): Promise<'stopped' | 'ended' | 'not_found'> };

/** What one event did; collected inside the transaction. */
export type Doing = { readonly tx: Tx; readonly at: number; readonly moved: string[] };
type Taken = Doing & { readonly message: IncomingMessage; readonly row: InboxRow; readonly conversation: Conversation; readonly texts: Texts; readonly language: Language };

const conflictsEndured = 20;

export function createInbox(deps: InboxDeps): Inbox {
  return {
    async accept(event) {
      const cleaned = deps.clean(event);
      switch (cleaned.type) {
        case 'message':
          return atomically(deps, cleaned.place, (doing) => takeMessage(deps, doing, cleaned));
        case 'reply':
          return atomically(deps, undefined, (doing) => takeReply(deps, doing, cleaned));
        case 'change':
          return atomically(deps, cleaned.place, (doing) => takeChange(deps, doing, cleaned));
      }
    },
    async stopRun(runId, by) {
      const loaded = await loadRun(deps.store.db, runId);
      if (!loaded) return 'not_found';
      if (loaded.run.ending) return 'ended';
      await atomically(deps, loaded.run.place, async (doing) => {
        await cancelRun(deps, doing, runId, { id: by, isBot: false, external: false });
        return { state: 'accepted' };
      });
      return 'stopped';
    },
  };
}

/** Again when a run was moved by its driver in between; a StoreError reaches the adapter, which then does not acknowledge. */
async function atomically(deps: InboxDeps, place: Place | undefined, work: (doing: Doing) => Promise<Receipt>): Promise<Receipt> {
  for (let conflicts = 0; ; conflicts++) {
    const moved: string[] = [];
    try {
      const receipt = await deps.store.transact((tx) => work({ tx, at: deps.clock.now(), moved }), { durable: place === undefined });
      deps.wake(moved);
      return receipt;
    } catch (error) {
      if (error instanceof RunConflictError && conflicts < conflictsEndured) continue;
      if (error instanceof StoreError && place) deps.refusedByStorage(place, deps.languageFor(place));
      throw error;
    }
  }
}

// ---------------------------------------------------------------- messages

async function takeMessage(deps: InboxDeps, doing: Doing, message: IncomingMessage): Promise<Receipt> {
  const { platform, tenant } = message.place;
  const row: InboxRow = { platform, app: tenant, messageKey: message.key, at: doing.at };
  if (!(await claimMessage(doing.tx, row))) return { state: 'duplicate' };
  const adapter = deps.adapterOf(message.place);
  const facts = await gatherFacts(doing.tx, message, { threads: adapter?.can.threads ?? true, followUp: deps.followUp, now: doing.at, mayAsk: mayAsk(message.author) });
  const decision = route(facts.route);
  if (decision.to === 'ignore') {
    await settleMessage(doing.tx, row, { outcome: 'ignored', reason: decision.reason });
    return { state: 'accepted' };
  }
  const conversation = facts.conversation ?? (await findOrCreateConversation(doing.tx, facts.place, doing.at, facts.person));
  const language = await languageIn(deps, doing.tx, conversation, message);
  return follow(deps, { ...doing, message, row, conversation, language, texts: textsFor(language) }, decision);
}

/** A direct chat speaks the person's last language, a group its own. */
async function languageIn(deps: InboxDeps, tx: Tx, conversation: Conversation, message: IncomingMessage): Promise<Language> {
  if (message.place.audience !== 'direct') return deps.languageFor(message.place);
  const text = textOf(message.content);
  const language = text.trim() ? languageOf(text) : ((conversation.language as Language | null) ?? deps.languageFor(message.place));
  if (language !== conversation.language) await setLanguage(tx, conversation.id, language);
  return language;
}

async function follow(deps: InboxDeps, taken: Taken, decision: Exclude<Route, { to: 'ignore' }>): Promise<Receipt> {
  switch (decision.to) {
    case 'command':
      return decision.command === 'stop' ? stopHere(deps, taken) : say(taken, 'command', 'help', taken.texts.help);
    case 'help':
      return say(taken, 'command', 'help', taken.texts.help);
    case 'decision':
      return decideByText(deps, taken, decision);
    case 'which_question':
      return whichQuestion(taken, decision.interactionIds);
    case 'answer':
      return answerQuestion(deps, taken, decision);
    case 'join':
      return joinRun(deps, taken, decision.runId);
    case 'start':
      return startRun(deps, taken);
  }
}

/** A line of ours in reply to a message, posted like any other. */
async function say(taken: Taken, outcome: 'command' | 'refused' | 'decided' | 'answered', reason: string, markdown: string, kind: OutboxKind = 'receipt'): Promise<Receipt> {
  await settleMessage(taken.tx, taken.row, { outcome, reason });
  await line(taken, `${taken.message.key}/${reason}`, markdown, kind);
  return { state: 'accepted', notice: markdown };
}

async function line(taken: Taken, key: string, markdown: string, kind: OutboxKind): Promise<void> {
  const { message, conversation, language } = taken;
  await insertOutbox(taken.tx, { kind, message: { key, place: message.place, language, markdown, quote: messageIdOf(message) } }, conversation.id, taken.at);
}

const messageIdOf = (message: IncomingMessage): string => message.key.split(':').at(-1) ?? message.key;

async function startRun(deps: InboxDeps, taken: Taken): Promise<Receipt> {
  const { tx, message, conversation, at } = taken;
  const active = await activeRuns(tx, conversation.id);
  if (active.filter((run) => run.status === 'queued' && run.asker === message.author.id).length >= deps.queueLimit) return say(taken, 'refused', 'queue_full', taken.texts.queueFull(deps.queueLimit));
  const id = newId('r', at);
  await insertRun(tx, { id, conversationId: conversation.id, lane: conversation.id, triggerKind: 'mention', messageKey: message.key, asker: message.author.id, at }, deps.store.dialect);
  const steps = decide(emptyRun(id), {
    kind: 'start',
    at,
    by: message.author,
    trigger: { kind: 'mention', messageKey: message.key },
    place: message.place,
    content: message.content,
    ...(message.quoted ? { quoted: message.quoted } : {}),
    limits: deps.limits,
  });
  await record(tx, deps.store.dialect, { run: emptyRun(id), conversationId: conversation.id, language: taken.language, steps, at });
  await settleMessage(tx, taken.row, { outcome: 'started', runId: id, raw: message.raw });
  const ahead = active.filter((run) => run.status !== 'suspended').length;
  if (ahead > 0) await line(taken, `${message.key}/queued`, taken.texts.queued(ahead), 'receipt');
  return { state: 'accepted' };
}

async function joinRun(deps: InboxDeps, taken: Taken, runId: string): Promise<Receipt> {
  const { tx, message, at } = taken;
  const loaded = await loadRun(tx, runId);
  const steps = loaded ? decide(loaded.run, { kind: 'add_message', at, by: message.author, messageKey: message.key, content: message.content }) : [];
  if (!loaded || steps.length === 0) return startRun(deps, taken);
  await record(tx, deps.store.dialect, { run: loaded.run, conversationId: loaded.row.conversation_id, language: taken.language, steps, at });
  await settleMessage(tx, taken.row, { outcome: 'joined', runId, raw: message.raw });
  await line(taken, `${message.key}/joined`, taken.texts.joined, 'receipt');
  taken.moved.push(runId);
  return { state: 'accepted', notice: taken.texts.joined };
}

// ---------------------------------------------------------------- stop

async function stopHere(deps: InboxDeps, taken: Taken): Promise<Receipt> {
  const { message, conversation } = taken;
  const active = await activeRuns(taken.tx, conversation.id);
  const isOperator = deps.operators.includes(message.author.id);
  const stoppable = active.filter((run) => isOperator || run.asker === message.author.id);
  if (stoppable.length === 0) return say(taken, 'refused', 'nothing_to_stop', active.length > 0 ? taken.texts.notYoursToStop : taken.texts.nothingToStop);
  for (const run of stoppable) await cancelRun(deps, taken, run.id, message.author, taken.language);
  await settleMessage(taken.tx, taken.row, { outcome: 'command', reason: 'stop' });
  return { state: 'accepted' };
}

async function cancelRun(deps: InboxDeps, doing: Doing, runId: string, by: Run['asker'], language?: Language, reason: 'asked' | 'withdrawn' = 'asked'): Promise<void> {
  const loaded = await loadRun(doing.tx, runId);
  const steps = loaded ? decide(loaded.run, { kind: 'cancel', at: doing.at, by, reason }) : [];
  if (!loaded || steps.length === 0) return;
  await record(doing.tx, deps.store.dialect, { run: loaded.run, conversationId: loaded.row.conversation_id, language: language ?? deps.languageFor(loaded.run.place), steps, at: doing.at });
  doing.moved.push(runId);
}

// ---------------------------------------------------------------- answers and decisions

async function answerQuestion(deps: InboxDeps, taken: Taken, decision: Extract<Route, { to: 'answer' }>): Promise<Receipt> {
  const row = await readInteraction(taken.tx, decision.interactionId);
  if (!row) throw new NotFoundError(`interaction ${decision.interactionId} does not exist`);
  const pressed = await pressInteraction(deps, taken, { row, by: taken.message.author, text: decision.text });
  // A question that expired in the meantime: the words are a new request.
  if (pressed.state === 'expired' || pressed.state === 'already_decided') return startRun(deps, taken);
  await settleMessage(taken.tx, taken.row, { outcome: 'answered', ...(row.run_id ? { runId: row.run_id } : {}), raw: taken.message.raw });
  return pressed;
}

async function decideByText(deps: InboxDeps, taken: Taken, decision: Extract<Route, { to: 'decision' }>): Promise<Receipt> {
  const { message, texts, conversation } = taken;
  const row = await interactionByCode(taken.tx, message.place, decision.code);
  if (row?.kind !== 'approval') return say(taken, 'decided', 'no_such_request', texts.noSuchRequest(decision.code));
  const reply = { row, by: message.author, choice: decision.choice, ...(decision.reason ? { reason: decision.reason } : {}) };
  const pressed = await pressInteraction(deps, taken, reply);
  // A stranger's attempt is nobody else's business, where the platform can tell that person alone.
  const isPrivate = pressed.state === 'not_entitled' && deps.adapterOf(message.place)?.can.privateNotice === true;
  if (isPrivate) {
    await settleMessage(taken.tx, taken.row, { outcome: 'refused', reason: pressed.state });
    return pressed;
  }
  if (pressed.state !== 'accepted' && pressed.notice) return { ...(await say(taken, 'decided', pressed.state, pressed.notice)), state: pressed.state };
  await settleMessage(taken.tx, taken.row, { outcome: 'decided', ...(row.run_id ? { runId: row.run_id } : {}) });
  // The card stands elsewhere, and what it says stays there.
  const receipt = texts.settled[decision.choice === 'approve' ? 'approved' : 'declined']({ by: label(message.author), value: '' });
  if (pressed.card && row.conversation_id !== conversation.id) await line(taken, `${message.key}/decided`, receipt, 'receipt');
  return pressed;
}

/** Names the questions to this person; others in the thread are none of their business. */
async function whichQuestion(taken: Taken, ids: readonly string[]): Promise<Receipt> {
  const rows = await taken.tx.selectFrom('interactions').select(['code', 'body']).where('id', 'in', ids).orderBy('created_at').orderBy('id').execute();
  const list = rows.map((row) => `- \`${row.code}\` ${(JSON.parse(row.body) as { question: string }).question}`).join('\n');
  return say(taken, 'answered', 'which_question', taken.texts.whichQuestion(list));
}

async function takeReply(deps: InboxDeps, doing: Doing, reply: InteractionReply): Promise<Receipt> {
  const row = await readInteraction(doing.tx, reply.interactionId);
  if (!row) return { state: 'unknown', notice: textsFor('en').noSuchRequest(reply.interactionId) };
  return pressInteraction(deps, doing, { row, by: reply.by, ...(reply.choice === undefined ? {} : { choice: reply.choice }), ...(reply.text === undefined ? {} : { text: reply.text }) });
}

// ---------------------------------------------------------------- edits and deletions

async function takeChange(deps: InboxDeps, doing: Doing, change: MessageChange): Promise<Receipt> {
  const row: InboxRow = { platform: change.place.platform, app: change.place.tenant, messageKey: change.key, at: doing.at };
  if (!(await claimMessage(doing.tx, row))) return { state: 'duplicate' };
  const run = await runOfChanged(doing.tx, change.of);
  const done = run ? await changeRun(deps, doing, change, run) : undefined;
  await settleMessage(doing.tx, row, done ? { outcome: 'changed', reason: done, ...(run ? { runId: run } : {}) } : { outcome: 'ignored', reason: 'no run waits for this message' });
  return { state: 'accepted' };
}

async function runOfChanged(tx: Tx, messageKey: string): Promise<string | undefined> {
  const started = await runOfMessage(tx, messageKey);
  if (started) return started.id;
  const joined = await tx.selectFrom('inbox').select('run_id').where('message_key', '=', messageKey).where('outcome', '=', 'joined').executeTakeFirst();
  return joined?.run_id ?? undefined;
}

/** Before the start an edit replaces and a deletion cancels; afterwards the answer is posted, or suppressed as configured. */
async function changeRun(deps: InboxDeps, doing: Doing, change: MessageChange, runId: string): Promise<string | undefined> {
  const loaded = await loadRun(doing.tx, runId);
  if (!loaded || loaded.run.ending) return undefined;
  const { run } = loaded;
  const isWaiting = authorOfWaiting(run, change.of) !== undefined;
  const isTrigger = run.trigger.kind === 'mention' && run.trigger.messageKey === change.of;
  const content = change.kind === 'edited' ? change.content : isTrigger ? undefined : [];
  if (isWaiting && content) {
    const steps = decide(run, { kind: 'edit', at: doing.at, by: change.by, messageKey: change.of, content });
    if (steps.length === 0) return undefined;
    await record(doing.tx, deps.store.dialect, { run, conversationId: loaded.row.conversation_id, language: deps.languageFor(run.place), steps, at: doing.at });
    doing.moved.push(runId);
    return change.kind === 'edited' ? 'replaced' : 'taken back';
  }
  const suppress = change.kind === 'deleted' ? deps.onDelete === 'suppress' || isWaiting : deps.onEdit === 'suppress';
  if (!isTrigger || !suppress) return undefined;
  await cancelRun(deps, doing, runId, change.by, undefined, 'withdrawn');
  return 'cancelled';
}
