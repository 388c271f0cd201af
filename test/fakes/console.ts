/** The console on a real database file and a real port; only the agent is a double that records what it is given. */
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConsole } from '../../src/adapters/console/index.ts';
import type { Adapter, IncomingEvent, IncomingMessage, Memo, OutboundMessage, Place, Receipt } from '../../src/adapters/types.ts';
import { type Config, parseConfig } from '../../src/config.ts';
import { createApp } from '../../src/http/app.ts';
import type { HttpDeps } from '../../src/http/deps.ts';
import { listen } from '../../src/http/listen.ts';
import { consoleStorage } from '../../src/store/console.ts';
import { openStore, type Store } from '../../src/store/store.ts';
import { type FakeClock, fakeClock } from './clock.ts';

export type Agent = { readonly events: IncomingEvent[]; answer: (event: IncomingEvent) => Receipt | Promise<Receipt> };

/** Says `accepted` to everything until `answer` is changed. */
const agentDouble = (): Agent => ({ events: [], answer: () => ({ state: 'accepted' }) });

export const messagesOf = (agent: Agent): IncomingMessage[] => agent.events.filter((event) => event.type === 'message');

const noMemo: Memo = { get: async () => undefined, set: async () => {}, delete: async () => {} };
const channels = [
  { id: 'ops', name: 'Ops 运维群' },
  { id: 'all', name: 'All hands' },
];

export async function start(adapter: Adapter, agent: Agent): Promise<void> {
  await adapter.start(async (event) => {
    agent.events.push(event);
    return agent.answer(event);
  }, noMemo);
}

export type OpenConsole = Awaited<ReturnType<typeof openConsole>>;

/** A second one on the same `folder` is the next process. */
export async function openConsole({ folder = mkdtempSync(join(tmpdir(), 'hermes-console-')), clock = fakeClock() }: { folder?: string; clock?: FakeClock } = {}) {
  const store = await openStore({ url: `sqlite:${join(folder, 'hermes.db')}`, clock });
  const storage = consoleStorage(store);
  return {
    ...createConsole({ storage, clock, channels }),
    agent: agentDouble(),
    store,
    storage,
    clock,
    folder,
    close: async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const group = (thread = '', channel = 'ops'): Place => ({ platform: 'console', tenant: 'local', channel, thread, audience: 'group' });

export const outbound = (key: string, markdown: string, more: Partial<OutboundMessage> = {}): OutboundMessage => ({ key, place: group('m1'), language: 'en', markdown, ...more });

export type Web = { readonly url: string; readonly port: number; readonly close: () => Promise<void> };

export async function openWeb(open: Pick<OpenConsole, 'server' | 'adapter' | 'clock'> & { store: Store }, { config = '', ...changed }: Partial<Omit<HttpDeps, 'config'>> & { config?: string } = {}): Promise<Web> {
  const parsed: Config = parseConfig(config, { env: {} });
  const app = createApp({
    config: parsed,
    clock: open.clock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    store: open.store,
    console: open.server,
    version: '0.0.0',
    stopRun: async () => 'not_found',
    ready: () => ({ ok: true, problems: [] }),
    connections: () => [{ platform: 'console', tenant: 'local', health: open.adapter.health() }],
    ...changed,
  });
  const listening = await listen(app, { host: '127.0.0.1', port: 0 });
  return { url: `http://127.0.0.1:${listening.port}`, port: listening.port, close: listening.close };
}

export type Answer = { readonly status: number; readonly headers: Readonly<Record<string, string | string[] | undefined>>; readonly text: string };

/** As it goes over the wire: `fetch` would not let a test set Host, Origin or Sec-Fetch-Site. */
export function raw(port: number, method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port, method, path, headers: { ...(body ? { 'content-length': String(Buffer.byteLength(body)) } : {}), ...headers } }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += String(chunk)));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    request.on('error', reject);
    request.end(body);
  });
}
