/** A bot with a group around it: the real store, workers and outbox, a platform in memory, a scripted model. It can be killed and started again. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { Capabilities, IncomingEvent, Receipt } from '../../src/adapters/types.ts';
import { createModel, type ModelPort, type ModelReply } from '../../src/agent/model.ts';
import type { ModelRequest } from '../../src/agent/prompt.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import { type Config, parseConfig } from '../../src/config.ts';
import { ModelError } from '../../src/errors.ts';
import { createHermes, type Hermes } from '../../src/hermes.ts';
import { createLog } from '../../src/log.ts';
import { type CommitHook, openStore, type Store } from '../../src/store/store.ts';
import { clarify } from '../../src/tools/clarify.ts';
import { sendGroupMessage } from '../../src/tools/send-group-message.ts';
import type { AnyTool, ToolDefinition } from '../../src/tools/types.ts';
import type { FakeLlm } from './llm.ts';
import { type FakeConnection, FakePlatform } from './platform.ts';

/** One reply of the model, or what it throws. */
export type Scripted = { readonly text: string } | { readonly calls: readonly { readonly name: string; readonly args: unknown /** In place of `args`, as the model wrote it. */; readonly argsText?: string }[] } | ModelError;
export type Script = (request: ModelRequest, count: number, signal: AbortSignal) => Scripted | Promise<Scripted>;

export type TeamOptions = {
  readonly script?: Script;
  /** In place of a script: the product's own client asks this server over HTTP. */
  readonly llm?: FakeLlm;
  readonly clock?: Clock;
  readonly config?: string;
  readonly tools?: readonly AnyTool[];
  readonly can?: Partial<Capabilities>;
  readonly folder?: string;
  readonly onCommit?: CommitHook;
  readonly waitMs?: number;
};

/** Data that need not outlive a test need no disk either. */
const inMemory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** An empty database, migrated once; each test begins with a copy. */
let template: Promise<Buffer> | undefined;
async function emptyDatabase(): Promise<Buffer> {
  const folder = mkdtempSync(join(inMemory, 'hermes-template-'));
  const path = join(folder, 'hermes.db');
  await (await openStore({ url: `sqlite:${path}`, clock: systemClock })).close();
  const bytes = readFileSync(path);
  rmSync(folder, { recursive: true });
  return bytes;
}

const prompts = { system: { en: 'You are hermes.', zh: '你是 hermes。' }, shas: {} };

/** A tool that cannot be undone, and a list of what it did. */
export function purgeTool(done: string[]): ToolDefinition<{ table: string }> {
  return {
    name: 'purge_records',
    description: 'Purges a table.',
    level: 2,
    args: z.object({ table: z.string() }),
    retrySafe: false,
    trusted: true,
    async execute({ table }) {
      done.push(table);
      return { ok: true, content: `Purged ${table}.` };
    },
  };
}

export class Team {
  readonly platform: FakePlatform;
  readonly requests: ModelRequest[] = [];
  readonly logged: string[] = [];
  readonly folder: string;
  readonly clock: Clock;
  /** Read at each start, so that a test may change them while the bot is down. */
  options: TeamOptions;
  private running: { hermes: Hermes; store: Store; connection: FakeConnection } | undefined;
  onCommit: CommitHook | undefined;

  constructor(options: TeamOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    this.folder = options.folder ?? mkdtempSync(join(inMemory, 'hermes-test-'));
    this.onCommit = options.onCommit;
    this.platform = new FakePlatform({ now: () => this.clock.now(), ...(options.can ? { can: options.can } : {}) });
  }

  static async start(options: TeamOptions): Promise<Team> {
    const team = new Team(options);
    await team.start();
    return team;
  }

  get store(): Store {
    if (!this.running) throw new Error('not running');
    return this.running.store;
  }

  get connection(): FakeConnection {
    if (!this.running) throw new Error('not running');
    return this.running.connection;
  }

  get hermes(): Hermes {
    if (!this.running) throw new Error('not running');
    return this.running.hermes;
  }

