/** `npm run bench`: every figure beside a bare script that makes the same model calls, in the same run. Exit code 1 when a limit is missed. */
import { fork, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { dataFolder, HermesProcess } from '../test/fakes/process.ts';
import type { Measured } from './subject.ts';

type Row = { readonly what: string; readonly measured: string; readonly baseline: string; readonly limit: string; readonly ok: boolean };

const mentions = 2000;
const stored = 100_000;
const starts = 7;

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const median = (values: readonly number[]) => percentile(values, 0.5);
const percentile = (values: readonly number[], p: number) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * p))] ?? 0;
const ms = (value: number) => `${value.toFixed(1)} ms`;
const mb = (value: number) => `${value.toFixed(0)} MB`;

const rows = [...(await processRows()), ...(await agentRows())];
print(rows);
process.exitCode = rows.every((row) => row.ok) ? 0 : 1;

/** Start and rest of the real process, as it ships. */
async function processRows(): Promise<Row[]> {
  const startMs: number[] = [];
  const bareMs: number[] = [];
  let idleMb = 0;
  for (let i = 0; i < starts; i++) {
    bareMs.push(await bareStart());
    const data = dataFolder();
    const startedAt = performance.now();
    const hermes = await HermesProcess.start({ data: data.path });
    startMs.push(performance.now() - startedAt);
    if (i === starts - 1) {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      idleMb = residentMb(hermes.child.pid ?? 0);
    }
    await hermes.terminate();
    data.remove();
  }
  return [
    { what: 'start to ready, console (p50)', measured: ms(median(startMs)), baseline: `${ms(median(bareMs))} (empty Node process)`, limit: '≤ 1000 ms', ok: median(startMs) <= 1000 },
    { what: 'idle RSS, console', measured: mb(idleMb), baseline: '–', limit: '≤ 120 MB', ok: idleMb <= 120 },
  ];
}

function bareStart(): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve) => spawn(process.execPath, ['-e', '0']).once('exit', () => resolve(performance.now() - startedAt)));
}

function residentMb(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1] ?? 0) / 1024;
}

async function agentRows(): Promise<Row[]> {
  const llm = fork(file('llm.ts'));
  const baseUrl = await new Promise<string>((resolve) => llm.once('message', (url) => resolve(String(url))));
  const measured = async (kind: string) => {
    // As it ships: the starts before have filled the compile cache.
    const env = { ...process.env, NODE_COMPILE_CACHE: file('../node_modules/.cache/hermes') };
    const child = fork(file('subject.ts'), [kind, baseUrl, String(mentions), String(stored)], { env, execArgv: kind === 'hermes' ? ['--max-semi-space-size=8'] : [] });
    return new Promise<Measured>((resolve, reject) => {
      child.once('message', (message) => resolve(message as Measured));
      child.once('exit', (code) => code !== 0 && reject(new Error(`the measured process ended with ${code}`)));
    });
  };
  const bare = await measured('bare');
  const hermes = await measured('hermes');
  llm.kill();
  const over = (p: number) => percentile(hermes.latenciesMs, p) - percentile(bare.latenciesMs, p);
  const grown = median(hermes.grownLatenciesMs) / median(hermes.latenciesMs);
  return [
    { what: 'overhead per mention, no tools (p50)', measured: `+${ms(over(0.5))}`, baseline: ms(percentile(bare.latenciesMs, 0.5)), limit: '≤ +5 ms', ok: over(0.5) <= 5 },
    { what: 'overhead per mention, no tools (p95)', measured: `+${ms(over(0.95))}`, baseline: ms(percentile(bare.latenciesMs, 0.95)), limit: '≤ +10 ms', ok: over(0.95) <= 10 },
    { what: `throughput, ${mentions} mentions in 100 threads`, measured: `${hermes.perSecond.toFixed(0)}/s`, baseline: `${bare.perSecond.toFixed(0)}/s`, limit: '≥ 250/s', ok: hermes.perSecond >= 250 },
    { what: 'answered, and answered twice', measured: `${(hermes.answered * 100).toFixed(1)} %, ${hermes.twice}`, baseline: '–', limit: '100 %, 0', ok: hermes.answered === 1 && hermes.twice === 0 },
    { what: `RSS after ${mentions} mentions`, measured: mb(hermes.rssMb), baseline: mb(bare.rssMb), limit: '≤ +60 MB', ok: hermes.rssMb - bare.rssMb <= 60 },
    { what: 'fixed part of a request, all built-in tools', measured: `${hermes.fixedTokens} tokens`, baseline: '–', limit: '≤ 3000 tokens', ok: hermes.fixedTokens <= 3000 },
    { what: `mention with ${stored.toLocaleString('en')} stored (p50, ratio)`, measured: `×${grown.toFixed(2)}`, baseline: ms(median(hermes.latenciesMs)), limit: '≤ ×1.5', ok: grown <= 1.5 },
  ];
}

function print(table: readonly Row[]): void {
  const columns = ['what', 'measured', 'baseline', 'limit'] as const;
  const width = (column: (typeof columns)[number]) => Math.max(column.length, ...table.map((row) => row[column].length));
  const line = (cells: Record<(typeof columns)[number], string>, end: string) => console.log(`${columns.map((column) => cells[column].padEnd(width(column))).join('  ')}  ${end}`);
  line({ what: 'what', measured: 'measured', baseline: 'baseline', limit: 'limit' }, '');
  for (const row of table) line(row, row.ok ? 'ok' : 'MISSED');
}
