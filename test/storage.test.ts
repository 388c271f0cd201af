/** SQLite files when things go wrong around them: damaged, missing, full, older, newer. */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { DatabaseFileError } from '../src/errors.ts';
import { migrationsFor } from '../src/store/migrations/index.ts';
import { openStore, type Store, type StoreOptions } from '../src/store/store.ts';
import { type FakeClock, fakeClock } from './fakes/clock.ts';
import { fillUp, mountReadOnly, mountSmall } from './fakes/disk.ts';
import { runScript } from './fakes/script.ts';

const folder = mkdtempSync(join(tmpdir(), 'hermes-storage-'));
const smallDisk = mountSmall(join(folder, 'small'), 20);
afterAll(() => {
  smallDisk?.unmount();
  rmSync(folder, { recursive: true, force: true });
});

let files = 0;
const freshPath = (): string => join(folder, `data${++files}`, 'hermes.db');
const opened = (path: string, options: Partial<StoreOptions> = {}) => openStore({ url: `sqlite:${path}`, clock: systemClock, ...options });

const write = (store: Store, id: string, size = 1) =>
  store.transact((tx) =>
    tx
      .insertInto('console_channels')
      .values({ id, name: 'x'.repeat(size), created_at: 0 })
      .execute(),
  );
const written = async (store: Store) => (await store.db.selectFrom('console_channels').select('id').orderBy('id').execute()).map((row) => row.id);
const isWhole = async (store: Store) => (await sql<{ integrity_check: string }>`pragma integrity_check`.execute(store.db)).rows[0]?.integrity_check === 'ok';

/** A database with some hundred rows, closed. */
async function filledFile(rows = 400): Promise<string> {
  const path = freshPath();
  const store = await opened(path);
  await store.transact(async (tx) => {
    for (let n = 0; n < rows; n++) {
      await tx
        .insertInto('console_channels')
        .values({ id: `row ${n}`, name: 'word '.repeat(40), created_at: n })
        .execute();
    }
  });
  await store.close();
  return path;
}

