/** The record over HTTP: runs with their steps, questions, audit, usage. Reads only, but for stopping a run. */
import type { Hono } from 'hono';
import { z } from 'zod';
import type { Interaction, Outcome } from '../agent/types.ts';
import { iso } from '../clock.ts';
import { NotFoundError } from '../errors.ts';
import { listAudit } from '../store/audit.ts';
import { type InteractionRow, listInteractions } from '../store/interactions.ts';
import { type ConversationPlace, placesOf, usagePerDay } from '../store/lists.ts';
import { listRuns, type RunRow, readRun } from '../store/runs.ts';
import { readSteps } from '../store/steps.ts';
import type { Store } from '../store/store.ts';
import { count, readBody, readQuery } from './body.ts';
import type { HttpDeps } from './deps.ts';
import { RequestError } from './errors.ts';

const dayMs = 86_400_000;
const runsCounted = 20_000;
/** Whoever has the shared token, or sits at the machine. */
const admin = 'login:admin';

const page = z.object({ limit: count(500, 50), before: z.string().optional() });
const questions = z.object({ limit: count(500, 50), open: z.enum(['true', 'false', '1', '0']).optional() });
const usageQuery = z.object({ days: count(31, 7) });

export function recordRoutes(app: Hono, deps: HttpDeps): void {
  const { store } = deps;
  app.get('/api/runs', async (c) => {
    const { limit, before } = readQuery(c, page);
    const rows = await listRuns(store.db, { limit, ...(before === undefined ? {} : { before: await positionOf(store, before) }) });
    const places = await placesOf(
      store.db,
      rows.map((row) => row.conversation_id),
    );
    return c.json({ runs: rows.map((row) => runOf(row, places)) });
  });
  app.get('/api/runs/:id', async (c) => {
    const row = await existing(store, c.req.param('id'));
    const steps = (await readSteps(store.db, row.id)).map(({ seq, type, at, ...data }) => ({ seq, type, data, at: iso(at) }));
    return c.json({ run: runOf(row, await placesOf(store.db, [row.conversation_id])), steps });
  });
  app.post('/api/runs/:id/stop', async (c) => {
    await readBody(c, z.strictObject({}));
    const state = await deps.stopRun(c.req.param('id'), admin);
    if (state === 'not_found') throw noRun(c.req.param('id'));
    return c.json({ state });
  });
  app.get('/api/interactions', async (c) => {
    const { limit, open } = readQuery(c, questions);
    const rows = await listInteractions(store.db, { limit, openOnly: open === 'true' || open === '1' });
    const places = await placesOf(
      store.db,
      rows.map((row) => row.conversation_id),
    );
    return c.json({ interactions: rows.map((row) => interactionOf(row, places)) });
  });
  app.get('/api/audit', async (c) => {
    const { limit, before } = readQuery(c, page);
    const rows = await listAudit(store.db, { limit, ...(before === undefined ? {} : { before: numberIn('before', before) }) });
    return c.json({ audit: rows.map((row) => ({ ...row, at: iso(row.at) })) });
  });
  app.get('/api/connections', (c) => c.json({ connections: deps.connections() }));
  app.get('/api/usage', async (c) => {
    const { days } = readQuery(c, usageQuery);
    const zone = deps.config.timezone;
    const dayOf = dayIn(zone);
    const usage = await usagePerDay(store.db, { since: deps.clock.now() - days * dayMs, mostRuns: runsCounted, dayOf });
    return c.json({ timezone: zone, ...usage });
  });
}

async function existing(store: Store, id: string): Promise<RunRow> {
  const row = await readRun(store.db, id);
  if (!row) throw noRun(id);
  return row;
}

const noRun = (id: string): NotFoundError => new NotFoundError(`There is no run ${id}.`);

/** A page begins before a run, named by its id or its position. */
async function positionOf(store: Store, before: string): Promise<number> {
  return /^\d+$/.test(before) ? numberIn('before', before) : (await existing(store, before)).position;
}

function numberIn(field: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RequestError('invalid', `${field}: must be a number, got ${JSON.stringify(text.slice(0, 80))}`);
  return value;
}

function dayIn(timeZone: string): (at: number) => string {
  const format = new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' });
  const known = new Map<number, string>();
  const quarterHour = 900_000;
  return (at) => {
    const quarter = Math.floor(at / quarterHour);
    const day = known.get(quarter) ?? format.format(at);
    known.set(quarter, day);
    return day;
  };
}

type Places = ReadonlyMap<string, ConversationPlace>;
const when = (at: number | null): string | null => (at === null ? null : iso(at));

function placeOf(places: Places, conversationId: string): Omit<ConversationPlace, 'id'> | null {
  const found = places.get(conversationId);
  return found ? { platform: found.platform, tenant: found.tenant, channel: found.channel, thread: found.thread } : null;
}

function runOf(row: RunRow, places: Places) {
  return {
    id: row.id,
    position: row.position,
    status: row.status,
    trigger: row.trigger_kind,
    conversation: row.conversation_id,
    place: placeOf(places, row.conversation_id),
    asker: row.asker,
    messageKey: row.message_key,
    usage: { inputTokens: row.input_tokens, outputTokens: row.output_tokens },
    recoveries: row.recoveries,
    delivery: row.delivery,
    createdAt: iso(row.created_at),
    startedAt: when(row.started_at),
    endedAt: when(row.ended_at),
  };
}

function interactionOf(row: InteractionRow, places: Places) {
  const { question, options, tool, args, mayAnswer } = JSON.parse(row.body) as Interaction;
  const outcome = row.outcome === null ? null : (JSON.parse(row.outcome) as Outcome);
  return {
    id: row.id,
    runId: row.run_id,
    kind: row.kind,
    code: row.code,
    state: outcome?.kind ?? 'open',
    question,
    options,
    ...(tool === undefined ? {} : { tool, args }),
    mayAnswer,
    conversation: row.conversation_id,
    place: placeOf(places, row.conversation_id),
    createdAt: iso(row.created_at),
    deliveredAt: when(row.delivered_at),
    expiresAt: when(row.expires_at),
    resolvedAt: when(row.resolved_at),
    outcome,
    answeredBy: row.answered_by,
  };
}
