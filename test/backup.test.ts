/** Backup and restore as an operator does them, with the real commands. */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { takeLock } from '../src/store/lock.ts';
import { openStore } from '../src/store/store.ts';
import { dataFolder } from './fakes/process.ts';

const entry = fileURLToPath(new URL('../bin/hermes.js', import.meta.url));
let data: ReturnType<typeof dataFolder>;
beforeEach(() => {
  data = dataFolder();
});
afterEach(() => data.remove());

async function hermes(...args: string[]): Promise<{ code: number; output: string }> {
  const env = { PATH: process.env.PATH ?? '', HERMES_DATA_DIR: data.path };
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [entry, ...args], { cwd: data.path, env });
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const failed = error as { code: number; stdout: string; stderr: string };
    return { code: failed.code, output: failed.stdout + failed.stderr };
  }
}

const database = () => join(data.path, 'hermes.db');

/** Adds a channel named so, as a sign of what the database holds. */
async function put(name: string): Promise<void> {
  const store = await openStore({ url: `sqlite:${database()}`, clock: systemClock });
  await store.transact((tx) => tx.insertInto('console_channels').values({ id: name, name, created_at: 0 }).execute());
  await store.close();
}

async function held(): Promise<string[]> {
  const store = await openStore({ url: `sqlite:${database()}`, clock: systemClock });
  const rows = await store.db.selectFrom('console_channels').select('id').orderBy('id').execute();
  await store.close();
  return rows.map((row) => row.id);
}

it('a backup made beside a running server brings back what was there, and the former database is kept', async () => {
  await put('before');
  const server = await openStore({ url: `sqlite:${database()}`, clock: systemClock });
  expect(await hermes('backup', 'copy.db')).toMatchObject({ code: 0, output: expect.stringContaining('Backup written') });
  await server.close();
  await put('after');
  expect(await hermes('restore', 'copy.db')).toMatchObject({ code: 0, output: expect.stringContaining('former database is kept as') });
  expect(await held()).toEqual(['before']);
  expect(readdirSync(data.path).filter((name) => name.startsWith('hermes.db.before-restore-')).length).toBeGreaterThan(0);
});

it('a restore is refused while a server runs, and for a file that is no whole database; nothing is changed', async () => {
  await put('mine');
  writeFileSync(join(data.path, 'broken.db'), 'not a database, but long enough to look like one '.repeat(200));
  const before = readFileSync(database());
  expect(await hermes('restore', 'broken.db')).toMatchObject({ code: 1, output: expect.stringContaining('is not a whole hermes database') });
  expect(await hermes('restore', 'missing.db')).toMatchObject({ code: 1, output: expect.stringContaining('there is no backup at') });
  const lock = await takeLock(data.path, { clock: systemClock, waiting: () => {}, signal: new AbortController().signal });
  expect(await hermes('restore', 'broken.db')).toMatchObject({ code: 1, output: expect.stringContaining('stop it before a restore') });
  lock?.release();
  expect(readFileSync(database()).equals(before)).toBe(true);
  expect(await held()).toEqual(['mine']);
});

it.each([
  ['a folder', '.', 'name a file in it'],
  ['a folder that does not exist', 'nowhere/copy.db', 'cannot be written'],
])('a backup to %s is one sentence, and nothing is left beside it', async (_what, target, says) => {
  await put('mine');
  const { code, output } = await hermes('backup', target);
  expect({ code, lines: output.trim().split('\n').length }).toEqual({ code: 1, lines: 1 });
  expect(output).toContain(says);
  expect(readdirSync(join(data.path, '..')).filter((name) => name.endsWith('.unfinished'))).toEqual([]);
});

it('a data folder that the system refuses ends the start with a sentence', async () => {
  const refused = await promisify(execFile)(process.execPath, [entry, 'start', '--port', '0'], { env: { PATH: process.env.PATH ?? '', HERMES_DATA_DIR: '/proc/hermes' }, timeout: 15_000 }).catch(
    (error: { code: number; stderr: string }) => error,
  );
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('the data folder /proc/hermes cannot be written') });
});

it('a backup of nothing says so and makes no file', async () => {
  expect(await hermes('backup', 'copy.db')).toMatchObject({ code: 1, output: expect.stringContaining('there is no database at') });
  expect(existsSync(join(data.path, 'copy.db'))).toBe(false);
});
