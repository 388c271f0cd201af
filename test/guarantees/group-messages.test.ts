/** What the bot posts to a group because a run asked for it: where it may go, who confirms it, and what the run is told of its delivery. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlatformError } from '../../src/errors.ts';
import { idle, inThread, lin, resultsIn, runsOf, saidIn, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import type { Posted } from '../fakes/platform.ts';
import { type Script, Team, until } from '../fakes/team.ts';
import { auditOf, cardOf, inTurn, interactionsOf, outboxOf, pressOn, send } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let thread: string;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

async function ask(script: Script, options: Partial<ConstructorParameters<typeof Team>[0]> = {}): Promise<string> {
  team = await Team.start({ clock, script, ...options });
  const event = team.platform.say(lin, 'tell them');
  thread = event.place.thread;
  await team.submit(event);
  return thread;
}

/** A message to another group, approved. */
async function approved(content = 'Release 2.4 is out.', options: Parameters<typeof ask>[1] = {}): Promise<Posted> {
  await ask(inTurn(send('all', content), { text: 'Told them.' }), options);
  const card = await cardOf(team);
  await pressOn(team, card, 'approve', lin);
  return card;
}

const results = () => resultsIn(team.requests.at(-1));

describe('a group that may post to two groups only', () => {
  const config = "language: zh\ntools: { level2: [send_group_message] }\ngroups: [{ match: 'console:C_OPS', send_to: ['console:C_OPS', 'console:#值班群'] }]";

  it('posts nowhere else, whatever the model calls the others; nothing is told of them, and all of it is on record', async () => {
    const targets = ['全员群', 'C_ALL', 'console:test:wang', '值班群'];
    const script: Script = (_r, n) => (n <= targets.length ? send(targets[n - 1] ?? '', '今晚停机') : { text: '发了。' });
    team = new Team({ clock, config, script });
    team.platform.channels.splice(0, 3, { id: 'C_OPS', name: '运维群' }, { id: 'C_ALL', name: '全员群' }, { id: 'C_GUEST', name: '客户群' }, { id: 'C_DUTY', name: '值班群' });
    await team.start();
    const asked = team.platform.say(lin, '通知大家');
    await team.submit(asked);
    const card = await cardOf(team);
    expect(team.platform.sends, 'the card is the first thing that reaches the platform').toBe(1);
    const refused = results();
    expect(refused).toHaveLength(3);
    for (const [index, text] of refused.entries()) {
      expect(text).toBe(`"${targets[index]}" is not among the groups that this group may post to. Nothing was posted. Do not try another name; an admin can add it to send_to.`);
    }
    for (const other of ['客户群', 'C_GUEST', '值班群', 'C_DUTY', '运维群']) expect(JSON.stringify(team.requests.at(-1)).replaceAll('"group_name":', '')).not.toContain(other);
    expect(card.text).toContain('#值班群 (C_DUTY)');
    await pressOn(team, card, 'approve', lin);
    await until('the message', () => team.platform.texts('C_DUTY').length === 1);
    await idle(team);
    expect(team.platform.texts('C_DUTY')[0]).toMatch(/^今晚停机\n\n/);
    expect([...team.platform.texts('C_ALL'), ...team.platform.texts('C_GUEST'), ...team.platform.texts('wang')]).toEqual([]);
    const audit = await auditOf(team);
    expect(audit.filter((entry) => entry.kind === 'refusal').map((entry) => entry.data)).toEqual(Array.from({ length: 3 }, () => ({ tool: 'send_group_message', error: 'permission' })));
    const [run] = await runsOf(team);
    const { subject } = audit.find((entry) => entry.kind === 'started') ?? { subject: '' };
    expect(audit).toContainEqual(expect.objectContaining({ kind: 'decision', actor: lin.id, data: { outcome: 'approved' } }));
    expect(audit).toContainEqual(expect.objectContaining({ kind: 'delivery', subject: `${run?.id}/call/${subject}` }));
  });
});

