/** Migrations by name, in order. A static map, so that an emitted package works like the sources. */
import type { Migration } from 'kysely/migration';
import { core } from './001-core.ts';

export type DialectName = 'sqlite' | 'postgres';

export function migrationsFor(dialect: DialectName): Record<string, Migration> {
  return { '001-core': core(dialect) };
}
