import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import type { Posted } from '../fakes/platform.ts';
import { type Script, type Scripted, Team, until } from '../fakes/team.ts';
import { idle, inThread, lastSaid, lin, postsIn, resultsIn, runsOf, stepsOf, zh, zhou } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let thread: string;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const asks = (...questions: { question: string; options?: string[] }[]): Scripted => ({ calls: questions.map((args) => ({ name: 'clarify', args })) });
const environment = { question: '部署到哪个环境？', options: ['测试', '预发', '生产'] };

/** 林一 has asked something; these questions stand in the thread now. */
async function asked(questions: { question: string; options?: string[] }[], options: { config?: string; script?: Script } = {}): Promise<Posted[]> {
  const script: Script = options.script ?? ((_r, n) => (n === 1 ? asks(...questions) : { text: '好的。' }));
  team = await Team.start({ clock, config: options.config ?? zh, script });
  const event = team.platform.say(lin, '部署');
  thread = event.place.thread;
  await team.submit(event);
  await until('the questions', () => postsIn(team, thread).length === questions.length);
  return postsIn(team, thread);
}

const codeOn = (card: Posted | undefined): string => /`([0-9A-Z]{4})`/.exec(card?.original ?? '')?.[1] ?? '';

/** What the model read as the results of its questions. */
async function results(): Promise<string[]> {
  await until('the next request', () => team.requests.length > 1);
  return resultsIn(team.requests.at(-1));
}

describe('a question to the asker', () => {
  it('stands in the thread with its options as buttons and as text, and with who is asked', async () => {
    const [card] = await asked([environment]);
    expect(card?.buttons?.map((button) => button.label)).toEqual(['测试', '预发', '生产']);
    expect(card?.text).toBe(`**请 林一 (lin) 回答**\n\n部署到哪个环境？\n\n1. 测试\n2. 预发\n3. 生产\n\n请点按钮，或直接在本话题中用文字回答。 \`${codeOn(card)}\``);
  });

  it.each([{ mention: false }, { mention: true }])('is answered in words, in the same run, and the card shows the answer (mention: $mention)', async ({ mention }) => {
    const [card] = await asked([environment]);
    await team.say(lin, '那就用预发吧，晚点再上生产', { thread, mention });
    expect(await results()).toEqual(['林一 answered: 那就用预发吧，晚点再上生产']);
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'completed' }]);
    expect(card).toMatchObject({ buttons: undefined, text: '**请 林一 (lin) 回答**\n\n部署到哪个环境？\n\n✔ 林一 (lin) 已回答：**那就用预发吧，晚点再上生产**' });
    expect(inThread(team, thread)).toHaveLength(2);
  });

  it('is answered by a button, once', async () => {
    const [card] = await asked([environment]);
    const { interactionId, choice } = team.button('预发');
    const receipt = await team.press(interactionId, choice, lin);
    expect(receipt).toMatchObject({ state: 'accepted', card: { markdown: expect.stringContaining('✔ 林一 (lin) 已回答：**预发**') } });
    expect(await team.press(interactionId, '生产', lin)).toMatchObject({ state: 'already_decided', notice: '这件事已经决定过了，没有重复执行。' });
    expect(await results()).toEqual(['林一 answered: 预发']);
    await idle(team);
    expect(card?.text).toContain('✔ 林一 (lin) 已回答：**预发**');
  });

  it('is answered in the field of its card', async () => {
    await asked([environment]);
    const { interactionId } = team.button('预发');
    await team.submit({ type: 'reply', key: 'typed', interactionId, by: lin, at: new Date(clock.now()).toISOString(), text: '先问一下老板' });
    expect(await results()).toEqual(['林一 answered: 先问一下老板']);
  });

  it.each(['2', ' 2. ', '2、', '２', '2)'])('is answered by the number of an option: "%s"', async (text) => {
    await asked([environment]);
    await team.say(lin, text, { thread });
    expect(await results()).toEqual(['林一 answered: 预发']);
  });

  it('with a number that no option has, gets the number', async () => {
    await asked([environment]);
    await team.say(lin, '4', { thread });
    expect(await results()).toEqual(['林一 answered: 4']);
  });

  it('without options is answered by a number as such', async () => {
    await asked([{ question: '要几台？' }]);
    await team.say(lin, '2', { thread });
    expect(await results()).toEqual(['林一 answered: 2']);
  });

  it('is answered after the process was killed', async () => {
    const [card] = await asked([environment]);
    await team.kill();
    await team.start();
    await team.say(lin, '生产', { thread });
    expect(await results()).toEqual(['林一 answered: 生产']);
    await idle(team);
    expect(card?.text).toContain('已回答：**生产**');
  });

  it('is not answered by what is said to somebody else', async () => {
    await asked([environment]);
    await team.say(lin, '你觉得预发行吗？', { thread, mentions: [zhou] });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
  });

  it('is not answered by a request for help, and stays open', async () => {
    await asked([environment]);
    await team.say(lin, '帮助', { thread, mention: true });
    await idle(team);
    expect(inThread(team, thread).at(-1)).toMatch(/^在群里 @我/);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
  });
});

