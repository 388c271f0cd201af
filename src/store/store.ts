/** The open database: one way to write (`transact`), and the truth about whether writing works. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Kysely, sql } from 'kysely';
import { Migrator } from 'kysely/migration';
import { type Clock, sleep } from '../clock.ts';
import { DatabaseFileError, messageOf, StoreError } from '../errors.ts';
import { backupBefore, openFile } from './files.ts';
import { type DialectName, migrationsFor } from './migrations/index.ts';
import { isConnectionLost, postgresDialect } from './postgres.ts';
import type { Database, Schema, Tx } from './schema.ts';
import { type SqliteHandle, sqliteDialect, type TransactionScope } from './sqlite.ts';

/** Called around every commit; what it throws, the writer sees. */
export type CommitHook = (phase: 'before' | 'after') => void;
export type StoreOptions = {
  /** `sqlite:PATH` or `postgres://…` */
  readonly url: string;
  readonly clock: Clock;
  readonly onCommit?: CommitHook;
  /** How long a busy SQLite database is waited for, ms; default 60,000. */
  readonly waitMs?: number;
  readonly warn?: (message: string) => void;
};

export type TransactOptions = { /** Must be on the disk before it counts: a decision, the start of a call of level 1 or 2. */ readonly durable?: boolean };

const probeEveryMs = 5000;

export class Store {
  readonly db: Database;
  readonly dialect: DialectName;
  private readonly options: StoreOptions;
  private readonly scope: AsyncLocalStorage<TransactionScope>;
  private readonly listeners = new Set<(problem: string | undefined) => void>();
  private problem: string | undefined;
  private readonly closing = new AbortController();

  constructor(parts: { db: Database; dialect: DialectName; options: StoreOptions; scope: AsyncLocalStorage<TransactionScope> }) {
    this.db = parts.db;
    this.dialect = parts.dialect;
    this.options = parts.options;
    this.scope = parts.scope;
  }

  /** All or nothing. Rejects with a StoreError when the database cannot be written; no network call may happen inside. */
  async transact<T>(work: (tx: Tx) => Promise<T>, { durable = false }: TransactOptions = {}): Promise<T> {
    try {
      const result = await this.scope.run({ inside: false, durable }, () =>
        this.db.transaction().execute((tx) =>
          this.scope.run({ inside: true, durable }, async () => {
            const value = await work(tx);
            this.options.onCommit?.('before');
            return value;
          }),
        ),
      );
      this.options.onCommit?.('after');
      return result;
    } catch (error) {
      throw this.noticed(error);
    }
  }

  /** Why writing does not work at the moment; undefined when it does. */
  degraded(): string | undefined {
    return this.problem;
  }

  /** Told of each change of `degraded`. */
  onChange(listener: (problem: string | undefined) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Resolves when writing works again, or the signal aborts. */
  async whenWritable(signal: AbortSignal): Promise<void> {
    while (this.problem !== undefined && !signal.aborted && !this.closing.signal.aborted) await sleep(this.options.clock, 250, signal);
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.db.destroy();
  }

  private noticed(error: unknown): unknown {
    const known = this.dialect === 'postgres' && isConnectionLost(error) ? new StoreError('store_failed', `the database does not answer: ${messageOf(error)}`, { cause: error }) : error;
    if (known instanceof StoreError && this.problem === undefined && !this.closing.signal.aborted) {
      this.change(known.message);
      void this.probe();
    }
    return known;
  }

  private change(problem: string | undefined): void {
    this.problem = problem;
    for (const listener of this.listeners) listener(problem);
  }

  /** Writes something small every few seconds until it works. */
  private async probe(): Promise<void> {
    while (this.problem !== undefined) {
      await sleep(this.options.clock, probeEveryMs, this.closing.signal);
      if (this.closing.signal.aborted) return;
      try {
        await this.db.transaction().execute(async (tx) => {
          // As large as an ordinary step, so that a disk with a last free page does not pass for writable.
          await sql`insert into memo (adapter, key, value, expires_at) values ('store', 'probe', ${'.'.repeat(16_384)}, 0) on conflict (adapter, key) do update set value = excluded.value`.execute(tx);
          await sql`delete from memo where adapter = 'store' and key = 'probe'`.execute(tx);
        });
        this.change(undefined);
      } catch {
        // Still not writable: `problem` says so, and the next probe is due.
      }
    }
  }
}

/** Opens, checks, backs up before a migration, migrates. Throws DatabaseFileError with what to do. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const scope = new AsyncLocalStorage<TransactionScope>();
  if (options.url.startsWith('sqlite:')) {
    const path = options.url.slice('sqlite:'.length);
    const handle = await openFile(path, options);
    const db = new Kysely<Schema>({ dialect: sqliteDialect({ handle, clock: options.clock, scope, ...(options.waitMs === undefined ? {} : { waitMs: options.waitMs }) }) });
    return migrated(new Store({ db, dialect: 'sqlite', options, scope }), { path, handle });
  }
  if (!/^postgres(ql)?:\/\//.test(options.url)) throw new DatabaseFileError(`database_url "${options.url.split(':')[0]}:…" is neither sqlite:PATH nor postgres://…`);
  const db = new Kysely<Schema>({ dialect: postgresDialect(options.url) });
  return migrated(new Store({ db, dialect: 'postgres', options, scope }), undefined);
}

async function migrated(store: Store, file: { path: string; handle: SqliteHandle } | undefined): Promise<Store> {
  try {
    const migrator = new Migrator({ db: store.db, provider: { getMigrations: async () => migrationsFor(store.dialect) } });
    const done = await executedMigrations(store.db);
    const known = Object.keys(migrationsFor(store.dialect));
    const unknown = done.filter((name) => !known.includes(name));
    if (unknown.length > 0) throw new DatabaseFileError(`the database was written by a newer version of hermes (it has ${unknown.join(', ')}); start that version, or restore a backup made before the upgrade`);
    if (file && done.length > 0 && done.length < known.length) await backupBefore(file.handle, file.path, known[done.length] ?? 'migration');
    const { error } = await migrator.migrateToLatest();
    if (error) throw error;
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function executedMigrations(db: Database): Promise<string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some((table) => table.name === 'kysely_migration')) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map((row) => row.name);
}

/** A unique key was already taken: on both databases. */
export function isUniqueViolation(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === '23505' || code === 'SQLITE_CONSTRAINT_UNIQUE' || code === 'SQLITE_CONSTRAINT_PRIMARYKEY';
}
