import { PostgresDialect } from 'kysely';
import pg from 'pg';

const int8 = 20;

/** 64-bit integers arrive as numbers, as they do from SQLite; ours stay below 2^53. */
export function postgresDialect(url: string): PostgresDialect {
  const types = { getTypeParser: (oid: number, format?: 'text' | 'binary') => (oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) };
  const pool = new pg.Pool({ connectionString: url, max: 10, connectionTimeoutMillis: 10_000, keepAlive: true, types: types as pg.CustomTypesConfig });
  // A connection that breaks would otherwise end the process, idle or taken; the next query reports it.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return new PostgresDialect({ pool });
}

/** Connection errors and the server's shutdown class (57P…), as opposed to a refused statement. */
export function isConnectionLost(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return /^(08|57P|53)/.test(code) || ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'].includes(code);
  return error instanceof Error && /Connection terminated|not queryable|timeout exceeded when trying to connect/.test(error.message);
}
