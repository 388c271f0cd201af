/** The database file before anything reads it: is it there, whole, ours? And copies of it. */
import { randomUUID } from 'node:crypto';
import { accessSync, chmodSync, constants, existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import SqliteDatabase from 'better-sqlite3';
import { type Clock, iso, sleep, systemClock } from '../clock.ts';
import { DatabaseFileError, messageOf } from '../errors.ts';
import type { SqliteHandle } from './sqlite.ts';

const largeFileBytes = 200 * 1024 * 1024;
const whatToDo = 'The file is kept as it is. Restore a backup over it (see the folder "backups" beside it), or move it away to start empty.';

type OpenOptions = { readonly clock: Clock; readonly warn?: (message: string) => void };

/** Creates the file on a first start. A file that is damaged, empty or not writable is named and left alone. */
export async function openFile(path: string, options: OpenOptions): Promise<SqliteHandle> {
  const folder = dirname(path);
  prepareFolder(folder);
  const existed = existsSync(path);
  if (existed) {
    checkBeforeOpening(path);
    await whenFree(path, options.clock, () => checkWhole(path, options));
  } else {
    if (existsSync(join(folder, 'backups'))) options.warn?.(`The database ${path} is missing, so history and schedules are missing; a new one is made. Backups stand in ${join(folder, 'backups')}.`);
    create(path);
  }
  const handle = open(path);
  try {
    await whenFree(path, options.clock, () => {
      handle.pragma('journal_mode = WAL');
      handle.pragma('foreign_keys = ON');
      // 16 MB of log before it is copied into the file: with the usual 4 MB every sixteenth mention would wait for the disk.
      handle.pragma('wal_autocheckpoint = 4000');
    });
    return handle;
  } catch (error) {
    handle.close();
    throw error;
  }
}

export function prepareFolder(folder: string): void {
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new DatabaseFileError(`the data folder ${folder} cannot be written (${messageOf(error)}). Give this user write permission, or set data_dir to another folder.`, { cause: error });
  }
}

/** Node's own recursive form never returns where the system refuses a new folder as if its parent were missing, as /proc does. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process that starts at the same time may have been faster.
    if (!existsSync(folder)) throw error;
  }
}

function checkBeforeOpening(path: string): void {
  const { size } = statSync(path);
  // SQLite takes what is shorter than its smallest page for a new database and writes over it.
  if (size < 512) throw new DatabaseFileError(`the database ${path} has ${size} bytes: history, open questions and schedules are missing. ${whatToDo}`);
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw new DatabaseFileError(`the database ${path} cannot be read and written by this user. Change its owner or permissions.`, { cause: error });
  }
}

/** The file gets its name only once it is a database, so that neither a start killed here nor others at the same moment leave or see an empty one. */
function create(path: string): void {
  const unfinished = `${path}.${randomUUID()}`;
  try {
    const handle = new SqliteDatabase(unfinished, { timeout: 0 });
    chmodSync(unfinished, 0o600);
    handle.pragma('journal_mode = WAL');
    handle.close();
    linkSync(unfinished, path);
  } catch {
    // Another process was faster, or the file system has no links: opening the file does the rest, or says why it cannot.
  }
  rmSync(unfinished, { force: true });
}

function open(path: string): SqliteHandle {
  try {
    const handle = new SqliteDatabase(path, { timeout: 0 });
    chmodSync(path, 0o600);
    return handle;
  } catch (error) {
    throw new DatabaseFileError(`the database ${path} cannot be opened (${messageOf(error)}). ${whatToDo}`, { cause: error });
  }
}

/** Runs `work`, again while another process opens or closes the file. */
async function whenFree(path: string, clock: Clock, work: () => void): Promise<void> {
  const deadline = clock.now() + 60_000;
  for (;;) {
    try {
      return work();
    } catch (error) {
      const code = (error as { code?: string }).code ?? '';
      const busy = code.startsWith('SQLITE_BUSY');
      if (busy && clock.now() <= deadline) {
        await sleep(clock, 100);
        continue;
      }
      if (busy) throw new DatabaseFileError(`the database ${path} is held by another process. Stop that process and start again.`, { cause: error });
      if (code === '' || code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT')) throw new DatabaseFileError(`the database ${path} is damaged (${messageOf(error)}). ${whatToDo}`, { cause: error });
      throw new DatabaseFileError(`the database ${path} cannot be used (${messageOf(error)}). The file is kept as it is. Make sure that its disk has space and can be written, then start again.`, { cause: error });
    }
  }
}

/** A small file is checked before the start goes on, a large one beside it; damage found late is reported by `warn`. */
function checkWhole(path: string, options: OpenOptions): void {
  if (statSync(path).size > largeFileBytes) return checkInWorker(path, options);
  // Read only: a handle that may write would move its journal into the damaged file when it is closed.
  const handle = new SqliteDatabase(path, { readonly: true, timeout: 0 });
  try {
    const answer = handle.pragma('quick_check(1)', { simple: true });
    if (answer !== 'ok') throw new Error(String(answer).replace(/\s+/g, ' '));
  } finally {
    handle.close();
  }
}

function checkInWorker(path: string, options: OpenOptions): void {
  const code = `const {workerData,parentPort}=require('node:worker_threads');const D=require('better-sqlite3');
    const d=new D(workerData,{readonly:true});parentPort.postMessage(String(d.pragma('quick_check(1)',{simple:true})));d.close();`;
  const worker = new Worker(code, { eval: true, workerData: path });
  const report = (problem: string) => options.warn?.(`The database ${path} is damaged (${problem}). ${whatToDo}`);
  worker.on('message', (answer: string) => answer === 'ok' || report(answer));
  worker.on('error', (error) => report(messageOf(error)));
  worker.unref();
}

export async function backupBefore(handle: SqliteHandle, path: string, migration: string): Promise<string> {
  const folder = join(dirname(path), 'backups');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const target = join(folder, `before-${migration}-${iso(systemClock.now()).replace(/[:.]/g, '-')}.db`);
  await backup(handle, target);
  return target;
}

/** A consistent copy while others write. The target appears only when it is whole. */
export async function backup(handle: SqliteHandle, target: string): Promise<void> {
  const unfinished = `${target}.unfinished`;
  try {
    if (existsSync(target) && statSync(target).isDirectory()) throw new Error('it is a folder; name a file in it');
    rmSync(unfinished, { force: true });
    await handle.backup(unfinished);
    chmodSync(unfinished, 0o600);
    renameSync(unfinished, target);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw new DatabaseFileError(`the backup ${target} cannot be written (${messageOf(error)})`, { cause: error });
  }
}