describe('a file that cannot be used', () => {
  /** Content, or undefined for what is not a file. */
  const fingerprint = (path: string) => (statSync(path, { throwIfNoEntry: false })?.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : undefined);

  /** The start fails with words for all three: which file, what is wrong, what to do. */
  async function refused(path: string, says: { wrong: RegExp; todo: RegExp; named?: string }): Promise<void> {
    const before = fingerprint(path);
    const error: unknown = await opened(path)
      .then((store) => store.close())
      .catch((e: unknown) => e);
    expect(error).toBeInstanceOf(DatabaseFileError);
    const { message } = error as DatabaseFileError;
    expect(message).toContain(says.named ?? path);
    expect(message).toMatch(says.wrong);
    expect(message).toMatch(says.todo);
    expect(fingerprint(path), 'the file is kept as it is').toBe(before);
  }

  function overwriteMiddle(path: string): void {
    const middle = Math.floor(statSync(path).size / 8192) * 4096;
    const file = openSync(path, 'r+');
    writeSync(file, randomBytes(4096), 0, 4096, middle);
    closeSync(file);
  }

  const restore = /kept as it is\. Restore a backup over it.*"backups".*or move it away to start empty/;

  it('because it is damaged in the middle', async () => {
    const path = await filledFile();
    overwriteMiddle(path);
    await refused(path, { wrong: /is damaged/, todo: restore });
  });

  it('because it was damaged while the process that wrote it was killed', async () => {
    const path = await filledFile();
    const killed = runScript(
      folder,
      `import SqliteDatabase from '${import.meta.resolve('better-sqlite3')}';
       const handle = new SqliteDatabase(process.argv[2]);
       for (let n = 0; n < 50; n++) handle.prepare('insert into console_channels values (?, ?, 0)').run('late ' + n, 'x'.repeat(500));
       process.kill(process.pid, 'SIGKILL');`,
      [path],
    );
    await killed.ended;
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    const whole = await opened(path);
    expect(await written(whole)).toHaveLength(450);
    await whole.close();
    overwriteMiddle(path);
    await refused(path, { wrong: /is damaged/, todo: restore });
  });

  it('damaged beside a journal that was never moved into it', async () => {
    const path = await filledFile();
    const writer = new SqliteDatabase(path);
    writer.prepare('insert into console_channels values (?, ?, 0)').run('late', 'x'.repeat(9000));
    const [copy, journal] = [readFileSync(path), readFileSync(`${path}-wal`)];
    writer.close();
    writeFileSync(path, copy);
    writeFileSync(`${path}-wal`, journal);
    overwriteMiddle(path);
    await refused(path, { wrong: /is damaged/, todo: restore });
  });

  it.each([
    ['text', Buffer.from('these are not the bytes you are looking for\n'.repeat(300))],
    ['noise', randomBytes(20_000)],
  ])('because it is no database but %s', async (_, bytes) => {
    const path = freshPath();
    mkdirSync(dirname(path));
    writeFileSync(path, bytes);
    await refused(path, { wrong: /is damaged \(.*not a database/, todo: restore });
  });

  it.each([0, 1, 300])('because it has %i bytes', async (size) => {
    const path = await filledFile(3);
    truncateSync(path, size);
    await refused(path, { wrong: new RegExp(`has ${size} bytes: history, open questions and schedules are missing`), todo: restore });
  });

  it.each([4096, 20_000])('because only %i bytes are left of it', async (size) => {
    const path = await filledFile();
    truncateSync(path, size);
    await refused(path, { wrong: /is damaged/, todo: restore });
  });

  it('because it is a folder', async () => {
    const path = freshPath();
    mkdirSync(path, { recursive: true });
    await refused(path, { wrong: /cannot be opened|cannot be used|is damaged/, todo: /Restore|Make sure/ });
  });

  it('because its folder would have to be made inside a file', async () => {
    const parent = join(folder, `file${++files}`);
    writeFileSync(parent, 'x');
    const data = join(parent, 'data');
    await refused(join(data, 'hermes.db'), { named: data, wrong: /data folder .* cannot be written/, todo: /Give this user write permission, or set data_dir/ });
    expect(readFileSync(parent, 'utf8')).toBe('x');
  });

  it('because a newer version of hermes has written it', async () => {
    const path = await filledFile(3);
    const handle = new SqliteDatabase(path);
    handle.prepare('insert into kysely_migration (name, timestamp) values (?, ?)').run('999-from-the-future', '');
    handle.close();
    await refused(path, { wrong: /written by a newer version of hermes \(it has 999-from-the-future\)/, todo: /Start that version, or restore a backup/ });
  });

  describe('because nothing may be written there', () => {
    const data = join(folder, 'readonly');
    let path: string;
    let unmount: (() => void) | undefined;
    beforeEach(async () => {
      mkdirSync(data, { recursive: true });
      path = join(data, 'hermes.db');
      await (await opened(path)).close();
      unmount = mountReadOnly(data)?.unmount;
    });
    afterEach(() => unmount?.());

    it('not even by root', async (context) => {
      if (!unmount) return context.skip('this machine lets nobody mount a read-only folder, and root ignores permissions');
      await refused(path, { named: data, wrong: /cannot be written/, todo: /Give this user write permission/ });
    });
  });
});

describe('a full disk', () => {
  let clock: FakeClock;
  let store: Store;
  let told: (string | undefined)[];
  const open = async (path: string) => {
    clock = fakeClock();
    store = await opened(path, { clock });
    told = [];
    store.onChange((problem) => told.push(problem));
  };
  afterEach(() => store.close());

  /** The same for a real disk and for a database that may not grow. */
  async function survives(fill: () => Promise<() => Promise<unknown>>): Promise<void> {
    await write(store, 'before');
    const free = await fill();
    const large = store.transact(async (tx) => {
      await tx.insertInto('console_channels').values({ id: 'half', name: 'x', created_at: 0 }).execute();
      for (let n = 0; n < 400; n++)
        await tx
          .insertInto('console_channels')
          .values({ id: `large ${n}`, name: 'x'.repeat(65_536), created_at: 0 })
          .execute();
    });
    await expect(large).rejects.toMatchObject({ code: 'store_full', message: expect.stringContaining('free some space') as string });
    expect(store.degraded()).toContain('disk');
    expect(await written(store), 'nothing is half-written').toEqual(['before']);
    expect(told).toHaveLength(1);
    await free();
    await clock.advance(5000);
    expect(store.degraded()).toBeUndefined();
    expect(told).toEqual([expect.stringContaining('full'), undefined]);
    await write(store, 'after', 100_000);
    expect(await written(store)).toEqual(['after', 'before']);
    expect(await isWhole(store)).toBe(true);
    expect(await store.db.selectFrom('memo').selectAll().execute(), 'the probe leaves nothing behind').toEqual([]);
  }

  it('refuses what does not fit whole, and writing works again once there is space', async (context) => {
    if (!smallDisk) return context.skip('this machine lets nobody mount a small disk; the next test limits the database instead');
    const data = join(folder, 'small', 'data');
    await open(join(data, 'hermes.db'));
    await survives(async () => {
      const free = fillUp(join(folder, 'small'));
      return async () => free();
    });
  });

  it('stays degraded while there is no space', async (context) => {
    if (!smallDisk) return context.skip('this machine lets nobody mount a small disk');
    const data = join(folder, 'small', 'more');
    await open(join(data, 'hermes.db'));
    const free = fillUp(join(folder, 'small'));
    for (let n = 0; store.degraded() === undefined && n < 100; n++) await write(store, `row ${n}`, 65_536).catch(() => {});
    await clock.advance(20_000);
    expect(told).toEqual([expect.stringContaining('full')]);
    free();
    await clock.advance(5000);
    expect(store.degraded()).toBeUndefined();
    expect(await isWhole(store)).toBe(true);
  });

  it('a database that may not grow refuses what does not fit whole', async () => {
    await open(freshPath());
    await survives(async () => {
      const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(store.db);
      await sql`pragma max_page_count = ${sql.lit((rows[0]?.page_count ?? 0) + 40)}`.execute(store.db);
      return () => sql`pragma max_page_count = 1000000`.execute(store.db);
    });
  });
});

describe('the data folder', () => {
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

  it('is for its owner only, and so is everything in it', async () => {
    const path = join(freshPath(), 'deeper', 'hermes.db');
    const store = await opened(path);
    await write(store, 'a');
    expect(mode(dirname(path))).toBe('700');
    expect(
      readdirSync(dirname(path))
        .map((name) => `${name} ${mode(join(dirname(path), name))}`)
        .sort(),
    ).toEqual(['hermes.db 600', 'hermes.db-shm 600', 'hermes.db-wal 600']);
    await store.close();
  });

  const creates = (name: string): Migration => ({
    up: (db) =>
      sql
        .raw(`create table ${name} (id integer primary key) strict`)
        .execute(db)
        .then(() => {}),
  });
  const known = migrationsFor('sqlite');

  it('gets a backup before a migration, which opens and holds what was there', async () => {
    const path = await filledFile(5);
    const backups = join(dirname(path), 'backups');
    expect(existsSync(backups), 'none without a migration').toBe(false);
    const store = await openStore({ url: `sqlite:${path}`, clock: systemClock }, () => ({ ...known, '800-more': creates('more'), '900-yet-more': creates('yet_more') }));
    await store.close();
    const [name, ...others] = readdirSync(backups);
    expect(others).toEqual([]);
    expect(name).toMatch(/^before-800-more-.*\.db$/);
    expect([mode(backups), mode(join(backups, name ?? ''))]).toEqual(['700', '600']);
    const old = await opened(join(backups, name ?? ''));
    expect(await written(old)).toHaveLength(5);
    expect((await old.db.introspection.getTables()).map((table) => table.name)).not.toContain('more');
    await old.close();
  });

  it('says so when the database is gone but its backups are there', async () => {
    const path = freshPath();
    mkdirSync(join(dirname(path), 'backups'), { recursive: true });
    const warnings: string[] = [];
    const store = await opened(path, { warn: (message) => warnings.push(message) });
    await store.close();
    expect(warnings).toEqual([expect.stringContaining(`${path} is missing`)]);
  });
});
