/** The record of a run: every step in a chain that shows any change, and one audit row for each thing that somebody may ask about later. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { brokenAudit } from '../../src/store/audit.ts';
import { brokenChain } from '../../src/store/steps.ts';
import { idle, lin, runsOf, stepsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { purgeTool, Team } from '../fakes/team.ts';
import { auditOf, buttonOn, cardOf, inTurn, pressOn, purge } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const words = ['blue whale', 'orange table', 'green answer', 'purple message', 'silver reason'];

/** Refused, asked, wrong person, approved, posted, denied in writing, answered. */
async function wholeStory(): Promise<{ runId: string; cards: string[] }> {
  team = await Team.start({
    clock,
    tools: [purgeTool([])],
    script: inTurn(
      { calls: [{ name: 'no_such_tool', args: { note: words[0] } }] },
      purge(words[1] ?? ''),
      { calls: [{ name: 'send_group_message', args: { group_name: 'all', content: words[3] } }] },
      { calls: [{ name: 'send_group_message', args: { group_name: 'ops', content: words[3] } }] },
      { text: words[2] ?? '' },
    ),
  });
  const asked = team.platform.say(lin, `please ${words[0]}`);
  await team.submit(asked);
  const first = await cardOf(team);
  await pressOn(team, first, 'approve', zhou);
  await pressOn(team, first, 'approve', lin);
  const second = await cardOf(team, 2);
  const [, code = ''] = /code `(\w{4})`/.exec(second.text) ?? [];
  const cards = [first, second].map((card) => card.keys.find((key) => key.endsWith('/card'))?.replace('/card', '') ?? '');
  await team.say(lin, `deny ${code} ${words[4]}`, { thread: asked.place.thread });
  await idle(team);
  const [run] = await runsOf(team);
  return { runId: run?.id ?? '', cards };
}

describe('the steps of a run', () => {
  it('form a chain without a gap that verifies', async () => {
    const { runId } = await wholeStory();
    const steps = await stepsOf(team);
    expect(steps.map((step) => step.seq)).toEqual(steps.map((_, index) => index + 1));
    expect(steps.at(-1)?.type).toBe('run_completed');
    expect(await brokenChain(team.store.db, runId)).toBeUndefined();
  });

  it.each([
    { change: 'data', as: { data: '{"text":"something else"}' }, says: 'the data of step 3 was changed' },
    { change: 'time', as: { at: 1 }, says: 'the hash of step 3 does not follow from the one before' },
    { change: 'type', as: { type: 'reviewed' }, says: 'the hash of step 3 does not follow from the one before' },
  ])('show that the $change of one was changed', async ({ as, says }) => {
    const { runId } = await wholeStory();
    await team.store.transact((tx) => tx.updateTable('steps').set(as).where('run_id', '=', runId).where('seq', '=', 3).execute());
    expect(await brokenChain(team.store.db, runId)).toBe(says);
  });

  it('show that the last one was taken away', async () => {
    const { runId } = await wholeStory();
    const last = (await stepsOf(team)).length;
    await team.store.transact((tx) => tx.deleteFrom('steps').where('run_id', '=', runId).where('seq', '=', last).execute());
    expect(await brokenChain(team.store.db, runId)).toBe('the steps do not end where the run does');
  });

  it('show that the end was rewritten together with the run: the audit knows the last hash', async () => {
    const { runId } = await wholeStory();
    const ended = (await auditOf(team)).find((entry) => entry.kind === 'run_ended');
    const [run] = await runsOf(team);
    expect(ended).toMatchObject({ subject: runId, data: { ending: 'run_completed', hash: run?.head } });
  });
});

