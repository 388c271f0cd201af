import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlatformError } from '../../src/errors.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { purgeTool, type Script, Team, type TeamOptions, until } from '../fakes/team.ts';
import { door, type HeldCall, heldTool, idle, inThread, lastSaid, lin, postsIn, resultsIn, runsOf, saidIn, stepsOf, zhou } from './fixtures.ts';

const minute = 60_000;
const tenMinutes = 'language: zh\nagent: { clarify_expiry: 10m }\ntools: { level2: [purge_records] }';
const twoHours = (language: string) => `language: ${language}\nagent: { clarify_expiry: 2h }`;
const question = { name: 'clarify', args: { question: '部署到哪个环境？', options: ['测试', '预发', '生产'] } };

let team: Team;
let clock: FakeClock;
let thread: string;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

/** Asks on the first request, says this on the last one, and anything else is a new request that is answered. */
const deploys: Script = (request) => {
  if (request.last) return { text: '没有得到回答，所以没有部署。' };
  return lastSaid(request) === '部署' ? { calls: [question] } : { text: `收到：${lastSaid(request)}` };
};

/** 林一 was asked; the question stands in the thread. */
async function asked(options: Omit<TeamOptions, 'clock'> = {}): Promise<void> {
  team = await Team.start({ clock, config: tenMinutes, script: deploys, ...options });
  const event = team.platform.say(lin, '部署');
  thread = event.place.thread;
  await team.submit(event);
  await until('the question', () => team.platform.sends >= 1);
  await idleOutbox();
}

const idleOutbox = () => until('the outbox is empty', async () => !(await team.store.db.selectFrom('outbox').select('id').where('state', '=', 'due').executeTakeFirst()));
const statuses = async () => (await runsOf(team)).map((run) => run.status);

describe('a question that nobody answers', () => {
  it('is open until its time is over, while other threads are answered', async () => {
    await asked();
    await clock.advance(9.5 * minute);
    expect({ statuses: await statuses(), buttons: postsIn(team, thread)[0]?.buttons?.length, requests: team.requests.length }).toEqual({ statuses: ['suspended'], buttons: 3, requests: 1 });
    await team.say(zhou, '几点了？');
    await until('the other thread is answered', () => team.platform.texts().includes('收到：几点了？'));
    await clock.advance(0.5 * minute - 1);
    expect(await statuses()).toEqual(['suspended', 'completed']);
    await clock.advance(1);
    await idle(team);
    expect(await statuses()).toEqual(['completed', 'completed']);
  });

  it('ends with its card and a last reply saying so; the model may call nothing any more', async () => {
    await asked();
    await clock.advance(10 * minute);
    await idle(team);
    expect(inThread(team, thread)).toEqual(['**请 林一 (lin) 回答**\n\n部署到哪个环境？\n\n⌛ 已过期：没有人及时回答，没有执行任何操作。如仍需要请重新提出。', '没有得到回答，所以没有部署。']);
    expect(postsIn(team, thread)[0]?.buttons).toBeUndefined();
    expect(team.requests.map((request) => request.last)).toEqual([false, true]);
    expect(resultsIn(team.requests[1])).toEqual([expect.stringMatching(/found no answer in time.*Do not guess/)]);
    await clock.advance(60 * minute);
    expect(team.requests).toHaveLength(2);
  });

  it('says so in a line of its own where a card cannot be changed', async () => {
    await asked({ can: { editing: false, settleLater: false } });
    await clock.advance(10 * minute);
    await idle(team);
    expect(inThread(team, thread)).toEqual([expect.stringContaining('1. 测试'), expect.stringContaining('⌛ 已过期'), '没有得到回答，所以没有部署。']);
  });

  it('answered by a late press shows that it has expired, and a late text is a new request with the earlier context', async () => {
    await asked();
    const { interactionId } = team.button('预发');
    await clock.advance(12 * minute);
    expect(await team.press(interactionId, '预发', lin)).toMatchObject({ state: 'expired', notice: '已过期，没有执行任何操作。请重新提出。', card: { markdown: expect.stringContaining('⌛ 已过期') } });
    await team.say(lin, '预发', { thread });
    await idle(team);
    expect(await statuses()).toEqual(['completed', 'completed']);
    expect(inThread(team, thread).at(-1)).toBe('收到：预发');
    const request = team.requests.at(-1);
    expect(request && saidIn(request)[0]).toMatch(/部署到哪个环境[\s\S]*没有得到回答，所以没有部署。/);
    expect(request?.last).toBe(false);
  });

  it('answered late on a machine that slept over its end has expired all the same', async () => {
    await asked();
    const { interactionId } = team.button('预发');
    clock.sleep(10 * minute);
    // No timer has noticed yet.
    expect(await statuses()).toEqual(['suspended']);
    expect(await team.press(interactionId, '预发', lin)).toMatchObject({ state: 'expired' });
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe('没有得到回答，所以没有部署。');
  });

  it('answered in words on a machine that slept over its end is a new request', async () => {
    await asked();
    clock.sleep(10 * minute);
    await team.say(lin, '预发', { thread });
    await until('the answer', () => inThread(team, thread).includes('收到：预发'));
    await clock.advance(1);
    await idle(team);
    expect(await statuses()).toEqual(['completed', 'completed']);
    expect(inThread(team, thread)).toContain('没有得到回答，所以没有部署。');
  });

  it('answered in words that were on their way when its time was over is a new request', async () => {
    await asked();
    const said = team.platform.say(lin, '预发', { thread });
    clock.sleep(10 * minute);
    await team.submit(said);
    await idle(team);
    expect(await statuses()).toEqual(['completed', 'completed']);
    expect(resultsIn(team.requests[1])).toEqual([expect.stringContaining('found no answer in time')]);
    expect(inThread(team, thread).slice(-2)).toEqual(['没有得到回答，所以没有部署。', '收到：预发']);
  });

  it('answered while the last reply is on its way is a new request too', async () => {
    const last = door<{ text: string }>();
    await asked({ script: (request, n, signal) => (request.last ? last.opened : deploys(request, n, signal)) });
    await clock.advance(10 * minute);
    await until('the last request', () => team.requests.at(-1)?.last);
    await team.say(lin, '预发', { thread });
    last.open({ text: '没有得到回答。' });
    await idle(team);
    expect(inThread(team, thread).slice(-2)).toEqual(['没有得到回答。', '收到：预发']);
    expect(team.requests.at(-1)?.last).toBe(false);
  });

  it('expires although the process was dead at that moment', async () => {
    await asked();
    await team.kill();
    await clock.advance(11 * minute);
    await team.start();
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe('没有得到回答，所以没有部署。');
  });

  it('lasts a day unless configured otherwise', async () => {
    await asked({ config: '' });
    const row = await team.store.db.selectFrom('interactions').select(['delivered_at', 'expires_at']).executeTakeFirstOrThrow();
    expect((row.expires_at ?? 0) - (row.delivered_at ?? 0)).toBe(24 * 60 * minute);
  });
});

