/**
 * A small SQLite driver for Kysely: one connection, statements cached, `begin immediate`, and a busy database waited for
 * without blocking the event loop (SQLite's own busy_timeout stalls it for seconds).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import SqliteDatabase from 'better-sqlite3';
import { type CompiledQuery, type DatabaseConnection, type Dialect, type Driver, Kysely, type QueryResult, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import { type Clock, sleep } from '../clock.ts';
import { StoreError } from '../errors.ts';

export type SqliteHandle = SqliteDatabase.Database;

/** Where the running code stands: inside a transaction, and whether that transaction must reach the disk before it counts. */
export type TransactionScope = { readonly inside: boolean; readonly durable: boolean };

export type SqliteSettings = { readonly handle: SqliteHandle; readonly clock: Clock; readonly scope: AsyncLocalStorage<TransactionScope>; readonly waitMs?: number };

const longestWaitMs = 60_000;
const firstRetryMs = 10;
const longestRetryMs = 250;

export function sqliteDialect(settings: SqliteSettings): Dialect {
  return {
    createAdapter: () => new TransactionalDdlAdapter(),
    createDriver: () => new SingleConnectionDriver(settings),
    createIntrospector: (db: Kysely<unknown>) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

/** SQLite rolls schema changes back like any other; without this a half-applied migration would stay behind. */
class TransactionalDdlAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
  override get supportsMultipleConnections(): boolean {
    return true; // our driver queues by itself, so that it can refuse a query that would wait for itself
  }
}

class SingleConnectionDriver implements Driver {
  private readonly settings: SqliteSettings;
  private readonly connection: SqliteConnection;
  private taken = false;
  private readonly waiting: (() => void)[] = [];

  constructor(settings: SqliteSettings) {
    this.settings = settings;
    this.connection = new SqliteConnection(settings);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    if (this.settings.scope.getStore()?.inside) throw new Error('a query on the database inside a transaction would wait for itself for ever; use the transaction');
    if (this.taken) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.taken = true;
    return this.connection;
  }

  async releaseConnection(): Promise<void> {
    const next = this.waiting.shift();
    if (next) next();
    else this.taken = false;
  }

  async beginTransaction(): Promise<void> {
    const { handle, scope } = this.settings;
    const durable = scope.getStore()?.durable === true;
    await this.connection.retrying(() => {
      handle.pragma(`synchronous = ${durable ? 'FULL' : 'NORMAL'}`);
      handle.exec('begin immediate');
    });
  }

  async commitTransaction(): Promise<void> {
    await this.connection.retrying(() => this.settings.handle.exec('commit'));
  }

  async rollbackTransaction(): Promise<void> {
    // A full disk makes SQLite roll back by itself; a second rollback would then hide the reason.
    if (this.settings.handle.inTransaction) this.settings.handle.exec('rollback');
  }

  async destroy(): Promise<void> {
    this.settings.handle.close();
  }
}

class SqliteConnection implements DatabaseConnection {
  private readonly settings: SqliteSettings;
  private readonly statements = new Map<string, SqliteDatabase.Statement>();

  constructor(settings: SqliteSettings) {
    this.settings = settings;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.retrying(() => {
      const statement = this.prepared(query.sql);
      if (statement.reader) return { rows: statement.all(query.parameters) as R[] };
      const { changes, lastInsertRowid } = statement.run(query.parameters);
      return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
    });
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator; nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('streaming is not supported; read in batches');
  }

  private prepared(sql: string): SqliteDatabase.Statement {
    const known = this.statements.get(sql);
    if (known) return known;
    const statement = this.settings.handle.prepare(sql);
    if (this.statements.size > 500) this.statements.clear();
    this.statements.set(sql, statement);
    return statement;
  }

  /** Runs `work`, again while another process holds the database; a StoreError after the longest wait. */
  async retrying<T>(work: () => T): Promise<T> {
    const { clock } = this.settings;
    const deadline = clock.now() + (this.settings.waitMs ?? longestWaitMs);
    for (let pauseMs = firstRetryMs; ; pauseMs = Math.min(pauseMs * 2, longestRetryMs)) {
      try {
        return work();
      } catch (error) {
        if (!isBusy(error)) throw translated(error);
        if (clock.now() >= deadline) throw new StoreError('store_busy', `the database is held by another process; waited ${Math.round((this.settings.waitMs ?? longestWaitMs) / 1000)} s`, { cause: error });
        await sleep(clock, pauseMs);
      }
    }
  }
}

const codeOf = (error: unknown): string => (error instanceof SqliteDatabase.SqliteError ? error.code : '');
const isBusy = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_BUSY') || codeOf(error) === 'SQLITE_LOCKED';

/** What is wrong with the storage becomes a StoreError; a constraint that was violated stays what it is. */
function translated(error: unknown): unknown {
  const code = codeOf(error);
  if (code === 'SQLITE_FULL') return new StoreError('store_full', 'the disk that holds the database is full; free some space', { cause: error });
  if (code === '' || code.startsWith('SQLITE_CONSTRAINT') || code === 'SQLITE_ERROR') return error;
  return new StoreError('store_failed', `the database refused (${code}): ${(error as Error).message}`, { cause: error });
}
