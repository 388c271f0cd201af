/** What a run knows of its conversation before it begins: earlier lines of people and answers of ours, bounded. */
import { clip, label } from '../adapters/shared/visible.ts';
import type { Adapter, HistoryLine, OutboundMessage, Place } from '../adapters/types.ts';
import { type Clock, iso, sleep } from '../clock.ts';
import type { Log } from '../log.ts';
import { findPost } from '../store/outbox.ts';
import { earlierRuns, readRun } from '../store/runs.ts';
import type { Store } from '../store/store.ts';
import type { Registry } from '../tools/registry.ts';
import { contentText } from './prompt.ts';
import { loadRun } from './recorder.ts';
import type { ContextLine, Run, Step } from './types.ts';

const maxLines = 30;
const maxLineChars = 1500;
const earlierRunsRead = 8;
/** Each source has this long; what comes later is named as failed. */
const sourceMs = 5000;

export type Gatherer = (facts: { run: Run; conversationId: string; signal: AbortSignal }) => Promise<Step>;

export type GatherDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly registry: Registry;
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  readonly promptShas: Readonly<Record<string, string>>;
  /** Secrets out. */
  readonly clean: (text: string) => string;
};

export function createGatherer(deps: GatherDeps): Gatherer {
  return async ({ run, conversationId, signal }) => {
    const failedSources: string[] = [];
    const own = messageIdOf(run);
    const adapter = deps.adapterOf(run.place);
    const wantsHistory = adapter?.can.history && (run.place.thread !== '' || run.place.audience === 'direct');
    // The platform's own thread holds everything, our answers too; where it has none, our record must do.
    const history = wantsHistory && own !== run.place.thread ? await withinTime(deps, signal, adapter?.history?.(run.place, undefined, maxLines + 1), () => failedSources.push('history')) : undefined;
    const lines = await withQuoted(deps, run, bounded(history ? fromHistory(deps, history, own) : await fromRuns(deps, run.id, conversationId)));
    return {
      type: 'context_gathered',
      lines,
      memories: [],
      prompts: deps.promptShas,
      tools: deps.registry.names,
      failedSources,
      tainted: lines.some((line) => line.role === 'person' && line.by !== label(run.asker)),
    };
  };
}

/** The first line says what a thread is about. */
function bounded(lines: readonly ContextLine[]): ContextLine[] {
  const [first, ...rest] = lines;
  if (!first || lines.length <= maxLines) return [...lines];
  return [first, ...rest.slice(1 - maxLines).map((line, index) => (index === 0 ? { ...line, gapBefore: true as const } : line))];
}

/** What the request quotes is among its lines; a post of ours is known by its id alone. */
async function withQuoted(deps: GatherDeps, run: Run, lines: readonly ContextLine[]): Promise<ContextLine[]> {
  const { quoted } = run;
  if (!quoted) return [...lines];
  if (lines.some((line) => line.messageId === quoted.messageId)) return lines.map((line) => (line.messageId === quoted.messageId ? { ...line, quoted: true as const } : line));
  const post = await findPost(deps.store.db, run.place, quoted.messageId);
  const text = quoted.text ?? (post ? await textOfPost(deps, post.outbox_id) : undefined);
  if (text === undefined) return [...lines];
  const by = post ? { role: 'bot' as const, by: 'hermes' } : { role: 'person' as const, by: quoted.by ? label(quoted.by) : 'unknown' };
  return [...lines, { ...by, text: shortened(deps, text), at: '', messageId: quoted.messageId, quoted: true }];
}

async function textOfPost(deps: GatherDeps, outboxId: number): Promise<string | undefined> {
  const row = await deps.store.db.selectFrom('outbox').select('body').where('id', '=', outboxId).executeTakeFirst();
  return row ? (JSON.parse(row.body) as OutboundMessage).markdown : undefined;
}

/** Cleaned before it is cut: half a secret would not be known as one. */
const shortened = (deps: GatherDeps, text: string): string => clip(deps.clean(text), maxLineChars);

function messageIdOf(run: Run): string {
  return run.trigger.kind === 'mention' ? (run.trigger.messageKey.split(':').at(-1) ?? '') : '';
}

async function withinTime<T>(deps: GatherDeps, signal: AbortSignal, source: Promise<T> | undefined, failed: () => void): Promise<T | undefined> {
  if (!source) return undefined;
  const enough = new AbortController();
  const late = sleep(deps.clock, sourceMs, AbortSignal.any([signal, enough.signal])).then(() => undefined);
  try {
    const result = await Promise.race([source, late]);
    if (result === undefined) failed();
    return result;
  } catch (error) {
    deps.log.warn({ error }, 'a source of context failed');
    failed();
    return undefined;
  } finally {
    enough.abort('enough');
  }
}

/** Lines before the message that started the run, and answers of ours since: those of runs it waited for. */
function fromHistory(deps: GatherDeps, history: readonly HistoryLine[], own: string): ContextLine[] {
  const at = history.findIndex((line) => line.messageId === own);
  const earlier = history.filter((line, index) => line.messageId !== own && (at < 0 || index < at || line.ours));
  return earlier.map((line) => ({ role: line.ours ? 'bot' : 'person', by: line.ours ? 'hermes' : label(line.by), text: shortened(deps, line.text), at: line.at, messageId: line.messageId }));
}

/** Questions and answers of earlier runs in this conversation. */
async function fromRuns(deps: GatherDeps, runId: string, conversationId: string): Promise<ContextLine[]> {
  const row = await readRun(deps.store.db, runId);
  const earlier = await earlierRuns(deps.store.db, conversationId, row?.position ?? 0, earlierRunsRead);
  const lines: ContextLine[] = [];
  for (const { id } of earlier.reverse()) {
    const loaded = await loadRun(deps.store.db, id);
    if (loaded) lines.push(...linesOf(deps, loaded.run));
  }
  return lines;
}

function linesOf(deps: GatherDeps, run: Run): ContextLine[] {
  const at = iso(run.lastAt);
  const said = run.transcript.flatMap((entry): ContextLine[] => {
    if (entry.kind === 'person') return [{ role: 'person', by: label(entry.by), text: shortened(deps, contentText(entry.content)), at }];
    return entry.toolCalls.length === 0 && entry.text ? [{ role: 'bot', by: 'hermes', text: shortened(deps, entry.text), at }] : [];
  });
  return said;
}
