/** A card that asks whether something may be done that cannot be undone: who decides, how, how often, how late. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { idle, inThread, lin, resultsIn, runsOf, stepsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type Posted, person } from '../fakes/platform.ts';
import { purgeTool, Team } from '../fakes/team.ts';
import { auditOf, buttonOn, cardOf, codeOn, inTurn, interactionsOf, pressOn, purge } from './fixtures.ts';

const minute = 60_000;
const hour = 60 * minute;
let team: Team;
let clock: FakeClock;
let thread: string;
let purged: string[];
beforeEach(() => {
  clock = fakeClock();
  purged = [];
});
afterEach(() => team.end());

/** 林一 wants logs_old purged; the card stands in the thread. */
async function asked(language = 'en', agent = ''): Promise<Posted> {
  team = await Team.start({ clock, config: `language: ${language}\nagent: { ${agent} }\ntools: { level2: [purge_records] }`, tools: [purgeTool(purged)], script: inTurn(purge('logs_old'), { text: 'Finished.' }) });
  const event = team.platform.say(lin, 'purge logs_old');
  thread = event.place.thread;
  await team.submit(event);
  return cardOf(team);
}

const decided = async () => (await interactionsOf(team)).map((row) => [(JSON.parse(row.outcome ?? '{}') as { kind?: string }).kind, row.answered_by]);
const presses = async () => (await auditOf(team)).filter((entry) => entry.kind === 'press').map(({ actor, data }) => ({ actor, ...(data as object) }));