describe('several questions open at once', () => {
  const drafts = { question: '删除哪个月的草稿？', options: ['3 月', '4 月'] };

  it('and an answer that fits none of them by name: the bot asks which, and nothing is answered', async () => {
    const cards = await asked([environment, drafts]);
    await team.say(lin, '2', { thread });
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe(`这里有不止一个待回答的问题，请在回答开头写上对应的编号：\n- \`${codeOn(cards[0])}\` 部署到哪个环境？\n- \`${codeOn(cards[1])}\` 删除哪个月的草稿？`);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
    expect(cards.map((card) => card.edits)).toEqual([0, 0]);
  });

  it('are told apart by the code, in any case, with the number or in words', async () => {
    const cards = await asked([environment, drafts]);
    await team.say(lin, `${codeOn(cards[1]).toLowerCase()} 2`, { thread });
    await until('the second card', () => cards[1]?.text.includes('4 月**'));
    expect(cards[0]?.edits).toBe(0);
    // One is left, so no code is needed any more.
    await team.say(lin, '1', { thread });
    expect(await results()).toEqual(['林一 answered: 测试', '林一 answered: 4 月']);
  });

  it('are told apart by a full-width colon after the code', async () => {
    const cards = await asked([environment, drafts]);
    await team.say(lin, `${codeOn(cards[0])}：先上预发`, { thread });
    await until('the first card', () => cards[0]?.text.includes('先上预发**'));
    expect(cards[1]?.edits).toBe(0);
  });

  it('are told apart by quoting the card', async () => {
    const cards = await asked([environment, drafts]);
    await team.say(lin, '三月的', { thread, quote: cards[1]?.id ?? '' });
    await team.say(lin, '2', { thread, quote: cards[0]?.id ?? '' });
    expect(await results()).toEqual(['林一 answered: 预发', '林一 answered: 三月的']);
  });

  it('of different people: each answers the own one, and is asked about nobody else’s', async () => {
    const script: Script = (request) => {
      if (request.messages.some((m) => m.role === 'tool')) return { text: 'Done.' };
      return lastSaid(request) === '删草稿' ? asks(drafts) : asks(environment, { question: '什么时候？' });
    };
    const cards = await asked([environment, { question: '什么时候？' }], { script });
    await team.say(zhou, '删草稿', { thread, mention: true });
    await until('the question to the other', () => postsIn(team, thread).length === 3);
    await team.say(lin, '2', { thread });
    await until('the bot asks which', () => postsIn(team, thread).length === 4);
    expect(inThread(team, thread).at(-1)).toContain(codeOn(cards[0]));
    expect(inThread(team, thread).at(-1)).not.toContain('草稿');
    await team.say(zhou, '2', { thread });
    await until('the answer to the other', () => postsIn(team, thread).some((m) => m.text.includes('周二 (zhou) 已回答：**4 月**')));
    expect(cards.map((card) => card.edits)).toEqual([0, 0]);
  });
});

describe('while the bot waits for one person, another', () => {
  it('is not taken for the answer, and gets an own answer when asking', async () => {
    const drafts = { question: '删除 3 月还是 4 月的草稿？', options: ['3 月', '4 月'] };
    const script: Script = (request) => {
      if (lastSaid(request) === '4 月有几天？') return { text: '30 天。' };
      return request.messages.some((m) => m.role === 'tool') ? { text: '3 月的草稿已删除。' } : asks(drafts);
    };
    const [card] = await asked([drafts], { script });
    await team.say(zhou, '4 月的会议改到三点了', { thread });
    await team.say(zhou, '4 月有几天？', { thread, mention: true });
    await until('the own answer', () => inThread(team, thread).includes('30 天。'));
    expect(await team.press(team.button('4 月').interactionId, '4 月', zhou)).toMatchObject({ state: 'not_entitled', notice: '已记录，没有产生任何变化：这只能由提问者 林一 (lin)来决定。' });
    expect(card?.edits).toBe(0);
    await team.say(lin, '3 月', { thread });
    await until('the end', () => inThread(team, thread).includes('3 月的草稿已删除。'));
    expect(resultsIn(team.requests.at(-1))).toEqual(['林一 answered: 3 月']);
    expect((await stepsOf(team)).filter((step) => step.type === 'interaction_pressed')).toMatchObject([
      { by: { id: zhou.id }, counted: false, reason: 'not entitled' },
      { by: { id: lin.id }, counted: true },
    ]);
  });
});
