/** What a run knows of its conversation before it begins: earlier lines of people and answers of ours, bounded. */
import { clip, label } from '../adapters/shared/visible.ts';
import type { Adapter, HistoryLine, Place } from '../adapters/types.ts';
import { type Clock, iso, sleep } from '../clock.ts';
import type { Log } from '../log.ts';
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
};

export function createGatherer(deps: GatherDeps): Gatherer {
  return async ({ run, conversationId, signal }) => {
    const failedSources: string[] = [];
    const own = messageIdOf(run);
    const adapter = deps.adapterOf(run.place);
    const wantsHistory = adapter?.can.history && (run.place.thread !== '' || run.place.audience === 'direct');
    // The platform's own thread holds everything, our answers too; where it has none, our record must do.
    const history = wantsHistory && own !== run.place.thread ? await withinTime(deps, signal, adapter?.history?.(run.place, undefined, maxLines + 1), () => failedSources.push('history')) : undefined;
    const lines = history ? fromHistory(history, own) : await fromRuns(deps, run.id, conversationId);
    return {
      type: 'context_gathered',
      lines: lines.slice(-maxLines),
      memories: [],
      prompts: deps.promptShas,
      tools: deps.registry.names,
      failedSources,
      tainted: lines.some((line) => line.role === 'person' && line.by !== label(run.asker)),
    };
  };
}

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
function fromHistory(history: readonly HistoryLine[], own: string): ContextLine[] {
  const at = history.findIndex((line) => line.messageId === own);
  const earlier = history.filter((line, index) => line.messageId !== own && (at < 0 || index < at || line.ours));
  return earlier.map((line) => ({ role: line.ours ? 'bot' : 'person', by: line.ours ? 'hermes' : label(line.by), text: clip(line.text, maxLineChars), at: line.at, messageId: line.messageId }));
}

/** Questions and answers of earlier runs in this conversation. */
async function fromRuns(deps: GatherDeps, runId: string, conversationId: string): Promise<ContextLine[]> {
  const row = await readRun(deps.store.db, runId);
  const earlier = await earlierRuns(deps.store.db, conversationId, row?.position ?? 0, earlierRunsRead);
  const lines: ContextLine[] = [];
  for (const { id } of earlier.reverse()) {
    const loaded = await loadRun(deps.store.db, id);
    if (loaded) lines.push(...linesOf(loaded.run));
  }
  return lines;
}

function linesOf(run: Run): ContextLine[] {
  const at = iso(run.lastAt);
  const said = run.transcript.flatMap((entry): ContextLine[] => {
    if (entry.kind === 'person') return [{ role: 'person', by: label(entry.by), text: clip(contentText(entry.content), maxLineChars), at }];
    return entry.toolCalls.length === 0 && entry.text ? [{ role: 'bot', by: 'hermes', text: clip(entry.text, maxLineChars), at }] : [];
  });
  return said;
}