describe('a message to the own group', () => {
  it.each(['ops', '#ops', 'C_OPS'])('called "%s" needs no card, and is a post of its own on the main level', async (name) => {
    await ask(inTurn(send(name, '**Done:** backup'), { text: 'Told them.' }), { config: 'language: en' });
    await idle(team);
    expect(await interactionsOf(team)).toEqual([]);
    const [posted] = team.platform.ours().filter((m) => m.text.startsWith('**Done:** backup'));
    expect(posted).toMatchObject({ channel: 'C_OPS', thread: posted?.id });
    expect(results()).toEqual([`Posted 1 message at ${new Date(clock.now()).toISOString()} (message ${posted?.id}).`]);
    expect(inThread(team, thread)).toEqual(['Told them.']);
  });

  it('is on record like any other', async () => {
    await ask(inTurn(send('ops', 'Hi.'), { text: 'Told them.' }), { config: 'language: en' });
    await idle(team);
    expect((await auditOf(team)).map((entry) => entry.kind)).toEqual(['started', 'delivery', 'run_ended', 'delivery']);
  });
});

describe('a message to another group', () => {
  it.each([
    { language: 'en', line: '_Sent by the bot for 林一 (lin), from #ops._' },
    { language: 'zh', line: '_由机器人代 林一 (lin) 发送，来自 #ops。_' },
  ])('asks first, and says for whom and from where it comes ($language)', async ({ language, line }) => {
    await approved('Release 2.4 is out.', { config: `language: ${language}\ntools: { level2: [send_group_message] }\ngroups: [{ match: '*', send_to: ['*'] }]` });
    await idle(team);
    const [posted] = team.platform.ours('C_ALL');
    expect(posted?.text).toBe(`Release 2.4 is out.\n\n${line}`);
    expect(results()).toEqual([`Posted 1 message at ${new Date(clock.now()).toISOString()} (message ${posted?.id}).`]);
    expect(inThread(team, thread).at(-1)).toBe('Told them.');
  });

  it('that the asker denies is not posted', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'Not sent.' }));
    await pressOn(team, await cardOf(team), 'deny', lin);
    await idle(team);
    expect(team.platform.texts('C_ALL')).toEqual([]);
  });

  it('with a name that two groups have is refused until one is meant', async () => {
    team = new Team({ clock, script: inTurn(send('all', 'Hi.'), { text: 'Which one?' }) });
    team.platform.channels.push({ id: 'C_ALL2', name: 'all' });
    await team.start();
    await team.say(lin, 'tell them');
    await idle(team);
    expect(results()).toEqual(['More than one group is called "all". Ask the person which one is meant, and use its id.']);
    expect(await interactionsOf(team)).toEqual([]);
  });

  it('that does not exist is refused, and nothing is posted elsewhere instead', async () => {
    await ask(inTurn(send('nowhere', 'Hi.'), { text: 'No such group.' }));
    await idle(team);
    expect(results()).toEqual([expect.stringMatching(/^No group called "nowhere" is known here, or the bot is not in it\. Nothing was posted\./)]);
    expect(team.platform.texts()).toEqual(['No such group.']);
  });

  it('too long for one post goes out in parts, in order, and counts as one message', async () => {
    const content = Array.from({ length: 300 }, (_, n) => `Line ${n} of the long notes.`).join('\n');
    await ask(inTurn(send('all', content), { text: 'Told them.' }));
    await pressOn(team, await until('the buttons', () => team.platform.ours().find((m) => m.buttons)), 'approve', lin);
    await until('the answer', () => inThread(team, thread).includes('Told them.'));
    const parts = team.platform.ours('C_ALL');
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.map((m) => m.text).join('')).toBe(`${content}\n\n_Sent by the bot for 林一 (lin), from #ops._`);
    expect(results()).toEqual([expect.stringMatching(/^Posted 1 message at /)]);
  });

  it('is answered where it stands: a mention under it has it as context, in a conversation of its own', async () => {
    await approved();
    await idle(team);
    const [posted] = team.platform.ours('C_ALL');
    await team.say(zhou, 'what is new in it?', { channel: 'C_ALL', thread: posted?.id ?? '', mention: true });
    await idle(team);
    expect(team.platform.ours('C_ALL').at(-1)).toMatchObject({ text: 'Told them.', thread: posted?.id });
    const { db } = team.store;
    const [row] = (await outboxOf(team)).filter((r) => r.kind === 'group_message');
    const [, second] = await runsOf(team);
    expect(second?.conversation_id).toBe(row?.conversation_id);
    expect(
      await db
        .selectFrom('conversations')
        .select(['channel', 'thread'])
        .where('id', '=', row?.conversation_id ?? '')
        .execute(),
    ).toEqual([{ channel: 'C_ALL', thread: posted?.id }]);
    expect(saidIn(team.requests.at(-1) ?? { messages: [], tools: [], last: false })[0]).toContain('Release 2.4 is out.');
  });

  it('is answered by quoting it where the platform has no threads', async () => {
    await approved('Release 2.4 is out.', { can: { threads: false } });
    await idle(team);
    const [posted] = team.platform.ours('C_ALL');
    const reply = team.platform.say(zhou, 'what is new in it?', { channel: 'C_ALL', mention: true, quote: posted?.id ?? '' });
    await team.submit({ ...reply, place: { ...reply.place, thread: '' } });
    await idle(team);
    const [row] = (await outboxOf(team)).filter((r) => r.kind === 'group_message');
    expect((await runsOf(team))[1]?.conversation_id).toBe(row?.conversation_id);
  });
});