  async start(): Promise<void> {
    const { clock, folder } = this;
    const config: Config = parseConfig(this.options.config ?? "tools: { level2: [purge_records, send_group_message] }\ngroups: [{ match: '*', send_to: ['*'] }]", { env: {} });
    const path = join(folder, 'hermes.db');
    if (!existsSync(path)) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      template ??= emptyDatabase();
      writeFileSync(path, await template, { mode: 0o600 });
    }
    const store = await openStore({ url: `sqlite:${path}`, clock, onCommit: (phase) => this.onCommit?.(phase), ...(this.options.waitMs === undefined ? {} : { waitMs: this.options.waitMs }) });
    const connection = this.platform.connect();
    const log = createLog({ level: 'warn', redact: (text) => text, write: (line) => void this.logged.push(line) });
    const tools: AnyTool[] = [clarify, sendGroupMessage, ...(this.options.tools ?? [])].filter((tool) => tool.level !== 2 || config.tools.level2.includes(tool.name));
    const hermes = createHermes({ config, clock, log, store, tools, prompts, adapters: [connection.adapter], alone: true, random: this.random, model: this.model() });
    this.running = { hermes, store, connection };
    await hermes.start();
  }

  /** Different at each call, the same in every run of the test. */
  private seed = 7;
  private readonly random = (): number => {
    this.seed = (this.seed * 48_271) % 2_147_483_647;
    return this.seed / 2_147_483_647;
  };

  private model(): ModelPort {
    const { script, llm } = this.options;
    if (llm) return createModel({ baseUrl: llm.url, apiKey: 'test', model: 'fake-model', temperature: 0.2, maxTokens: 1000, timeoutMs: 120_000, extraParams: {}, clock: this.clock });
    return {
      complete: async (request, signal) => {
        this.requests.push(request);
        if (!script) throw new Error('neither a script nor a model server');
        const reply = await raceAbort(Promise.resolve(script(request, this.requests.length, signal)), signal);
        if (reply instanceof ModelError) throw reply;
        const base = { finish: 'stop', usage: { inputTokens: 10, outputTokens: 5 }, model: 'scripted' };
        if ('text' in reply) return { ...base, text: reply.text, calls: [] } satisfies ModelReply;
        return { ...base, text: '', calls: reply.calls.map((call, index) => ({ providerId: `p${index}`, name: call.name, argsText: call.argsText ?? JSON.stringify(call.args) })) };
      },
    };
  }

  async submit(event: IncomingEvent): Promise<Receipt> {
    if (!this.running) throw new Error('not running');
    return this.running.connection.submit(event);
  }

  say(...args: Parameters<FakePlatform['say']>): Promise<Receipt> {
    return this.submit(this.platform.say(...args));
  }

  press(interactionId: string, choice: string, by: Parameters<FakePlatform['say']>[0]): Promise<Receipt> {
    return this.submit({ type: 'reply', key: `press:${interactionId}:${by.id}:${this.platform.nextId()}`, interactionId, by, at: new Date(this.clock.now()).toISOString(), choice });
  }

  /** Buttons that can be pressed now, of the newest card that has this one. */
  button(label: string | RegExp): { interactionId: string; choice: string } {
    const fits = (text: string) => (typeof label === 'string' ? text === label : label.test(text));
    const found = this.platform
      .ours()
      .flatMap((m) => m.buttons ?? [])
      .filter((b) => fits(b.label) || fits(b.choice))
      .at(-1);
    if (!found) throw new Error(`no button ${label}; posted: ${JSON.stringify(this.platform.texts())}`);
    return found;
  }

  /** As kill -9 does it: nothing is tidied up, and nothing of the dead process has any further effect. */
  async kill(): Promise<void> {
    const running = this.running;
    this.running = undefined;
    this.onCommit = undefined;
    if (!running) return;
    running.connection.kill();
    await running.store.close().catch(() => {});
    void running.hermes.stop(0).catch(() => {});
  }

  /** As SIGTERM does it: runs may finish for so long. */
  async stop(drainMs = 5000): Promise<void> {
    const running = this.running;
    if (!running) return;
    await running.hermes.stop(drainMs);
    this.running = undefined;
    await running.store.close();
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return Promise.race([work, new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))]);
}

/** Waits for something to become true, looking after each turn of the event loop; fails with what was wanted. */
export async function until<T>(what: string, look: () => T | Promise<T>, limitMs = 10_000): Promise<NonNullable<T>> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const value = await look();
    if (value) return value as NonNullable<T>;
    if (Date.now() > deadline) throw new Error(`waited ${limitMs} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