describe('after a question without an answer', () => {
  it('nothing that changes something is done on a guess, whatever the model asks for', async () => {
    const purged: string[] = [];
    const saved: HeldCall[] = [];
    const all = [
      { name: 'purge_records', args: { table: 'logs' } },
      { name: 'save', args: {} },
    ];
    await asked({ tools: [purgeTool(purged), heldTool('save', saved, 1)], script: (request) => (request.last ? { calls: all } : { calls: [question] }) });
    await clock.advance(10 * minute);
    await idle(team);
    expect({ purged, saved, statuses: await statuses(), requests: team.requests.length }).toEqual({ purged: [], saved: [], statuses: ['completed'], requests: 2 });
    expect(team.platform.ours().flatMap((m) => m.buttons ?? [])).toEqual([]);
  });

  it('a call of the same turn that a person approves later is not executed', async () => {
    const purged: string[] = [];
    await asked({ tools: [purgeTool(purged)], script: (request) => (request.last ? { text: '没有清理。' } : { calls: [question, { name: 'purge_records', args: { table: 'logs' } }] }) });
    const approve = team.button('批准');
    await clock.advance(10 * minute);
    expect((await team.press(approve.interactionId, approve.choice, lin)).state).toBe('accepted');
    await idle(team);
    expect(purged).toEqual([]);
    expect(resultsIn(team.requests[1])).toEqual([expect.stringContaining('found no answer in time'), expect.stringContaining('nothing that changes something is done on a guess')]);
    expect(inThread(team, thread).at(-1)).toBe('没有清理。');
  });
});

