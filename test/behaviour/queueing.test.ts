import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type ScriptedReply, startFakeLlm, text } from '../fakes/llm.ts';
import { type Scripted, Team, until } from '../fakes/team.ts';
import { type Door, door, idle, inThread, lastSaid, lin, runsOf, zh, zhao, zhou } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

/** The model is held on each request until the test answers it; what it was asked last is the name of the request. */
function heldModel(): { script: (request: Parameters<typeof lastSaid>[0]) => Promise<Scripted>; asked: () => string[]; answer: (said: string, reply: string) => void } {
  const waiting = new Map<string, Door<Scripted>>();
  return {
    script: (request) => {
      const held = door<Scripted>();
      waiting.set(lastSaid(request), held);
      return held.opened;
    },
    asked: () => [...waiting.keys()],
    answer: (said, reply) => waiting.get(said)?.open({ text: reply }),
  };
}

describe('somebody else mentions the bot during a run', () => {
  it.each([
    { language: 'zh', sign: '收到，本话题中前面还有 1 个请求，随后处理。', next: '收到，本话题中前面还有 2 个请求，随后处理。' },
    { language: 'en', sign: 'Noted, this is next after one other request in this thread.', next: 'Noted, this is next after 2 other requests in this thread.' },
  ])('and is told at once that the request is queued, then answered in turn ($language)', async ({ language, sign, next }) => {
    const model = heldModel();
    team = await Team.start({ clock, config: `language: ${language}`, script: model.script });
    const first = team.platform.say(lin, 'one');
    const { thread } = first.place;
    await team.submit(first);
    await until('the first run at work', () => model.asked().length === 1);
    await team.say(zhou, 'two', { thread, mention: true });
    await until('a sign', () => inThread(team, thread).at(-1) === sign);
    await team.say(zhao, 'three', { thread, mention: true });
    await until('the next sign', () => inThread(team, thread).at(-1) === next);
    expect(await runsOf(team)).toMatchObject([
      { status: 'running', asker: lin.id },
      { status: 'queued', asker: zhou.id },
      { status: 'queued', asker: zhao.id },
    ]);
    expect(model.asked()).toEqual(['one']);
    for (const [said, reply] of [
      ['one', 'first'],
      ['two', 'second'],
      ['three', 'third'],
    ] as const) {
      await until(`the request of ${said}`, () => model.asked().includes(said));
      model.answer(said, reply);
    }
    await idle(team);
    expect(inThread(team, thread).slice(2)).toEqual(['first', 'second', 'third']);
    expect(model.asked()).toEqual(['one', 'two', 'three']);
  });

  it('and no two requests of the conversation are open at the same time', async () => {
    const replies: Door<ScriptedReply>[] = [];
    const llm = await startFakeLlm((_request, index) => {
      replies[index] = door();
      return replies[index].opened;
    });
    team = await Team.start({ llm, clock, config: zh });
    const first = team.platform.say(lin, '查北京天气');
    const { thread } = first.place;
    await team.submit(first);
    await llm.waitForRequest(1);
    await team.say(zhou, '查上海天气', { thread, mention: true });
    await team.say(zhao, '查广州天气', { thread, mention: true });
    for (const [n, reply] of ['北京：18 °C。', '上海：22 °C。', '广州：29 °C。'].entries()) {
      await llm.waitForRequest(n + 1);
      // Longer than any sweep: nobody takes the next one meanwhile.
      await clock.advance(12_000);
      expect(llm.requests).toHaveLength(n + 1);
      replies[n]?.open(text(reply));
    }
    await idle(team);
    expect(inThread(team, thread)).toEqual(expect.arrayContaining(['北京：18 °C。', '上海：22 °C。', '广州：29 °C。']));
    expect(llm.maxConcurrent).toBe(1);
    await llm.close();
  });

  it('while the run waits for a person, and is answered without waiting', async () => {
    team = await Team.start({ clock, script: (request) => (lastSaid(request) === 'deploy' ? { calls: [{ name: 'clarify', args: { question: 'Where to?', options: ['test', 'production'] } }] } : { text: 'It is nine.' }) });
    const first = team.platform.say(lin, 'deploy');
    const { thread } = first.place;
    await team.submit(first);
    await until('the question', () => inThread(team, thread).length === 1);
    await team.say(zhou, 'what time is it?', { thread, mention: true });
    await idle(team);
    expect(inThread(team, thread)).toEqual([expect.stringContaining('Where to?'), 'It is nine.']);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }, { status: 'completed' }]);
  });

  it('and the answered question of the first goes on before those who asked later', async () => {
    const model = heldModel();
    const held = door<Scripted>();
    team = await Team.start({
      clock,
      script: (request, n) => {
        if (n === 1) return { calls: [{ name: 'clarify', args: { question: 'Where to?' } }] };
        return request.messages.some((m) => m.role === 'tool') ? { text: 'Deployed.' } : lastSaid(request) === 'two' ? held.opened : model.script(request);
      },
    });
    const first = team.platform.say(lin, 'one');
    const { thread } = first.place;
    await team.submit(first);
    await until('the question', () => inThread(team, thread).length === 1);
    await team.say(zhou, 'two', { thread, mention: true });
    await until('the second at work', () => team.requests.length === 2);
    await team.say(zhao, 'three', { thread, mention: true });
    await team.say(lin, 'to production', { thread });
    held.open({ text: 'Two.' });
    await until('the third at work', () => model.asked().includes('three'));
    model.answer('three', 'Three.');
    await idle(team);
    expect(inThread(team, thread).filter((line) => ['Deployed.', 'Two.', 'Three.'].includes(line))).toEqual(['Two.', 'Deployed.', 'Three.']);
  });
});

describe('too many requests of one person', () => {
  it.each([
    { language: 'en', refusal: 'Not taken: 2 of your requests already wait here. Please ask again when one of them is done, or say `stop`.' },
    { language: 'zh', refusal: '未接收：你在这里已有 2 个请求在等待。请等其中一个完成后再提，或发送 `停`。' },
  ])('in one conversation are refused with the limit, and the others are answered ($language)', async ({ language, refusal }) => {
    const model = heldModel();
    team = await Team.start({ clock, config: `language: ${language}\nagent: { queue_limit: 2 }`, can: { threads: false }, script: model.script });
    for (const [n, said] of ['one', 'two', 'three', 'four'].entries()) {
      await team.say(lin, said, { thread: '', mention: true });
      if (n === 0) await until('the first run at work', () => model.asked().length === 1);
    }
    await until('the refusal', () => team.platform.texts().includes(refusal));
    // Somebody else's place in the queue is not touched by it.
    await team.say(zhou, 'mine', { thread: '', mention: true });
    for (const said of ['mine', 'one', 'two', 'three']) {
      await until(`the request of ${said}`, () => model.asked().includes(said));
      model.answer(said, `answer to ${said}`);
    }
    await idle(team);
    expect(team.platform.texts().filter((line) => line.startsWith('answer'))).toEqual(['answer to mine', 'answer to one', 'answer to two', 'answer to three']);
    expect(model.asked()).not.toContain('four');
    await team.say(lin, 'five', { thread: '', mention: true });
    await until('the next request is taken', () => model.asked().includes('five'));
  });
});
