/** The open database: one way to write (`transact`), and the truth about whether writing works. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { type Clock, sleep } from '../clock.ts';
import { DatabaseFileError, HermesError, messageOf, StoreError } from '../errors.ts';
import { backupBefore, openFile } from './files.ts';
import { type DialectName, migrationsFor } from './migrations/index.ts';
import { isConnectionLost, postgresDialect } from './postgres.ts';
import type { Database, Schema, Tx } from './schema.ts';
import { sqliteDialect, type TransactionScope } from './sqlite.ts';

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
    if (this.scope.getStore()?.inside) throw new Error('a transaction inside a transaction would wait for itself for ever; pass the outer one on');
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

  /** Resolves when writing works again, or the signal aborts. Rejects on a closed store: it never works again. */
  async whenWritable(signal: AbortSignal): Promise<void> {
    while (this.problem !== undefined && !signal.aborted && !this.closing.signal.aborted) await sleep(this.options.clock, 250, signal);
    if (this.closing.signal.aborted) throw closed();
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.db.destroy();
  }

  private noticed(error: unknown): unknown {
    if (this.closing.signal.aborted) return error instanceof HermesError ? error : closed(error);
    const known = this.dialect === 'postgres' && isConnectionLost(error) ? unanswered(error) : error;
    if (known instanceof StoreError && this.problem === undefined) {
      this.change(known.message);
      void this.probe();
    }
    return known;
  }

  private change(problem: string | undefined): void {
    this.problem = problem;
    for (const listener of this.listeners) {
      try {
        listener(problem);
      } catch (error) {
        this.options.warn?.(`a listener of the storage failed: ${messageOf(error)}`);
      }
    }
  }

  /** Writes something small every few seconds until it works. */
  private async probe(): Promise<void> {
    while (this.problem !== undefined) {
      await sleep(this.options.clock, probeEveryMs, this.closing.signal);
      if (this.closing.signal.aborted) return;
      try {
        // As large as an ordinary step, so that a disk with a last free page does not pass for writable; committed before it is deleted, or SQLite would not write it.
        const row = { adapter: 'store', key: 'probe', value: '.'.repeat(16_384), expires_at: 0 };
        await this.db.transaction().execute((tx) =>
          tx
            .insertInto('memo')
            .values(row)
            .onConflict((oc) => oc.columns(['adapter', 'key']).doUpdateSet(row))
            .execute(),
        );
        await this.db.transaction().execute((tx) => tx.deleteFrom('memo').where('adapter', '=', 'store').where('key', '=', 'probe').execute());
        this.change(undefined);
      } catch {
        // Still not writable: `problem` says so, and the next probe is due.
      }
    }
  }
}

/** Opens, checks, backs up before a migration, migrates. Throws DatabaseFileError with what to do. */
export async function openStore(options: StoreOptions, migrations: (dialect: DialectName) => Record<string, Migration> = migrationsFor): Promise<Store> {
  const scope = new AsyncLocalStorage<TransactionScope>();
  if (options.url.startsWith('sqlite:')) {
    const path = options.url.slice('sqlite:'.length);
    const handle = await openFile(path, options);
    const db = new Kysely<Schema>({ dialect: sqliteDialect({ handle, clock: options.clock, scope, ...(options.waitMs === undefined ? {} : { waitMs: options.waitMs }) }) });
    const store = new Store({ db, dialect: 'sqlite', options, scope });
    return migrated(store, migrations('sqlite'), { name: path, backup: (migration) => backupBefore(handle, path, migration) });
  }
  if (!/^postgres(ql)?:\/\//.test(options.url)) throw new DatabaseFileError(`database_url "${options.url.split(':')[0]}:…" is neither sqlite:PATH nor postgres://…`);
  const db = new Kysely<Schema>({ dialect: postgresDialect(options.url) });
  return migrated(new Store({ db, dialect: 'postgres', options, scope }), migrations('postgres'), { name: 'on PostgreSQL' });
}

async function migrated(store: Store, migrations: Record<string, Migration>, database: { name: string; backup?: (migration: string) => Promise<unknown> }): Promise<Store> {
  try {
    const migrator = new Migrator({ db: store.db, provider: { getMigrations: async () => migrations } });
    const done = await executedMigrations(store.db);
    const known = Object.keys(migrations);
    const unknown = done.filter((name) => !known.includes(name));
    if (unknown.length > 0) throw new DatabaseFileError(`the database ${database.name} was written by a newer version of hermes (it has ${unknown.join(', ')}). Start that version, or restore a backup made before the upgrade.`);
    if (done.length > 0 && done.length < known.length) await database.backup?.(known[done.length] ?? 'migration');
    const { error } = await migrator.migrateToLatest();
    if (error) throw error;
    return store;
  } catch (error) {
    await store.close();
    throw store.dialect === 'postgres' && isConnectionLost(error) ? unanswered(error) : error;
  }
}

const closed = (cause?: unknown): StoreError => new StoreError('store_closed', 'the database is closed', { cause });
const unanswered = (error: unknown): StoreError => new StoreError('store_failed', `the database does not answer: ${messageOf(error)}`, { cause: error });

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
