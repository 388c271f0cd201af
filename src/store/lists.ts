/** What operators look at: bounded lists and sums beside the named queries of each table. */
import type { ConversationTable, Reader } from './schema.ts';

export type ConversationPlace = Pick<ConversationTable, 'id' | 'platform' | 'tenant' | 'channel' | 'thread'>;

export async function placesOf(db: Reader, conversationIds: readonly string[]): Promise<Map<string, ConversationPlace>> {
  if (conversationIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('conversations')
    .select(['id', 'platform', 'tenant', 'channel', 'thread'])
    .where('id', 'in', [...new Set(conversationIds)])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

export type DayUsage = { readonly day: string; readonly runs: number; readonly inputTokens: number; readonly outputTokens: number };

const rowsAtOnce = 500;

/** Newest day first. Reads at most `mostRuns` runs, from the newest back; `complete` is false when older ones of the period were left out. */
export async function usagePerDay(db: Reader, period: { since: number; mostRuns: number; dayOf: (at: number) => string }): Promise<{ days: DayUsage[]; complete: boolean }> {
  const days = new Map<string, DayUsage>();
  let before = Number.MAX_SAFE_INTEGER;
  for (let read = 0; read < period.mostRuns; read += rowsAtOnce) {
    const rows = await db.selectFrom('runs').select(['position', 'created_at', 'input_tokens', 'output_tokens']).where('position', '<', before).orderBy('position', 'desc').limit(rowsAtOnce).execute();
    for (const row of rows) {
      if (row.created_at < period.since) return { days: [...days.values()], complete: true };
      const day = period.dayOf(row.created_at);
      const sum = days.get(day) ?? { day, runs: 0, inputTokens: 0, outputTokens: 0 };
      days.set(day, { day, runs: sum.runs + 1, inputTokens: sum.inputTokens + row.input_tokens, outputTokens: sum.outputTokens + row.output_tokens });
      before = row.position;
    }
    if (rows.length < rowsAtOnce) return { days: [...days.values()], complete: true };
  }
  return { days: [...days.values()], complete: false };
}
