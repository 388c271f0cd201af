/** The process: configuration → lock → database → model → agent → adapters → HTTP; stopped in reverse. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createConsole } from './adapters/console/index.ts';
import { createModel, type ModelPort } from './agent/model.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Config, type ConfigSource, loadConfig } from './config.ts';
import { ConfigError, HermesError } from './errors.ts';
import { createHermes, type Hermes } from './hermes.ts';
import { createApp } from './http/app.ts';
import { type Listening, listen } from './http/listen.ts';
import { createLog, type Log } from './log.ts';
import { loadPrompts } from './prompts.ts';
import { createRedactor } from './redact.ts';
import { consoleStorage } from './store/console.ts';
import { takeLock } from './store/lock.ts';
import { openStore, type Store } from './store/store.ts';
import { builtInTools } from './tools/index.ts';
import { unknownTools } from './tools/registry.ts';

/** Everything a stop has to finish within: runs, then what is left in the outbox. A supervisor should wait longer than this. */
const stopWithinMs = 30_000;
const drainMs = 25_000;

export type Server = { readonly port: number; readonly address: string; stop(): Promise<void> };

type Startup = { readonly config: Config; readonly clock: Clock; readonly log: Log; readonly say: (line: string) => void; readonly signal: AbortSignal };

/** Runs until a signal asks it to stop; answers the exit code. */
export async function runServer(source: ConfigSource): Promise<number> {
  process.umask(0o077);
  const stopping = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => (stopping.signal.aborted ? process.exit(1) : stopping.abort(name)));
  try {
    const config = withDemoGroups(loadConfig(source), source.env.LC_ALL || source.env.LANG || '');
    const log = createLog({ level: config.logging.level, redact: createRedactor(config.secrets).text });
    const server = await startServer({ config, clock: systemClock, log, say: (line) => console.log(line), signal: stopping.signal });
    if (!server) return 0;
    if (!stopping.signal.aborted) await new Promise((resolve) => stopping.signal.addEventListener('abort', resolve, { once: true }));
    const late = setTimeout(() => process.exit(1), stopWithinMs);
    await server.stop();
    clearTimeout(late);
    return 0;
  } catch (error) {
    if (!(error instanceof HermesError)) throw error;
    console.error(`hermes cannot start: ${error.message}`);
    return 1;
  }
}

/** Undefined when it was asked to stop while it stood by. */
export async function startServer(startup: Startup): Promise<Server | undefined> {
  const { config, clock, log, say } = startup;
  mustBeGuarded(config);
  const lock = await takeLock(config.dataDir, {
    clock,
    signal: startup.signal,
    waiting: () => say(`Another hermes uses ${config.dataDir}; this one stands by and takes over when that one ends. / 另一个 hermes 正在使用 ${config.dataDir}，本进程待命，随后接管。`),
  });
  if (!lock) return undefined;
  const undo: (() => unknown)[] = [() => lock.release()];
  try {
    const store = await openStore({ url: config.databaseUrl, clock, warn: (message) => log.warn({}, message) });
    undo.push(() => store.close());
    const model = await modelFor(config, clock, undo);
    const localToken = randomBytes(24).toString('base64url');
    const { hermes, app } = await assemble({ config, clock, log, store, model, localToken });
    undo.push(() => hermes.stop(drainMs));
    await hermes.start();
    const listening = await listen(app, config.server);
    undo.push(() => listening.close());
    lock.announce({ address: addressOf(config, listening), token: localToken });
    announce(startup, listening);
    return { port: listening.port, address: addressOf(config, listening), stop: () => undoAll(undo) };
  } catch (error) {
    await undoAll(undo);
    throw error;
  }
}

async function undoAll(undo: (() => unknown)[]): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

