/** The agent put together: store, tools, workers and adapters around one another. Knows no process, port or signal. */
import { randomUUID } from 'node:crypto';
import { Outbox } from './adapters/outbox.ts';
import type { Adapter, Language, Place, PlatformHealth } from './adapters/types.ts';
import { createCalls } from './agent/calls.ts';
import { createComebacks } from './agent/comebacks.ts';
import { createGatherer } from './agent/context.ts';
import type { DriverDeps } from './agent/driver.ts';
import { createInbox, type Inbox } from './agent/inbox.ts';
import type { ModelPort } from './agent/model.ts';
import { createOutageNotice } from './agent/outage.ts';
import { createProgress } from './agent/progress.ts';
import { Worker } from './agent/worker.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config.ts';
import { messageOf } from './errors.ts';
import { createGroups } from './groups.ts';
import type { Log } from './log.ts';
import type { Prompts } from './prompts.ts';
import { createRedactor } from './redact.ts';
import { Ticker } from './schedules/ticker.ts';
import { memoFor } from './store/memo.ts';
import type { Store } from './store/store.ts';
import { createRegistry } from './tools/registry.ts';
import type { AnyTool } from './tools/types.ts';

export type HermesParts = {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Store;
  readonly model: ModelPort;
  readonly tools: readonly AnyTool[];
  readonly prompts: Prompts;
  readonly adapters: readonly Adapter[];
  /** No other process uses this database: what a dead process held is taken back at once. */
  readonly alone: boolean;
  readonly random?: () => number;
};

export type Hermes = {
  readonly inbox: Inbox;
  start(): Promise<void>;
  /** Intake stops at once; runs may finish for `drainMs`. */
  stop(drainMs: number): Promise<void>;
  connections(): { platform: string; tenant: string; health: PlatformHealth }[];
  /** What is wrong, in sentences; empty when all is well. */
  problems(): string[];
};

const flushMs = 3000;
const maxRecoveries = 2;
const maxModelRetries = 3;

export function createHermes(parts: HermesParts): Hermes {
  const { config, clock, log, store, adapters, random = Math.random } = parts;
  const { agent } = config;
  const owner = `p_${randomUUID()}`;
  const redactor = createRedactor(config.secrets);
  const groups = createGroups(config);
  const registry = createRegistry(parts.tools, config.tools);
  const adapterOf = (place: Pick<Place, 'platform' | 'tenant'>) => adapters.find((a) => a.platform === place.platform && a.tenant === place.tenant);
  const languageFor = (place: Place): Language => groups.of(place).language;
  const tellOutage = createOutageNotice({ store, clock, log, adapterOf });

  const wake = (movedRuns: readonly string[] = []) => {
    for (const id of movedRuns) worker.nudge(id);
    worker.wake();
    outbox.wake();
  };
  const ticker = new Ticker({ store, clock, log, languageFor, wake });
  const outbox = new Outbox({
    store,
    clock,
    log,
    owner,
    clean: redactor.text,
    comeback: createComebacks({ clock, adapterOf, languageFor }),
    adapterOf,
    // The time of a question begins, or nobody will ever see it.
    settled: ({ row }) => row.kind === 'question' && ticker.poke(),
  });
  const progress = createProgress({ clock, enabled: agent.progress, show: (p) => outbox.progress(p), close: (id, conversation) => outbox.endProgress(id, conversation) });
  const calls = createCalls({
    store,
    clock,
    registry,
    level2: config.tools.level2,
    timeoutMs: config.tools.timeoutS * 1000,
    clarifyExpiryMs: agent.clarifyExpiry,
    approvalExpiryMs: agent.approvalExpiry,
    approvalUseWithinMs: agent.approvalUseWithin,
    adapterOf,
    groupOf: (place) => groups.of(place),
    delivered: (key, ms, signal) => outbox.delivered(key, ms, signal),
    redactor,
  });
  const driver: DriverDeps = {
    store,
    clock,
    log,
    model: parts.model,
    calls,
    gather: createGatherer({ store, clock, log, registry, adapterOf, promptShas: parts.prompts.shas, clean: redactor.text }),
    systemPrompt: (language) => parts.prompts.system[language],
    clean: redactor.value,
    random,
    maxRecoveries,
    progress,
    committed: () => outbox.wake(),
    storageFailed: (run, language) => tellOutage(run.place, language),
  };
  const worker = new Worker({ store, clock, log, owner, maxRuns: agent.maxRuns, driver });
  const inbox = createInbox({
    store,
    clock,
    clean: redactor.value,
    limits: { maxTurns: agent.maxTurns, maxToolFailures: agent.maxToolFailures, maxRunMs: agent.maxRunTime, maxModelRetries },
    queueLimit: agent.queueLimit,
    followUp: agent.followUp,
    onEdit: agent.onEdit,
    onDelete: agent.onDelete,
    operators: config.people.operators?.map(fullId) ?? config.people.admins.map(fullId),
    adapterOf,
    languageFor,
    wake,
    refusedByStorage: tellOutage,
  });

  return {
    inbox,
    async start() {
      ticker.poke();
      await worker.start(parts.alone);
      await outbox.start(parts.alone);
      for (const adapter of adapters) await adapter.start(inbox.accept, memoFor(store, `${adapter.platform}:${adapter.tenant}`, clock));
      for (const problem of await groups.resolveNames(adapters)) log.error({ problem }, 'a group in the configuration was not found');
      outbox.wake();
    },
    async stop(drainMs) {
      // A platform that cannot be left in good order must not keep the runs from being handed back.
      const left = await Promise.allSettled(adapters.map((adapter) => adapter.stop()));
      for (const end of left) if (end.status === 'rejected') log.warn({ error: messageOf(end.reason) }, 'a platform could not be left in good order');
      await worker.stop(drainMs);
      await ticker.stop();
      await outbox.stop(flushMs);
    },
    connections: () => adapters.map((adapter) => ({ platform: adapter.platform, tenant: adapter.tenant, health: adapter.health() })),
    problems() {
      const deaf = adapters.filter((adapter) => !adapter.health().connected).map((adapter) => `${adapter.platform} is not connected: ${adapter.health().problem ?? 'not started'}`);
      const degraded = store.degraded();
      return degraded === undefined ? deaf : [`storage: ${degraded}`, ...deaf];
    },
  };
}

/** `console:lin` in the configuration is `console:local:lin` in the record. */
function fullId(id: string): string {
  const [platform = '', ...rest] = id.split(':');
  return rest.length === 1 && platform === 'console' ? `console:local:${rest[0]}` : id;
}