describe('the reminder of an open question', () => {
  it.each([
    { language: 'zh', text: '仍在等待回答，还剩 1 小时：部署到哪个环境？' },
    { language: 'en', text: 'Still open, for another 1 h: 部署到哪个环境？' },
  ])('comes once, half-way, over a restart too ($language)', async ({ language, text }) => {
    await asked({ config: twoHours(language) });
    await clock.advance(60 * minute - 1);
    expect(inThread(team, thread)).toHaveLength(1);
    await clock.advance(1);
    await until('the reminder', () => inThread(team, thread).at(-1) === text);
    await team.kill();
    await team.start();
    await clock.advance(59 * minute);
    expect(inThread(team, thread)).toHaveLength(2);
    await clock.advance(minute);
    await idle(team);
    expect(inThread(team, thread).filter((line) => line === text)).toHaveLength(1);
  });

  it('does not come once it is answered, and not for questions of less than an hour', async () => {
    await asked({ config: twoHours('zh'), script: (_r, n) => (n === 1 ? { calls: [question] } : { text: '好的。' }) });
    await team.say(lin, '预发', { thread });
    await idle(team);
    await clock.advance(120 * minute);
    expect(team.platform.texts().filter((line) => line.includes('仍在等待'))).toEqual([]);
    await team.end();
    await asked();
    await clock.advance(9 * minute);
    expect(inThread(team, thread)).toHaveLength(1);
  });
});

describe('a question that does not get through', () => {
  it('waits from the moment people can see it', async () => {
    team = await Team.start({ clock, config: tenMinutes, script: deploys });
    team.platform.onSend = () => (clock.now() < start + 20 * minute ? new PlatformError('overloaded', 'not now', { outcome: 'retry' }) : undefined);
    const start = clock.now();
    const event = team.platform.say(lin, '部署');
    thread = event.place.thread;
    await team.submit(event);
    await clock.advance(20 * minute);
    await clock.advance(5 * minute);
    const card = await until('the card', () => postsIn(team, thread)[0]);
    expect(card.at - start).toBeGreaterThanOrEqual(20 * minute);
    await clock.advance(card.at + 10 * minute - 1 - clock.now());
    expect(await statuses()).toEqual(['suspended']);
    await clock.advance(1);
    await idle(team);
    expect(await statuses()).toEqual(['completed']);
  });

  it('because the platform refuses its buttons is posted as plain text at once, and can be answered', async () => {
    const start = clock.now();
    team = await Team.start({ clock, config: tenMinutes, script: (_r, n) => (n === 1 ? { calls: [question] } : { text: '好的。' }) });
    team.platform.onSend = (message) => (message.buttons ? new PlatformError('invalid_card', 'no cards here', { outcome: 'refused' }) : undefined);
    const event = team.platform.say(lin, '部署');
    thread = event.place.thread;
    await team.submit(event);
    const plain = await until('the question', () => postsIn(team, thread)[0]);
    expect(plain).toMatchObject({ at: start, buttons: undefined, text: expect.stringMatching(/1\. 测试\n2\. 预发\n3\. 生产/) });
    await idle(team);
    await team.say(lin, '2', { thread });
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual(['林一 answered: 预发']);
    expect(plain.text).toContain('已回答：**预发**');
  });

  const refusesQuestions = (on: Team) => {
    on.platform.onSend = (message) => (message.markdown.includes('部署到哪个环境') ? new PlatformError('not_in_channel', 'no', { outcome: 'refused' }) : undefined);
  };

  it('in any form is told to the model at once, and nothing waits', async () => {
    team = await Team.start({ clock, config: tenMinutes, script: deploys });
    refusesQuestions(team);
    const event = team.platform.say(lin, '部署');
    thread = event.place.thread;
    await team.submit(event);
    await until('the answer', () => inThread(team, thread).includes('没有得到回答，所以没有部署。'));
    expect(resultsIn(team.requests[1])).toEqual([expect.stringMatching(/could not be shown to anybody \(not_in_channel: no\).*Do not guess/)]);
    expect((await stepsOf(team)).find((step) => step.type === 'interaction_resolved')).toMatchObject({ outcome: { kind: 'undeliverable' } });
    expect(await statuses()).toEqual(['completed']);
  });

  it('is told to the model also when the process dies in between', async () => {
    class Killed extends Error {}
    let at = 0;
    for (let died = true; died; ) {
      at += 1;
      died = false;
      team = new Team({ clock: fakeClock(), config: tenMinutes, script: deploys });
      refusesQuestions(team);
      const event = team.platform.say(lin, '部署');
      await team.start();
      let commits = 0;
      team.onCommit = (phase) => {
        if (phase === 'after') commits += 1;
        died ||= commits === at;
        if (died) throw new Killed();
      };
      await team.submit(event).catch(() => {});
      await until(`the answer, killed after commit ${at}`, async () => {
        if (died && team.onCommit) {
          await team.kill();
          await team.start();
          await team.submit(event);
        }
        return inThread(team, event.place.thread).includes('没有得到回答，所以没有部署。');
      });
      expect(await statuses()).toEqual(['completed']);
      if (died) await team.end();
    }
    expect(at).toBeGreaterThan(8);
  });
});
