/**
 * A small SQLite driver for Kysely: one handle, statements cached, `begin immediate`, and a busy database waited for
 * without blocking the event loop (SQLite's own busy_timeout stalls it for seconds).
 */
import type { AsyncLocalStorage } from 'node:async_hooks';
import SqliteDatabase from 'better-sqlite3';
import { type CompiledQuery, type DatabaseConnection, type Dialect, type Driver, type Kysely, type QueryResult, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
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
    createDriver: () => new SingleHandleDriver(settings),
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

/** Who comes first goes first. */
class Turns<T = undefined> {
  private taken = false;
  private readonly waiting: { readonly who: T; readonly go: () => void }[] = [];

  async take(who: T): Promise<void> {
    if (this.taken) await new Promise<void>((go) => this.waiting.push({ who, go }));
    this.taken = true;
  }

  give(): void {
    const next = this.waiting.shift();
    if (next) next.go();
    else this.taken = false;
  }

  /** Who is first in the queue. */
  next(): T | undefined {
    return this.waiting[0]?.who;
  }
}

/**
 * Transactions that share one commit: where writers queue, each is a savepoint, and all of them count when the last one is through. A transaction
 * that has to reach the disk commits alone, and at once.
 */
type Group = { readonly durable: boolean; size: number; readonly waiting: { resolve(): void; reject(error: unknown): void }[] };
const largestGroup = 16;

/**
 * What all connections of a driver share. The turn on the handle is held for one query, or from `begin` to the end of a transaction, but not while
 * another process is waited for: reads go on meanwhile. The writers' turn is held through that wait too, so that transactions keep their order.
 */
type Shared = {
  readonly settings: SqliteSettings;
  readonly statements: Map<string, SqliteDatabase.Statement>;
  readonly handleTurns: Turns;
  readonly writerTurns: Turns<{ readonly durable: boolean }>;
  group: Group | undefined;
  synchronous: 'FULL' | 'NORMAL' | undefined;
};

class SingleHandleDriver implements Driver {
  private readonly shared: Shared;

  constructor(settings: SqliteSettings) {
    this.shared = { settings, statements: new Map(), handleTurns: new Turns(), writerTurns: new Turns(), group: undefined, synchronous: undefined };
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<SqliteConnection> {
    if (this.shared.settings.scope.getStore()?.inside) throw new Error('a query on the database inside a transaction would wait for itself for ever; use the transaction');
    return new SqliteConnection(this.shared);
  }

  async releaseConnection(connection: SqliteConnection): Promise<void> {
    await connection.rollback();
  }

  async beginTransaction(connection: SqliteConnection): Promise<void> {
    await connection.begin();
  }

  async commitTransaction(connection: SqliteConnection): Promise<void> {
    await connection.commit();
  }

  async rollbackTransaction(connection: SqliteConnection): Promise<void> {
    await connection.rollback();
  }

  async destroy(): Promise<void> {
    this.shared.settings.handle.close();
  }
}

class SqliteConnection implements DatabaseConnection {
  private readonly shared: Shared;
  private inTransaction = false;

  constructor(shared: Shared) {
    this.shared = shared;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { settings, handleTurns } = this.shared;
    if (!this.inTransaction) {
      return retrying(settings, deadlineOf(settings), async () => {
        await handleTurns.take(undefined);
        try {
          return this.run<R>(query);
        } finally {
          handleTurns.give();
        }
      });
    }
    // A full disk makes SQLite roll back by itself; what came after would then be written without the rest.
    if (!settings.handle.inTransaction) throw new StoreError('store_failed', 'the transaction was rolled back by an earlier failure');
    return retrying(settings, deadlineOf(settings), () => this.run<R>(query));
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator; nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('streaming is not supported; read in batches');
  }

  async begin(): Promise<void> {
    const { settings, writerTurns } = this.shared;
    const durable = settings.scope.getStore()?.durable === true;
    const deadline = deadlineOf(settings);
    await writerTurns.take({ durable });
    try {
      // The writer before may have left its transaction open, to be committed with this one.
      if (!this.shared.group) await this.beginGroup(durable, deadline);
      settings.handle.exec('savepoint member');
      this.inTransaction = true;
    } catch (error) {
      if (this.shared.group) this.dropGroup(error);
      else writerTurns.give();
      throw error;
    }
  }

  private async beginGroup(durable: boolean, deadline: number): Promise<void> {
    const { settings, handleTurns } = this.shared;
    await retrying(settings, deadline, async () => {
      await handleTurns.take(undefined);
      try {
        this.raiseOrLower(durable ? 'FULL' : 'NORMAL');
        settings.handle.exec('begin immediate');
      } catch (error) {
        handleTurns.give();
        throw error;
      }
    });
    this.shared.group = { durable, size: 0, waiting: [] };
  }

  async commit(): Promise<void> {
    const { settings, group } = this.shared;
    if (!group) throw new StoreError('store_failed', 'the transaction was rolled back by an earlier failure');
    settings.handle.exec('release member');
    this.inTransaction = false;
    group.size += 1;
    if (!this.canGoOn(group)) return this.commitGroup(group);
    const committed = new Promise<void>((resolve, reject) => group.waiting.push({ resolve, reject }));
    this.shared.writerTurns.give();
    return committed;
  }

  /** Another writer waits, and may share the commit. */
  private canGoOn(group: Group): boolean {
    return !group.durable && group.size < largestGroup && this.shared.writerTurns.next()?.durable === false;
  }

  private async commitGroup(group: Group): Promise<void> {
    const { settings } = this.shared;
    try {
      await retrying(settings, deadlineOf(settings), () => settings.handle.exec('commit'));
    } catch (error) {
      this.dropGroup(error);
      throw error;
    }
    this.leave();
    for (const member of group.waiting) member.resolve();
  }

  /** Nothing of it counts. Where SQLite rolled back by itself, a second rollback would hide the reason. */
  private dropGroup(error: unknown): void {
    const { settings, group } = this.shared;
    try {
      if (settings.handle.inTransaction) settings.handle.exec('rollback');
    } finally {
      this.leave();
      for (const member of group?.waiting ?? []) member.reject(error);
    }
  }

  async rollback(): Promise<void> {
    if (!this.inTransaction) return;
    this.inTransaction = false;
    const { settings, group, writerTurns } = this.shared;
    if (!group) return;
    if (group.waiting.length === 0 || !settings.handle.inTransaction) return this.dropGroup(new StoreError('store_failed', 'the transaction was rolled back by an earlier failure'));
    settings.handle.exec('rollback to member');
    settings.handle.exec('release member');
    if (this.canGoOn(group)) writerTurns.give();
    else await this.commitGroup(group);
  }

  private leave(): void {
    this.shared.group = undefined;
    this.shared.handleTurns.give();
    this.shared.writerTurns.give();
  }

  /** Asked of SQLite only when it changes. */
  private raiseOrLower(synchronous: Shared['synchronous']): void {
    if (this.shared.synchronous === synchronous) return;
    this.shared.settings.handle.pragma(`synchronous = ${synchronous}`);
    this.shared.synchronous = synchronous;
  }

  private run<R>(query: CompiledQuery): QueryResult<R> {
    const statement = this.prepared(query.sql);
    if (statement.reader) return { rows: statement.all(query.parameters) as R[] };
    const { changes, lastInsertRowid } = statement.run(query.parameters);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  private prepared(sql: string): SqliteDatabase.Statement {
    const { settings, statements } = this.shared;
    const known = statements.get(sql);
    if (known) return known;
    const statement = settings.handle.prepare(sql);
    if (statements.size > 500) statements.clear();
    statements.set(sql, statement);
    return statement;
  }
}

const deadlineOf = (settings: SqliteSettings): number => settings.clock.now() + (settings.waitMs ?? longestWaitMs);

/** Runs `work`, again while another process holds the database; a StoreError after the deadline. */
async function retrying<T>(settings: SqliteSettings, deadline: number, work: () => T | Promise<T>): Promise<T> {
  const { clock } = settings;
  for (let pauseMs = firstRetryMs; ; pauseMs = Math.min(pauseMs * 2, longestRetryMs)) {
    try {
      return await work();
    } catch (error) {
      if (!isBusy(error)) throw translated(error);
      if (clock.now() >= deadline) throw new StoreError('store_busy', `the database is held by another process; waited ${Math.round((settings.waitMs ?? longestWaitMs) / 1000)} s`, { cause: error });
      await sleep(clock, pauseMs);
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