describe('a card for a decision', () => {
  it.each([
    {
      language: 'en',
      text: (code: string) =>
        `**Confirmation needed** · code \`${code}\`\n\nTool: \`purge_records\`\nArguments:\n- table: logs_old\nConsequence: **this cannot be undone.**\nMay decide: 林一 (lin), who asked · open for 24 h\n\nOr write \`approve ${code}\`, or \`deny ${code} reason\`.`,
      buttons: ['Approve', 'Deny'],
    },
    {
      language: 'zh',
      text: (code: string) =>
        `**需要确认** · 编号 \`${code}\`\n\n工具：\`purge_records\`\n参数：\n- table: logs_old\n后果：**不可撤销。**\n可决定的人：提问者 林一 (lin) · 有效期 24 小时\n\n也可以发送 \`批准 ${code}\`，或 \`拒绝 ${code} 理由\`。`,
      buttons: ['批准', '拒绝'],
    },
  ])('says everything that is decided, also without its buttons ($language)', async ({ language, text, buttons }) => {
    const card = await asked(language);
    expect(card.text).toBe(text(codeOn(card)));
    expect(card.buttons?.map((button) => button.label)).toEqual(buttons);
    expect(purged).toEqual([]);
  });

  it('becomes the receipt after one press, and the call runs once', async () => {
    const card = await asked();
    const receipt = await pressOn(team, card, 'approve', lin);
    expect(receipt).toMatchObject({ state: 'accepted', card: { markdown: expect.stringMatching(/- table: logs_old[\s\S]*✔ Approved by 林一 \(lin\)$/) } });
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: receipt.card?.markdown });
    expect(purged).toEqual(['logs_old']);
    expect(resultsIn(team.requests.at(-1))).toEqual(['Purged logs_old.']);
  });

  it('that is denied runs nothing, and the model is told not to try again', async () => {
    const card = await asked();
    expect((await pressOn(team, card, 'deny', lin)).state).toBe('accepted');
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringMatching(/✘ Denied by 林一 \(lin\)\. Nothing was executed\.$/) });
    expect(resultsIn(team.requests.at(-1))).toEqual([expect.stringMatching(/^林一 declined this call\. It was not executed\. Do not try it again/)]);
    expect(purged).toEqual([]);
  });

  it.each([
    { language: 'en', notice: 'Recorded, and nothing was changed: this can be decided only by 林一 (lin), who asked.' },
    { language: 'zh', notice: '已记录，没有产生任何变化：这只能由提问者 林一 (lin)来决定。' },
  ])('pressed by somebody else tells only that person, and stays as it is ($language)', async ({ language, notice }) => {
    const card = await asked(language);
    const before = { ...card };
    for (const choice of ['approve', 'deny']) expect(await pressOn(team, card, choice, zhou)).toEqual({ state: 'not_entitled', notice });
    await idle(team);
    expect(card).toEqual(before);
    expect(inThread(team, thread)).toHaveLength(1);
    expect(await presses()).toEqual([
      { actor: zhou.id, counted: false, reason: 'not entitled' },
      { actor: zhou.id, counted: false, reason: 'not entitled' },
    ]);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
    await pressOn(team, card, 'approve', lin);
    await idle(team);
    expect(purged).toEqual(['logs_old']);
  });

  it.each([
    { who: 'a bot', by: { ...lin, isBot: true } },
    { who: 'a person from outside', by: { ...lin, external: true } },
  ])('is never decided by $who', async ({ by }) => {
    const card = await asked();
    expect((await pressOn(team, card, 'approve', by)).state).toBe('not_entitled');
    await idle(team);
    expect(purged).toEqual([]);
  });

  it('pressed again says that it is decided, runs nothing more, and records the press', async () => {
    const card = await asked();
    const { interactionId } = buttonOn(card, 'approve');
    await team.press(interactionId, 'approve', lin);
    await idle(team);
    const before = { ...card };
    for (const [choice, by] of [
      ['approve', lin],
      ['deny', lin],
      ['approve', zhou],
    ] as const) {
      expect(await team.press(interactionId, choice, by)).toMatchObject({ state: 'already_decided', notice: 'This was decided already; nothing was done a second time.', card: { markdown: before.text } });
    }
    await idle(team);
    expect({ purged, card }).toEqual({ purged: ['logs_old'], card: before });
    expect(await presses()).toEqual([
      { actor: lin.id, counted: true },
      { actor: lin.id, counted: false, reason: 'already_decided' },
      { actor: lin.id, counted: false, reason: 'already_decided' },
      { actor: zhou.id, counted: false, reason: 'already_decided' },
    ]);
  });

  it('pressed twice at the same moment counts once', async () => {
    const card = await asked();
    const receipts = await Promise.all([pressOn(team, card, 'approve', lin), pressOn(team, card, 'approve', lin), pressOn(team, card, 'deny', lin)]);
    await idle(team);
    expect(receipts.map((receipt) => receipt.state).sort()).toEqual(['accepted', 'already_decided', 'already_decided']);
    expect(await decided()).toEqual([['approved', lin.id]]);
    expect(purged).toEqual(['logs_old']);
  });

  it('with a choice that is no button changes nothing', async () => {
    const card = await asked();
    expect(await team.press(buttonOn(card, 'approve').interactionId, 'maybe', lin)).toEqual({ state: 'unknown', notice: 'Please press Approve or Deny, or use the typed form with the code.' });
    await idle(team);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
    expect(purged).toEqual([]);
  });
});

