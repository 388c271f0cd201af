/** The tables as Kysely sees them. Times are integer milliseconds, booleans 0 or 1, JSON is text, on both databases. */
import type { Generated, Kysely, Transaction } from 'kysely';

export type InboxTable = { platform: string; app: string; message_key: string; received_at: number; outcome: string; reason: string | null; run_id: string | null; raw: string | null };

export type ConversationTable = {
  id: string;
  platform: string;
  tenant: string;
  channel: string;
  thread: string;
  person: string;
  audience: string;
  language: string | null;
  seen_through: string | null;
  last_post_at: number | null;
  created_at: number;
};

export type RunTable = {
  position: Generated<number>;
  id: string;
  conversation_id: string;
  lane: string;
  status: string;
  version: number;
  head: string;
  owner: string | null;
  lease_until: number | null;
  recoveries: number;
  trigger_kind: string;
  message_key: string | null;
  asker: string;
  input_tokens: number;
  output_tokens: number;
  delivery: string | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
};

export type StepTable = { run_id: string; seq: number; type: string; data: string; v: number; at: number; salt: string; mac: string; hash: string };

export type InteractionTable = {
  id: string;
  run_id: string | null;
  conversation_id: string;
  platform: string;
  tenant: string;
  call_id: string | null;
  kind: string;
  code: string;
  body: string;
  sha: string;
  may_answer: string;
  needed: number;
  expires_in_ms: number;
  created_at: number;
  delivered_at: number | null;
  remind_at: number | null;
  expires_at: number | null;
  resolved_at: number | null;
  outcome: string | null;
  answered_by: string | null;
};

export type OutboxTable = {
  id: Generated<number>;
  key: string;
  platform: string;
  tenant: string;
  channel: string;
  conversation_id: string;
  run_id: string | null;
  interaction_id: string | null;
  kind: string;
  priority: number;
  level: number;
  body: string;
  replaces_key: string | null;
  state: string;
  attempts: number;
  repeats: number;
  attempt_at: number | null;
  next_attempt_at: number;
  owner: string | null;
  lease_until: number | null;
  parts: string;
  error: string | null;
  created_at: number;
  settled_at: number | null;
};

export type PostTable = { platform: string; tenant: string; channel: string; message_id: string; outbox_id: number; conversation_id: string };
export type LiveTable = { run_id: string; conversation_id: string; platform: string; tenant: string; place: string; handle: string | null };
export type MemoTable = { adapter: string; key: string; value: string; expires_at: number | null };
export type AuditTable = { id: Generated<number>; at: number; kind: string; actor: string; run_id: string | null; conversation_id: string | null; subject: string; data: string; hash: string };

export type ConsoleChannelTable = { id: string; name: string; created_at: number };
export type ConsoleMessageTable = {
  id: Generated<number>;
  message_id: string;
  channel: string;
  thread: string;
  author: string;
  text: string;
  mention: number;
  quote: string | null;
  body: string | null;
  outbound_key: string | null;
  progress: number;
  acknowledged: number;
  at: number;
  edited_at: number | null;
  deleted_at: number | null;
};

export type Schema = {
  inbox: InboxTable;
  conversations: ConversationTable;
  runs: RunTable;
  steps: StepTable;
  interactions: InteractionTable;
  outbox: OutboxTable;
  posts: PostTable;
  live: LiveTable;
  memo: MemoTable;
  audit: AuditTable;
  console_channels: ConsoleChannelTable;
  console_messages: ConsoleMessageTable;
};

export type Database = Kysely<Schema>;
/** Every write happens in one of these (`Store.transact`). */
export type Tx = Transaction<Schema>;
export type Reader = Database | Tx;