async function assemble(parts: { config: Config; clock: Clock; log: Log; store: Store; model: ModelPort; localToken: string }): Promise<{ hermes: Hermes; app: ReturnType<typeof createApp> }> {
  const { config, clock, log, store } = parts;
  const console_ = createConsole({ storage: consoleStorage(store), clock, channels: config.platforms.console.channels.length > 0 ? config.platforms.console.channels : demoChannels });
  const unknown = unknownTools(builtInTools, config.tools);
  if (unknown.length > 0) throw new ConfigError([`tools: there is no tool called ${unknown.join(', ')}; known: ${builtInTools.map((tool) => tool.name).join(', ')}`]);
  const alone = store.dialect === 'sqlite';
  const hermes = createHermes({ ...parts, tools: builtInTools, prompts: await loadPrompts(), adapters: [console_.adapter], alone });
  const app = createApp({
    config,
    clock,
    log,
    store,
    console: console_.server,
    version: versionOf(),
    localToken: parts.localToken,
    stopRun: (runId, by) => hermes.inbox.stopRun(runId, by),
    ready: () => ({ ok: hermes.problems().length === 0, problems: hermes.problems() }),
    connections: () => hermes.connections(),
  });
  return { hermes, app };
}

/** A server of the team, or the demo model when nothing at all is configured. */
async function modelFor(config: Config, clock: Clock, undo: (() => unknown)[]): Promise<ModelPort> {
  const { baseUrl, apiKey, model, temperature, maxTokens, timeoutS, extraParams } = config.models.main;
  const common = { temperature, maxTokens, timeoutMs: timeoutS * 1000, extraParams, clock };
  if (config.demo) {
    const { startDemoModel } = await import('./demo/server.ts');
    const demo = await startDemoModel({ clock });
    undo.push(() => demo.close());
    return createModel({ ...common, baseUrl: demo.baseUrl, apiKey: demo.apiKey, model: demo.model });
  }
  if (model === undefined) throw new ConfigError(['models.main.model: a model server is configured, but no model; set models.main.model or HERMES_MODEL to a name that the server knows']);
  return createModel({ ...common, ...(baseUrl === undefined ? {} : { baseUrl }), apiKey: apiKey ?? 'EMPTY', model });
}

const demoChannels = [
  { id: 'ops', name: 'ops' },
  { id: 'all', name: 'all' },
];

/** Without any configuration the confirmation can be tried too: posting to another group is on, and asks. The locale of the machine chooses the language. */
function withDemoGroups(config: Config, locale: string): Config {
  if (!config.demo || config.source !== 'defaults') return config;
  const level2 = [...new Set([...config.tools.level2, 'send_group_message'])];
  return { ...config, language: locale.startsWith('zh') ? 'zh' : config.language, tools: { ...config.tools, level2 }, groups: [{ match: '*', sendTo: ['*'] }] };
}

/** Whoever reaches the port may use the console, so it is open to other machines only behind a token. */
function mustBeGuarded(config: Config): void {
  const { host, adminToken } = config.server;
  if (adminToken === undefined && !['127.0.0.1', 'localhost', '::1'].includes(host)) {
    throw new ConfigError([`server.host: ${host} can be reached from other machines, and no token guards the console. Set HERMES_ADMIN_TOKEN to a secret of at least 12 characters, or use 127.0.0.1.`]);
  }
}

const addressOf = (config: Config, listening: Listening): string => `http://${config.server.host.includes(':') ? `[${config.server.host}]` : config.server.host}:${listening.port}`;

function announce({ config, say, log }: Startup, listening: Listening): void {
  const address = addressOf(config, listening);
  if (config.demo && config.models.main.model !== undefined)
    say(`The model ${config.models.main.model} is configured, but no server for it: set OPENAI_BASE_URL or OPENAI_API_KEY. / 已配置模型 ${config.models.main.model}，但没有配置模型服务：请设置 OPENAI_BASE_URL 或 OPENAI_API_KEY。`);
  if (config.demo) {
    say(`No model server is configured, so the offline demo model answers. Set OPENAI_BASE_URL and HERMES_MODEL (and OPENAI_API_KEY, if the server wants one) to use a real one.`);
    say('未配置模型服务，由离线演示模型回答。设置 OPENAI_BASE_URL 与 HERMES_MODEL（以及服务需要的 OPENAI_API_KEY）即可使用真实模型。');
  }
  say(`hermes is ready: open ${address} in a browser. / hermes 已就绪：请在浏览器中打开 ${address}`);
  log.info({ address, data: config.dataDir, config: config.source, demo: config.demo }, 'ready');
}

export function versionOf(): string {
  return (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }).version;
}

if (import.meta.main) process.exitCode = await runServer({ env: process.env });