describe('a press that comes late', () => {
  it('after the card expired shows that nothing was done', async () => {
    const card = await asked('en', 'approval_expiry: 10m');
    const { interactionId } = buttonOn(card, 'approve');
    await clock.advance(10 * minute + 1000);
    await idle(team);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining('⌛ Expired: nobody answered in time. Nothing was executed.') });
    expect(await team.press(interactionId, 'approve', lin)).toMatchObject({ state: 'expired', notice: 'This has expired; nothing was executed. Please ask again.', card: { markdown: card.text } });
    await idle(team);
    expect(purged).toEqual([]);
    expect(resultsIn(team.requests.at(-1))).toEqual([expect.stringMatching(/^The request for approval found no answer in time\. Nothing was executed\./)]);
    expect(await presses()).toEqual([{ actor: lin.id, counted: false, reason: 'expired' }]);
  });

  it('at the very moment of the expiry is too late, even before the clockwork has noticed', async () => {
    const card = await asked();
    clock.sleep(24 * hour);
    expect(await pressOn(team, card, 'approve', lin)).toMatchObject({ state: 'expired', card: { markdown: expect.stringContaining('⌛ Expired') } });
    await idle(team);
    expect({ purged, decided: await decided() }).toEqual({ purged: [], decided: [['expired', null]] });
    expect(card.text).toContain('⌛ Expired');
  });

  it('a moment before the expiry counts', async () => {
    const card = await asked();
    clock.sleep(24 * hour - 1);
    expect((await pressOn(team, card, 'approve', lin)).state).toBe('accepted');
    await idle(team);
    expect(purged).toEqual(['logs_old']);
  });

  it('after the process was killed and started again runs the call once', async () => {
    const card = await asked();
    await team.kill();
    clock.sleep(2 * hour);
    await team.start();
    const { interactionId } = buttonOn(card, 'approve');
    expect((await team.press(interactionId, 'approve', lin)).state).toBe('accepted');
    expect((await team.press(interactionId, 'approve', lin)).state).toBe('already_decided');
    await idle(team);
    expect(purged).toEqual(['logs_old']);
    expect(card.text).toContain('✔ Approved by 林一 (lin)');
    expect(inThread(team, thread).at(-1)).toBe('Finished.');
  });

  it('for a card that expired while the process was down shows that', async () => {
    const card = await asked();
    const { interactionId } = buttonOn(card, 'approve');
    await team.kill();
    clock.sleep(25 * hour);
    await team.start();
    expect((await team.press(interactionId, 'approve', lin)).state).toBe('expired');
    await idle(team);
    expect(purged).toEqual([]);
    expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining('⌛ Expired') });
  });

  it('on a button that nobody knows is answered as unknown', async () => {
    await asked();
    expect(await team.press('r_none-3', 'approve', lin)).toMatchObject({ state: 'unknown' });
  });
});