describe('a message that the platform does not take at once', () => {
  const busy = (channel: string) => {
    team.platform.onSend = (message) => (message.place.channel === channel ? new PlatformError('overloaded', 'come back later', { outcome: 'retry' }) : undefined);
  };

  it('for 20 seconds is reported as queued, and is posted later exactly once', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'It is queued.' }));
    const card = await cardOf(team);
    busy('C_ALL');
    await pressOn(team, card, 'approve', lin);
    await clock.advance(19_000);
    expect(team.requests).toHaveLength(1);
    await clock.advance(1500);
    await until('the answer', () => inThread(team, thread).includes('It is queued.'));
    expect(results()).toEqual(['Queued, not delivered yet: the platform does not take it at the moment. It is sent as soon as it does. Say so; do not post it again.']);
    expect(team.platform.texts('C_ALL')).toEqual([]);
    team.platform.onSend = () => undefined;
    await clock.advance(120_000);
    expect(team.platform.texts('C_ALL')).toHaveLength(1);
    await clock.advance(600_000);
    expect(team.platform.texts('C_ALL')).toHaveLength(1);
    expect(inThread(team, thread).at(-1)).toBe('It is queued.');
  });

  it('and refuses after the run has ended, is reported in the thread of the run', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'It is queued.' }));
    const card = await cardOf(team);
    busy('C_ALL');
    await pressOn(team, card, 'approve', lin);
    await clock.advance(21_000);
    await until('the answer', () => inThread(team, thread).includes('It is queued.'));
    team.platform.onSend = (message) => (message.place.channel === 'C_ALL' ? new PlatformError('is_archived', 'the channel is archived', { outcome: 'refused' }) : undefined);
    await clock.advance(120_000);
    await until('word of it', () => inThread(team, thread).at(-1) === 'My message for #all could not be delivered (is_archived). It is kept in the record.');
  });

  it('and refuses while the run is at work on something else, is reported in the thread all the same', async () => {
    await ask(inTurn(send('all', 'Hi.'), send('duty', 'Hi.'), { text: 'Finished.' }));
    const card = await cardOf(team);
    busy('C_ALL');
    await pressOn(team, card, 'approve', lin);
    await clock.advance(21_000);
    const second = await cardOf(team, 2);
    team.platform.onSend = (message) => {
      if (message.place.channel === 'C_DUTY') return new PlatformError('overloaded', 'later', { outcome: 'retry' });
      return message.place.channel === 'C_ALL' ? new PlatformError('is_archived', 'archived', { outcome: 'refused' }) : undefined;
    };
    await pressOn(team, second, 'approve', lin);
    await clock.advance(19_000);
    expect(await runsOf(team)).toMatchObject([{ status: 'running' }]);
    expect(inThread(team, thread).at(-1)).toBe('My message for #all could not be delivered (is_archived). It is kept in the record.');
  });

  it.each([
    { can: true, copies: 1 },
    { can: false, copies: 1 },
  ])('because its answer was lost is never posted twice (platform can be asked: $can)', async ({ can, copies }) => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'Finished.' }), { can: { askWhetherSent: can } });
    const card = await cardOf(team);
    let lost = 0;
    team.platform.onSend = (message) => (message.place.channel === 'C_ALL' && ++lost === 1 ? 'lost' : undefined);
    await pressOn(team, card, 'approve', lin);
    await clock.advance(10_000);
    await until('the answer', () => inThread(team, thread).includes('Finished.'));
    expect(team.platform.texts('C_ALL')).toHaveLength(copies);
    expect(results()).toEqual([can ? expect.stringMatching(/^Posted 1 message at /) : 'Whether the message was posted is unknown, and it is not repeated. Tell the person to look.']);
    const told = inThread(team, thread).filter((line) => line.startsWith('I could not tell whether my message to #all arrived, and did not repeat it.'));
    expect(told).toHaveLength(can ? 0 : 1);
  });

  it('but refuses for good is a failed call, with the reason in words', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'It did not work.' }));
    const card = await cardOf(team);
    team.platform.onSend = (message) => (message.place.channel === 'C_ALL' ? new PlatformError('not_in_channel', 'the bot was removed from this channel', { outcome: 'refused' }) : undefined);
    await pressOn(team, card, 'approve', lin);
    await until('the answer', () => inThread(team, thread).includes('It did not work.'));
    await idle(team);
    expect(results()).toEqual(['The message could not be posted: not_in_channel: the bot was removed from this channel. Nothing was posted elsewhere instead.']);
    expect(
      inThread(team, thread).filter((line) => line.includes('could not be delivered')),
      'the model says it',
    ).toEqual([]);
    expect((await auditOf(team)).map((entry) => entry.kind)).toContain('delivery_failed');
  });

  it('is withdrawn when the run is stopped meanwhile', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'Finished.' }));
    const card = await cardOf(team);
    busy('C_ALL');
    await pressOn(team, card, 'approve', lin);
    await clock.advance(3000);
    await team.say(lin, 'stop', { thread });
    team.platform.onSend = () => undefined;
    await clock.advance(600_000);
    expect(team.platform.texts('C_ALL')).toEqual([]);
    expect(await outboxOf(team)).toContainEqual(expect.objectContaining({ kind: 'group_message', state: 'withdrawn' }));
  });

  it('survives the process: posted once after the restart, and the run goes on with its result', async () => {
    await ask(inTurn(send('all', 'Hi.'), { text: 'Finished.' }));
    const card = await cardOf(team);
    busy('C_ALL');
    await pressOn(team, card, 'approve', lin);
    await clock.advance(3000);
    await team.kill();
    team.platform.onSend = () => undefined;
    await team.start();
    await clock.advance(10_000);
    await until('the answer', () => inThread(team, thread).includes('Finished.'));
    expect(team.platform.texts('C_ALL')).toHaveLength(1);
    expect(results()).toEqual([expect.stringMatching(/^Posted 1 message at /)]);
  });
});