describe('the audit', () => {
  it('has one row for each refusal, press, decision, start, delivery and ending, in order, and nobody twice', async () => {
    const { runId, cards } = await wholeStory();
    const [first, second] = cards;
    const rows = (await auditOf(team)).map(({ kind, actor, subject, data }) => ({ kind, actor, subject: subject.replace(runId, 'run'), ...(data as object) }));
    const ofCard = (id: string | undefined) => id?.replace(runId, 'run');
    const byPeople = rows.filter((row) => row.kind !== 'delivery');
    const calls = (await stepsOf(team)).flatMap((step) => (step.type === 'model_responded' ? step.toolCalls.map((call) => call.id) : []));
    expect(byPeople).toEqual([
      { kind: 'refusal', actor: 'hermes', subject: calls[0], tool: 'no_such_tool', error: 'not_found' },
      { kind: 'press', actor: zhou.id, subject: ofCard(first), counted: false, reason: 'not entitled' },
      { kind: 'press', actor: lin.id, subject: ofCard(first), counted: true },
      { kind: 'decision', actor: lin.id, subject: ofCard(first), outcome: 'approved' },
      { kind: 'started', actor: 'hermes', subject: calls[1], level: 2, attempt: 1 },
      { kind: 'press', actor: lin.id, subject: ofCard(second), counted: true },
      { kind: 'decision', actor: lin.id, subject: ofCard(second), outcome: 'declined' },
      { kind: 'started', actor: 'hermes', subject: calls[3], level: 1, attempt: 1 },
      { kind: 'run_ended', actor: 'hermes', subject: 'run', ending: 'run_completed', hash: expect.any(String) },
    ]);
    const subjects = [`${ofCard(first)}/card`, `${ofCard(first)}/settled`, `${ofCard(second)}/card`, `${ofCard(second)}/settled`, `run/call/${calls[3]}`, 'run/answer'];
    const deliveries = rows.filter((row) => row.kind === 'delivery').sort((a, b) => subjects.indexOf(a.subject) - subjects.indexOf(b.subject));
    expect(deliveries).toEqual(subjects.map((subject) => ({ kind: 'delivery', actor: 'hermes', subject, state: 'sent' })));
  });

  it('holds no word of any message, argument or reason', async () => {
    await wholeStory();
    const rows = JSON.stringify(await team.store.db.selectFrom('audit').selectAll().execute());
    for (const word of words) expect(rows).not.toContain(word);
  });

  it('is a chain over all runs that shows a change and a missing row', async () => {
    await wholeStory();
    await team.say(zhou, 'one more');
    await idle(team);
    expect(await brokenAudit(team.store.db)).toBeUndefined();
    await team.store.transact((tx) => tx.updateTable('audit').set({ actor: 'console:test:eve' }).where('id', '=', 4).execute());
    expect(await brokenAudit(team.store.db)).toBe(4);
    await team.store.transact((tx) => tx.updateTable('audit').set({ actor: lin.id }).where('id', '=', 4).execute());
    await team.store.transact((tx) => tx.deleteFrom('audit').where('id', '=', 2).execute());
    expect(await brokenAudit(team.store.db)).toBe(3);
  });

  it('goes on after a restart', async () => {
    team = await Team.start({ clock, config: 'tools: { level2: [purge_records] }', tools: [purgeTool([])], script: inTurn(purge('x'), { text: 'Done.' }) });
    await team.say(lin, 'purge');
    const card = await cardOf(team);
    await team.kill();
    await team.start();
    await team.press(buttonOn(card, 'approve').interactionId, 'approve', lin);
    await idle(team);
    expect(await brokenAudit(team.store.db)).toBeUndefined();
    expect((await auditOf(team)).map((entry) => entry.kind).filter((kind) => kind !== 'delivery')).toEqual(['press', 'decision', 'started', 'run_ended']);
  });

  it('names who stopped a run', async () => {
    team = await Team.start({ clock, config: 'tools: { level2: [purge_records] }', tools: [purgeTool([])], script: inTurn(purge('x')) });
    const asked = team.platform.say(lin, 'purge');
    await team.submit(asked);
    await cardOf(team);
    await team.say(lin, 'stop', { thread: asked.place.thread });
    await idle(team);
    expect((await auditOf(team)).filter((entry) => entry.kind !== 'delivery')).toMatchObject([
      { kind: 'decision', actor: 'hermes', data: { outcome: 'withdrawn' } },
      { kind: 'run_ended', actor: lin.id, data: { ending: 'run_cancelled', reason: 'asked' } },
    ]);
  });
});