describe('a decision in writing', () => {
  /** What each of these leads to: written by this person, in this thread unless it says otherwise. */
  const write = (text: string, by = lin, options: { thread?: string; channel?: string; mention?: boolean } = { thread }) => team.say(by, text, options);

  it.each([
    { words: 'approve CODE', outcome: 'approved' },
    { words: 'Approve code', outcome: 'approved' },
    { words: '批准 CODE', outcome: 'approved' },
    { words: '批准 code', outcome: 'approved' },
    { words: '  批准：CODE  ', outcome: 'approved' },
    { words: 'deny CODE', outcome: 'declined' },
    { words: 'deny CODE not this week', outcome: 'declined', reason: 'not this week' },
    { words: '拒绝 CODE 先备份', outcome: 'declined', reason: '先备份' },
    { words: '拒绝 code，先备份', outcome: 'declined', reason: '先备份' },
  ])('like "$words" counts as the button does: $outcome', async ({ words, outcome, reason }) => {
    for (const mention of [false, true]) {
      if (mention) {
        await team.end();
        purged = [];
      }
      const card = await asked();
      await write(words.replace('CODE', codeOn(card)).replace('code', codeOn(card).toLowerCase()), lin, { thread, mention });
      await idle(team);
      expect(await decided()).toEqual([[outcome, lin.id]]);
      expect(purged).toEqual(outcome === 'approved' ? ['logs_old'] : []);
      const receipt = outcome === 'approved' ? '✔ Approved by 林一 (lin)' : `✘ Denied by 林一 (lin)${reason ? `: ${reason}` : ''}. Nothing was executed.`;
      expect(card).toMatchObject({ buttons: undefined, text: expect.stringContaining(receipt) });
      if (reason) expect(resultsIn(team.requests.at(-1))).toEqual([expect.stringContaining(`林一 declined this call: ${reason}.`)]);
      expect(inThread(team, thread)).toHaveLength(2);
    }
  });

  it('by somebody else is refused, recorded, and changes nothing', async () => {
    const card = await asked();
    const receipt = await write(`approve ${codeOn(card)}`, zhou);
    expect(receipt).toMatchObject({ state: 'not_entitled', notice: expect.stringContaining('this can be decided only by 林一 (lin), who asked') });
    await idle(team);
    expect(inThread(team, thread), 'only that person is told').toHaveLength(1);
    expect({ purged, edits: card.edits }).toEqual({ purged: [], edits: 0 });
    expect(await presses()).toEqual([{ actor: zhou.id, counted: false, reason: 'not entitled' }]);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
  });

  it('with a code that nothing open has is answered so, and decides nothing', async () => {
    const card = await asked();
    const wrong = codeOn(card) === 'ZZZ9' ? 'YYY8' : 'ZZZ9';
    await write(`approve ${wrong}`, lin, { thread, mention: true });
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe(`No open request has the code ${wrong}.`);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
  });

  it('after the decision is told that it is decided', async () => {
    const card = await asked();
    await write(`approve ${codeOn(card)}`);
    await idle(team);
    expect((await write(`deny ${codeOn(card)}`)).state).toBe('already_decided');
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe('This was decided already; nothing was done a second time.');
    expect(purged).toEqual(['logs_old']);
  });

  it('of another conversation decides where the card stands, for the same person only', async () => {
    const card = await asked();
    expect((await write(`approve ${codeOn(card)}`, zhou, { channel: 'C_DUTY', mention: false })).state).toBe('not_entitled');
    expect(purged).toEqual([]);
    expect((await write(`approve ${codeOn(card)}`, lin, { channel: 'C_DUTY', mention: false })).state).toBe('accepted');
    await idle(team);
    expect(purged).toEqual(['logs_old']);
    expect(card.text).toContain('✔ Approved by 林一 (lin)');
    expect(team.platform.texts('C_DUTY').at(-1), 'nothing of the card is told there').toBe('✔ Approved by 林一 (lin)');
  });

  it('of another tenant knows nothing of the code', async () => {
    const card = await asked();
    const elsewhere = team.platform.say(lin, `approve ${codeOn(card)}`, { mention: true });
    expect(await team.submit({ ...elsewhere, place: { ...elsewhere.place, tenant: 'other' } })).toMatchObject({ notice: `No open request has the code ${codeOn(card)}.` });
    expect(await decided()).toEqual([[undefined, null]]);
    expect(await runsOf(team)).toMatchObject([{ status: 'suspended' }]);
  });

  it.each(['approve this', 'approve them all please', 'deny that', '批准 2024 年度预算', '拒绝 5678'])('is not a sentence among people: "%s"', async (sentence) => {
    await asked();
    await write(sentence, zhou, { channel: 'C_ALL', mention: false });
    await write(sentence, person('qian'), { thread, mention: false });
    await idle(team);
    expect(team.platform.texts('C_ALL')).toEqual([]);
    expect(inThread(team, thread)).toHaveLength(1);
  });

  it('with a wrong code, by somebody who has nothing to decide here, is answered only when the bot is addressed', async () => {
    await asked();
    await write('approve ZZZ9', zhou, { channel: 'C_ALL', mention: true });
    await idle(team);
    expect(team.platform.texts('C_ALL')).toEqual(['No open request has the code ZZZ9.']);
  });

  it('with a mistyped code is told so, not handed to the model', async () => {
    await asked();
    await write('approve ZZZ9', lin);
    await idle(team);
    expect(inThread(team, thread).at(-1)).toBe('No open request has the code ZZZ9.');
    expect(team.requests).toHaveLength(1);
  });

  it('inside a longer sentence decides nothing', async () => {
    const card = await asked();
    await write(`did you approve ${codeOn(card)}?`);
    await write(`please approve ${codeOn(card)}`);
    await idle(team);
    expect(purged).toEqual([]);
    expect((await stepsOf(team)).filter((step) => step.type === 'interaction_pressed')).toEqual([]);
  });
});
