/** One server per data folder. The lock is a database transaction that the system itself frees at kill -9. */
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { type Clock, sleep } from '../clock.ts';
import { prepareFolder } from './files.ts';

export type Lock = {
  /** Where the command line finds the running server. */
  announce(server: { readonly address: string; readonly token: string }): void;
  release(): void;
};

const retryMs = 500;

/** Waits until no other server holds the folder; `waiting` is told once. Undefined when the signal aborts first. */
export async function takeLock(folder: string, options: { clock: Clock; waiting: () => void; signal: AbortSignal }): Promise<Lock | undefined> {
  prepareFolder(folder);
  const path = join(folder, 'hermes.lock');
  const handle = new SqliteDatabase(path, { timeout: 0 });
  for (let told = false; ; told = true) {
    try {
      handle.exec('begin exclusive');
      chmodSync(path, 0o600);
      return held(folder, handle);
    } catch (error) {
      if (!String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')) throw error;
      if (!told) options.waiting();
    }
    await sleep(options.clock, retryMs, options.signal);
    if (options.signal.aborted) {
      handle.close();
      return undefined;
    }
  }
}

function held(folder: string, handle: SqliteDatabase.Database): Lock {
  const beside = join(folder, 'hermes.server.json');
  return {
    announce: (server) => writeFileSync(beside, JSON.stringify(server), { mode: 0o600 }),
    release() {
      rmSync(beside, { force: true });
      handle.close();
    },
  };
}
