import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { DialectName } from './index.ts';

/** The same tables on both databases; only the words for "integer of 64 bits", "counted by itself" and "strict" differ. */
export function core(dialect: DialectName): Migration {
  return {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const statement of [...tables(dialect), ...indexes]) await sql.raw(statement).execute(db);
    },
  };
}

function tables(dialect: DialectName): string[] {
  const int = dialect === 'sqlite' ? 'integer' : 'bigint';
  const counted = dialect === 'sqlite' ? 'integer primary key autoincrement' : 'bigint generated always as identity primary key';
  const strict = dialect === 'sqlite' ? ' strict' : '';
  const table = (name: string, columns: string) => `create table ${name} (${columns})${strict}`;
  return [
    table('inbox', `platform text not null, app text not null, message_key text not null, received_at ${int} not null, outcome text not null, reason text, run_id text, raw text, primary key (platform, app, message_key)`),
    table(
      'conversations',
      `id text primary key, platform text not null, tenant text not null, channel text not null, thread text not null, person text not null, audience text not null,
       language text, seen_through text, last_post_at ${int}, created_at ${int} not null, unique (platform, tenant, channel, thread, person)`,
    ),
    table(
      'runs',
      `position ${counted}, id text not null unique, conversation_id text not null references conversations (id), lane text not null, status text not null, version ${int} not null, head text not null,
       owner text, lease_until ${int}, recoveries ${int} not null, trigger_kind text not null, message_key text, asker text not null, input_tokens ${int} not null, output_tokens ${int} not null,
       delivery text, created_at ${int} not null, started_at ${int}, ended_at ${int}`,
    ),
    table(
      'steps',
      `run_id text not null references runs (id), seq ${int} not null, type text not null, data text not null, v ${int} not null, at ${int} not null, salt text not null, mac text not null, hash text not null, primary key (run_id, seq)`,
    ),
    table(
      'interactions',
      `id text primary key, run_id text references runs (id), conversation_id text not null references conversations (id), platform text not null, tenant text not null, call_id text, kind text not null, code text not null,
       body text not null, sha text not null, may_answer text not null, needed ${int} not null, expires_in_ms ${int} not null, created_at ${int} not null, delivered_at ${int}, remind_at ${int}, expires_at ${int},
       resolved_at ${int}, outcome text, answered_by text`,
    ),
    table(
      'outbox',
      `id ${counted}, key text not null unique, platform text not null, tenant text not null, channel text not null, conversation_id text not null references conversations (id), run_id text, interaction_id text,
       kind text not null, priority ${int} not null, level ${int} not null, body text not null, replaces_key text, state text not null, attempts ${int} not null, repeats ${int} not null, attempt_at ${int}, next_attempt_at ${int} not null,
       owner text, lease_until ${int}, parts text not null, error text, created_at ${int} not null, settled_at ${int}`,
    ),
    table('posts', `platform text not null, tenant text not null, channel text not null, message_id text not null, outbox_id ${int} not null, conversation_id text not null, primary key (platform, tenant, channel, message_id)`),
    table('live', `run_id text primary key, conversation_id text not null, platform text not null, tenant text not null, place text not null, handle text`),
    table('memo', `adapter text not null, key text not null, value text not null, expires_at ${int}, primary key (adapter, key)`),
    table('audit', `id ${counted}, at ${int} not null, kind text not null, actor text not null, run_id text, conversation_id text, subject text not null, data text not null, hash text not null`),
    table('console_channels', `id text primary key, name text not null, created_at ${int} not null`),
    table(
      'console_messages',
      `id ${counted}, message_id text not null unique, channel text not null, thread text not null, author text not null, text text not null, mention ${int} not null, quote text, body text, outbound_key text unique,
       progress ${int} not null, acknowledged ${int} not null, at ${int} not null, edited_at ${int}, deleted_at ${int}`,
    ),
  ];
}

const indexes = [
  `create unique index runs_one_running_per_lane on runs (lane) where status = 'running'`,
  // What is at work is little beside what has ended, so it has indexes of its own; queries must name the statuses literally to use them.
  `create index runs_queued on runs (lane, position) where status = 'queued'`,
  `create index runs_active on runs (conversation_id, position) where status in ('queued', 'running', 'suspended')`,
  'create index runs_by_status on runs (status, position)',
  'create index runs_by_conversation on runs (conversation_id, position)',
  'create index runs_by_message on runs (message_key)',
  'create index inbox_by_time on inbox (received_at)',
  `create unique index interactions_open_codes on interactions (platform, tenant, code) where resolved_at is null`,
  'create index interactions_by_code on interactions (platform, tenant, code, created_at)',
  'create index interactions_by_conversation on interactions (conversation_id, resolved_at)',
  'create index interactions_by_run on interactions (run_id, resolved_at)',
  'create index interactions_by_time on interactions (created_at)',
  'create index interactions_by_expiry on interactions (resolved_at, expires_at)',
  'create index interactions_by_reminder on interactions (resolved_at, remind_at)',
  `create index outbox_due on outbox (conversation_id, id) where state = 'due'`,
  'create index outbox_by_run on outbox (run_id, state)',
  'create index outbox_by_interaction on outbox (interaction_id)',
  'create index audit_by_run on audit (run_id, id)',
  'create index console_messages_by_thread on console_messages (channel, thread, id)',
  'create index console_messages_by_channel on console_messages (channel, id)',
  'create index console_messages_unacknowledged on console_messages (acknowledged, id)',
];
