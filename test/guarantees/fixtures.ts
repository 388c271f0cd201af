/** What the tests of decisions and deliveries share. */
import type { Receipt } from '../../src/adapters/types.ts';
import { listAudit } from '../../src/store/audit.ts';
import type { InteractionRow } from '../../src/store/interactions.ts';
import type { OutboxRow } from '../../src/store/outbox.ts';
import type { FakeClock } from '../fakes/clock.ts';
import type { Posted } from '../fakes/platform.ts';
import type { Script, Scripted, Team } from '../fakes/team.ts';
import { until } from '../fakes/team.ts';

export const purge = (...tables: readonly string[]): Scripted => ({ calls: tables.map((table) => ({ name: 'purge_records', args: { table } })) });
export const send = (group_name: string, content: string): Scripted => ({ calls: [{ name: 'send_group_message', args: { group_name, content } }] });

/** One reply after the other; the last one again and again. */
export const inTurn =
  (...replies: readonly Scripted[]): Script =>
  (_request, count) =>
    replies[Math.min(count, replies.length) - 1] as Scripted;

export const codeOn = (card: Posted | undefined): string => /(?:code|编号) `([0-9A-Z]{4})`/.exec(card?.text ?? '')?.[1] ?? '';

/** The buttons that a posted card shows now. */
export function buttonOn(card: Posted | undefined, choice: string): { interactionId: string; choice: string } {
  const button = card?.buttons?.find((b) => b.choice === choice);
  if (!button) throw new Error(`no button ${choice} on ${JSON.stringify(card?.text)}`);
  return button;
}

export const pressOn = (team: Team, card: Posted | undefined, choice: string, by: Parameters<Team['press']>[2]): Promise<Receipt> => team.press(buttonOn(card, choice).interactionId, choice, by);

/** The n-th card that was ever posted, in place of a progress bubble or by itself. */
export const cardOf = (team: Team, n = 1): Promise<Posted> => until(`card ${n}`, () => team.platform.ours().filter((m) => m.keys.some((key) => key.endsWith('/card')))[n - 1]);

/** Oldest first: what happened, who did it, and what is said of it. */
export async function auditOf(team: Team): Promise<{ kind: string; actor: string; runId: string | null; subject: string; data: unknown }[]> {
  return (await listAudit(team.store.db, { limit: 1000 })).reverse().map(({ kind, actor, runId, subject, data }) => ({ kind, actor, runId, subject, data }));
}

export const interactionsOf = (team: Team): Promise<InteractionRow[]> => team.store.db.selectFrom('interactions').selectAll().orderBy('created_at').execute();
export const outboxOf = (team: Team): Promise<OutboxRow[]> => team.store.db.selectFrom('outbox').selectAll().orderBy('id').execute() as Promise<OutboxRow[]>;

/** Moves time on in small steps until it is so; fails after `limitMs` of that time. */
export async function within(clock: FakeClock, limitMs: number, what: string, look: () => unknown): Promise<void> {
  for (let passed = 0; ; passed += 100) {
    if (await look()) return;
    if (passed >= limitMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await clock.advance(100);
  }
}
