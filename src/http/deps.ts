/** What the web server needs of the rest. */
import type { ConsoleServer } from '../adapters/console/types.ts';
import type { PlatformHealth } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';

export type HttpDeps = {
  readonly config: Pick<Config, 'server' | 'language' | 'timezone' | 'demo'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Store;
  readonly console: ConsoleServer;
  readonly version: string;
  /** Written beside the lock, for the command line on this machine. */
  readonly localToken?: string;
  /** `by` is recorded as who stopped it. */
  stopRun(runId: string, by: string): Promise<'stopped' | 'ended' | 'not_found'>;
  /** Everything but the database, which `/ready` asks itself. */
  ready(): { readonly ok: boolean; readonly problems: readonly string[] };
  connections(): readonly { readonly platform: string; readonly tenant: string; readonly health: PlatformHealth }[];
};
