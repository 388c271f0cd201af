/** A database file used from outside the server: read for a backup, replaced by one. */
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { type Clock, iso } from '../clock.ts';
import { DatabaseFileError, messageOf, NotFoundError } from '../errors.ts';
import type { SqliteHandle } from './sqlite.ts';

/** For reading; works beside a running server. */
export function openExisting(path: string): SqliteHandle {
  if (!existsSync(path)) throw new NotFoundError(`there is no database at ${path}; name its configuration with --config, or set HERMES_DATA_DIR`);
  return new SqliteDatabase(path, { readonly: true, timeout: 5000 });
}

/** Puts `source` in the place of `path`. The former file is kept; answers under which name. */
export function restore(source: string, path: string, clock: Clock): string | undefined {
  mustBeWhole(source);
  const kept = existsSync(path) ? `${path}.before-restore-${iso(clock.now()).replace(/[:.]/g, '-')}` : undefined;
  const fresh = `${path}.restoring`;
  copyFileSync(source, fresh);
  if (kept) {
    // What the write-ahead log holds belongs to the former file.
    for (const suffix of ['', '-wal', '-shm']) if (existsSync(`${path}${suffix}`)) renameSync(`${path}${suffix}`, `${kept}${suffix}`);
  } else for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
  renameSync(fresh, path);
  return kept;
}

function mustBeWhole(source: string): void {
  if (!existsSync(source)) throw new NotFoundError(`there is no backup at ${source}`);
  try {
    const handle = new SqliteDatabase(source, { readonly: true });
    const answer = handle.pragma('quick_check(1)', { simple: true });
    handle.prepare('select count(*) from runs').get();
    handle.close();
    if (answer !== 'ok') throw new Error(String(answer));
  } catch (error) {
    throw new DatabaseFileError(`${source} is not a whole hermes database (${messageOf(error)}); nothing was changed`, { cause: error });
  }
}
