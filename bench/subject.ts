/** One measured process: `hermes` (the whole agent on a platform in memory) or `bare` (a script that makes the same model calls). */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { createModel } from '../src/agent/model.ts';
import { systemClock } from '../src/clock.ts';
import { parseConfig } from '../src/config.ts';
import { createHermes } from '../src/hermes.ts';
import { createLog } from '../src/log.ts';
import { loadPrompts } from '../src/prompts.ts';
import { openStore, type Store } from '../src/store/store.ts';
import { builtInTools } from '../src/tools/index.ts';
import { FakePlatform, person } from '../test/fakes/platform.ts';
import { fill } from './fill.ts';

export type Measured = { latenciesMs: number[]; grownLatenciesMs: number[]; perSecond: number; answered: number; twice: number; rssMb: number; fixedTokens: number };
/** Answers when the answer to a mention in this thread has reached the platform. */
type Ask = (thread: string) => Promise<void>;

const [kind = '', baseUrl = '', mentions = '0', stored = '0'] = process.argv.slice(2);
const warmUp = 100;
const oneByOne = 400;
const threads = 100;

const result = kind === 'hermes' ? await hermes() : await bare();
process.send?.(result);
process.disconnect?.();

async function measure(ask: Ask): Promise<Pick<Measured, 'latenciesMs' | 'perSecond' | 'rssMb'>> {
  for (let i = 0; i < warmUp; i++) await ask(`warm${i}`);
  const latenciesMs = await oneAtATime(ask, 'one');
  const each = Math.ceil(Number(mentions) / threads);
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: threads }, async (_, thread) => {
      for (let i = 0; i < each; i++) await ask(`t${thread}`);
    }),
  );
  const perSecond = (each * threads * 1000) / (performance.now() - startedAt);
  return { latenciesMs, perSecond, rssMb: process.memoryUsage.rss() / 1e6 };
}

async function oneAtATime(ask: Ask, name: string): Promise<number[]> {
  const latencies: number[] = [];
  for (let i = 0; i < oneByOne; i++) {
    const startedAt = performance.now();
    await ask(`${name}${i}`);
    latencies.push(performance.now() - startedAt);
  }
  return latencies;
}

async function bare(): Promise<Measured> {
  const client = new OpenAI({ apiKey: 'bench', baseURL: baseUrl, maxRetries: 0 });
  const ask: Ask = async () => {
    const stream = await client.chat.completions.create({ model: 'bench', messages: [{ role: 'user', content: 'Please note this.' }], stream: true, stream_options: { include_usage: true } });
    let text = '';
    for await (const part of stream) text += part.choices[0]?.delta.content ?? '';
    if (text !== 'Noted.') throw new Error(`the model server answered "${text}"`);
  };
  return { ...(await measure(ask)), grownLatenciesMs: [], answered: 0, twice: 0, fixedTokens: 0 };
}

async function hermes(): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'hermes-bench-'));
  const clock = systemClock;
  const store = await openStore({ url: `sqlite:${join(folder, 'hermes.db')}`, clock });
  const waiting = new Map<string, () => void>();
  const platform = new FakePlatform({ now: clock.now });
  platform.onSend = (message) => {
    waiting.get(message.place.thread)?.();
    return undefined;
  };
  const config = parseConfig(`agent: { max_runs: 100 }\nmodels: { main: { base_url: "${baseUrl}", model: bench } }`, { env: {} });
  const model = createModel({ baseUrl, apiKey: 'bench', model: 'bench', temperature: 0.2, maxTokens: 100, timeoutMs: 30_000, extraParams: {}, clock });
  const connection = platform.connect();
  const agent = createHermes({ config, clock, log: createLog({ level: 'warn', redact: (text) => text }), store, model, tools: builtInTools, prompts: await loadPrompts(), adapters: [connection.adapter], alone: true });
  await agent.start();
  const lin = person('lin');
  const ask: Ask = async (thread) => {
    const answered = new Promise<void>((resolve) => waiting.set(thread, resolve));
    await connection.submit(platform.say(lin, 'Please note this.', { thread, mention: true }));
    await answered;
  };
  const measured = await measure(ask);
  const total = warmUp + oneByOne + Math.ceil(Number(mentions) / threads) * threads;
  const answers = platform.ours().flatMap((m) => m.keys.filter((key) => key.endsWith('/answer')));
  const twice = answers.length - new Set(answers).size;
  const fixedTokens = await fixedPart(store);
  await fill(store, Number(stored));
  const grownLatenciesMs = await oneAtATime(ask, 'grown');
  await agent.stop(5000);
  await store.close();
  rmSync(folder, { recursive: true });
  return { ...measured, grownLatenciesMs, answered: answers.length / total, twice, fixedTokens };
}

async function fixedPart(store: Store): Promise<number> {
  const step = await store.db.selectFrom('steps').select('data').where('type', '=', 'model_requested').limit(1).executeTakeFirstOrThrow();
  return (JSON.parse(step.data) as { parts: { fixed: number } }).parts.fixed;
}
