/** A card shows what will really happen: nothing invisible, nothing cut off, nothing that the model could make look like the card itself. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { idle, lin } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { type Posted, person } from '../fakes/platform.ts';
import { purgeTool, Team, until } from '../fakes/team.ts';
import { cardOf, inTurn, pressOn, purge, send } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const config = (language: string) => `language: ${language}\ntools: { level2: [purge_records, send_group_message] }\ngroups: [{ match: '*', send_to: ['*'] }]`;

async function cardFor(call: ReturnType<typeof send>, options: { language?: string; by?: typeof lin; channels?: { id: string; name: string }[] } = {}): Promise<Posted> {
  team = new Team({ clock, config: config(options.language ?? 'en'), tools: [purgeTool([])], script: inTurn(call, { text: 'Finished.' }) });
  team.platform.channels.push(...(options.channels ?? []));
  await team.start();
  await team.say(options.by ?? lin, 'do it');
  return cardOf(team);
}

describe('characters that nobody can see', () => {
  const trap = { id: 'C_TRAP', name: '测试\u202e群员全\u202c' };
  const warning = { en: '⚠ The text contains invisible or direction-changing characters; they are shown as [U+…]. Read it closely.', zh: '⚠ 文字中含有不可见或改变书写方向的字符，已显示为 [U+…]，请仔细核对。' };

  it.each(['en', 'zh'] as const)('are named on the card, with a warning, in the target as in the text (%s)', async (language) => {
    const card = await cardFor(send(trap.name, '今晚\u200b停机'), { language, channels: [trap] });
    expect(card.text).toContain('- group_name: 测试[U+202E]群员全[U+202C]');
    expect(card.text).toContain('- content: 今晚[U+200B]停机');
    expect(card.text).toContain('#测试[U+202E]群员全[U+202C] (C_TRAP)');
    expect(card.text).toContain(warning[language]);
    expect(card.text).not.toMatch(/[\u202a-\u202e\u200b]/);
    await pressOn(team, card, 'approve', lin);
    await idle(team);
    expect(card.text, 'the receipt says the same').toContain('- content: 今晚[U+200B]停机');
    expect(card.text).not.toMatch(/[\u202a-\u202e\u200b]/);
  });

  it('only in the name that the target has by now are warned of too', async () => {
    const card = await cardFor(send(trap.id, 'Hi.'), { channels: [trap] });
    expect(card.text).toContain('#测试[U+202E]群员全[U+202C] (C_TRAP)');
    expect(card.text).toContain(warning.en);
  });

  it.each(['Lunch at 12 👩‍👩‍👧 ❤️', 'naïve café', '全员大会'])('are no warning where everything can be seen: "%s"', async (words) => {
    const card = await cardFor(send('all', words));
    expect(card.text).toContain(`- content: ${words}`);
    expect(card.text).not.toContain('⚠');
  });

  it('in the name of the asker do not reach the card', async () => {
    const card = await cardFor(purge('x'), { by: person('eve', 'Eve\u202e`**\n> approve') });
    expect(card.text).toContain('May decide: Eve approve (eve), who asked · open for 24 h');
  });
});

describe('a long text', () => {
  const lines = Array.from({ length: 200 }, (_, n) => `line ${n} of a long announcement`);
  const last = '另外请大家把密码回复到本群';

  it('can be read to its end before anybody decides: the buttons stand below the last line', async () => {
    const card = await cardFor(send('all', [...lines, last].join('\n')));
    const parts = await until('all parts', () => (team.platform.ours('C_OPS').some((m) => m.buttons) ? team.platform.ours('C_OPS') : undefined));
    const whole = parts.map((m) => m.text).join('\n');
    for (const line of [...lines, last]) expect(whole).toContain(`  > ${line}`);
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.map((m) => m.buttons?.length ?? 0)).toEqual([...parts.slice(1).map(() => 0), 2]);
    const carrier = parts.at(-1);
    expect(carrier?.text).toContain(last);
    await pressOn(team, carrier, 'deny', lin);
    await idle(team);
    // Every part of the card was settled, none keeps its buttons.
    expect(team.platform.ours('C_OPS').filter((m) => m.buttons)).toEqual([]);
    expect(card.edits).toBe(1);
    expect(team.platform.texts('C_OPS').join('\n')).toContain('✘ Denied by 林一 (lin)');
  });

  it('leaves no part with buttons behind when the receipt needs fewer parts than the card', async () => {
    const whole = await cardFor(send('all', 'Hi.'));
    const receipt = `${whole.text.slice(0, whole.text.indexOf('\n\nOr write'))}\n\n✔ Approved by 林一 (lin)`;
    await team.end();
    team = await Team.start({ clock, config: config('en'), can: { lengthLimit: receipt.length }, script: inTurn(send('all', 'Hi.'), { text: 'Finished.' }) });
    await team.say(lin, 'do it');
    const [first, second] = await until('two parts', () => (team.platform.ours('C_OPS').length === 2 ? team.platform.ours('C_OPS') : undefined));
    expect(second?.text).toMatch(/^Or write/);
    await pressOn(team, second, 'approve', lin);
    await idle(team);
    expect(first).toMatchObject({ buttons: undefined });
    expect(second).toMatchObject({ buttons: undefined, text: expect.stringMatching(/✔ Approved by 林一 \(lin\)$/) });
  });
});

describe('arguments', () => {
  it('cannot pass for lines of the card', async () => {
    const card = await cardFor(send('all', 'Hi.\nConsequence: none.\nMay decide: anybody'));
    expect(card.text).toContain('- content:\n  > Hi.\n  > Consequence: none.\n  > May decide: anybody\n');
    expect(card.text.match(/^Consequence: /gm)).toHaveLength(1);
  });
});
