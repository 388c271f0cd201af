/** The group chat in the browser: a platform that needs no credentials and keeps its messages in our own database. */
import type { Clock } from '../../clock.ts';
import type { Adapter, ChannelRef } from '../types.ts';
import { createAdapter } from './adapter.ts';
import { createChanges } from './changes.ts';
import { Intake } from './intake.ts';
import { createMessageIds } from './message-ids.ts';
import { createServer } from './server.ts';
import type { ConsoleServer, ConsoleStorage } from './types.ts';

export type ConsoleDeps = { readonly storage: ConsoleStorage; readonly clock: Clock; readonly channels: readonly ChannelRef[] };

export function createConsole({ storage, clock, channels }: ConsoleDeps): { adapter: Adapter; server: ConsoleServer } {
  const shared = { storage, clock, newId: createMessageIds(clock), intake: new Intake({ storage, clock }), changes: createChanges() };
  return { adapter: createAdapter({ ...shared, channels }), server: createServer(shared) };
}
