/** A configured secret never reaches the database, the model, the group or the log, however it comes in and however it is written. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ModelError, PlatformError } from '../../src/errors.ts';
import type { ToolDefinition } from '../../src/tools/types.ts';
import { idle, inThread, lin, resultsIn, saidIn, stepsOf, zhou } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { person } from '../fakes/platform.ts';
import { type Script, Team, until } from '../fakes/team.ts';
import { cardOf, inTurn, outboxOf, pressOn, send } from './fixtures.ts';

const secret = 'sk-test/0123+456789"abcdef?é';
const mark = '[secret:OPENAI_API_KEY]';
const config = `models: { main: { base_url: 'http://127.0.0.1:9/v1', api_key: '${secret}' } }\ntools: { level2: [send_group_message] }\ngroups: [{ match: '*', send_to: ['*'] }]`;

const forms: Readonly<Record<string, string>> = {
  plain: secret,
  'URL-encoded': encodeURIComponent(secret),
  'in base64': Buffer.from(secret).toString('base64'),
  'in base64 for URLs': Buffer.from(secret).toString('base64url'),
  'in base64 with something before it': Buffer.from(`Bearer ${secret}`).toString('base64'),
  'in base64 with something around it': Buffer.from(`user:${secret}:end`).toString('base64'),
  'as JSON': JSON.stringify({ key: secret }),
};
/** Long enough to be nothing else. */
const traces = [
  '0123+456789',
  encodeURIComponent('0123+456789'),
  ...[0, 1, 2].map((n) =>
    Buffer.from('x'.repeat(n) + secret)
      .toString('base64')
      .slice(8, 24),
  ),
];

let team: Team;
let clock: FakeClock;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

/** A tool that says what it is told to; what it was called with is kept. */
function echoTool(result: string, calledWith: string[] = []): ToolDefinition<{ note: string }> {
  return {
    name: 'look_up',
    description: 'For tests.',
    level: 0,
    args: z.object({ note: z.string() }),
    retrySafe: true,
    trusted: true,
    maxChars: 200,
    async execute({ note }) {
      calledWith.push(note);
      return { ok: true, content: result };
    },
  };
}

async function run(script: Script, words = 'hello', tools = [echoTool('fine')]): Promise<string> {
  team = await Team.start({ clock, config, tools, script });
  const event = team.platform.say(lin, words);
  await team.submit(event);
  await idle(team);
  return event.place.thread;
}

/** Looks into everything that the bot wrote. */
async function nothingLeaked(): Promise<void> {
  await team.store.db.selectFrom('steps').select('seq').execute();
  const database = ['hermes.db', 'hermes.db-wal'].map((name) => readFileSync(join(team.folder, name)).toString('utf8')).join('\n');
  const places = {
    database,
    'the requests': team.requests.map((request) => JSON.stringify(request)).join('\n'),
    'the group': team.platform
      .ours()
      .map((m) => m.text)
      .join('\n'),
    'the log': team.logged.join('\n'),
  };
  for (const [place, content] of Object.entries(places)) for (const trace of traces) expect(content.includes(trace), `${trace} in ${place}`).toBe(false);
}

const lookUp = (note: string) => ({ calls: [{ name: 'look_up', args: { note } }] });

describe.each(Object.entries(forms))('a secret %s', (_, form) => {
  it('in a message of a person is taken out, and the rest is read', async () => {
    await run(() => ({ text: 'Fine.' }), `is ${form} the key?`);
    expect(saidIn(team.requests[0] ?? { messages: [], tools: [], last: false })[0]).toMatch(/^is .*\[secret:OPENAI_API_KEY\].* the key\?$/s);
    await nothingLeaked();
  });

  it('in the result of a tool is taken out, and the rest is read', async () => {
    await run(inTurn(lookUp('config'), { text: 'Fine.' }), 'hello', [echoTool(`key = ${form}; port = 80`)]);
    expect(resultsIn(team.requests[1])[0]).toMatch(/^key = .*\[secret:OPENAI_API_KEY\].*; port = 80$/s);
    await nothingLeaked();
  });

  it('in the words of the model is taken out of what is posted', async () => {
    const thread = await run(() => ({ text: `The key is ${form}, as asked.` }));
    expect(inThread(team, thread)[0]).toMatch(/^The key is .*\[secret:OPENAI_API_KEY\].*, as asked\.$/s);
    await nothingLeaked();
  });

  it('in the arguments of a call gets the call refused', async () => {
    const calledWith: string[] = [];
    await run(inTurn(lookUp(`use ${form}`), { text: 'Fine.' }), 'hello', [echoTool('fine', calledWith)]);
    expect(calledWith).toEqual([]);
    expect(resultsIn(team.requests[1])).toEqual(['The arguments hold a secret of this installation. Leave it out.']);
    await nothingLeaked();
  });
});

describe('a secret', () => {
  it('written letter by letter in the arguments gets the call refused too', async () => {
    const calledWith: string[] = [];
    const escaped = [...secret].map((c) => `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`).join('');
    await run(inTurn({ calls: [{ name: 'look_up', args: { note: 'x' }, argsText: `{"note":"${escaped}"}` }] }, { text: 'Fine.' }), 'hello', [echoTool('fine', calledWith)]);
    expect({ calledWith, results: resultsIn(team.requests[1]) }).toEqual({ calledWith: [], results: ['The arguments hold a secret of this installation. Leave it out.'] });
    await nothingLeaked();
    expect(readFileSync(join(team.folder, 'hermes.db-wal')).toString('utf8')).not.toContain(escaped.slice(0, 60));
  });

  it('that the limit of a tool cuts through is taken out whole', async () => {
    await run(inTurn(lookUp('config'), { text: 'Fine.' }), 'hello', [echoTool(`${'x'.repeat(190)}${secret}`)]);
    expect(resultsIn(team.requests[1])[0]).toMatch(/^x{190}\[secret:OP\n\(Cut: /);
    await nothingLeaked();
    expect(JSON.stringify(team.requests)).not.toContain('sk-test');
  });

  it('that the limit of an earlier line cuts through is taken out whole', async () => {
    team = await Team.start({ clock, config, script: () => ({ text: 'Fine.' }) });
    const chat = team.platform.say(zhou, `${'x'.repeat(1490)}${secret}`, { mention: false });
    await team.submit(chat);
    await team.say(lin, 'and?', { thread: chat.place.thread, mention: true });
    await idle(team);
    expect(JSON.stringify(team.requests)).not.toContain('sk-test');
    await nothingLeaked();
  });

  it('in a message to another group gets the call refused: no card, no post', async () => {
    await run(inTurn(send('all', `Use ${secret}`), { text: 'Fine.' }));
    expect(resultsIn(team.requests[1])).toEqual(['The arguments hold a secret of this installation. Leave it out.']);
    expect(team.platform.texts()).toEqual(['Fine.']);
    await nothingLeaked();
  });

  it('that the model knows only by its mark can be spoken of', async () => {
    await run(inTurn(send('all', `The key is ${mark}.`), { text: 'Fine.' }));
    await pressOn(team, await cardOf(team), 'approve', lin);
    await idle(team);
    expect(team.platform.texts('C_ALL')[0]).toContain(`The key is ${mark}.`);
  });

  it('in a name, a quoted message and an edited one is taken out', async () => {
    team = await Team.start({ clock, config, script: () => ({ text: 'Fine.' }) });
    const asked = team.platform.say(person('eve', secret), 'hello');
    await team.submit({ ...asked, quoted: { messageId: 'm0', by: zhou, text: `it is ${secret}` } });
    await team.submit({ type: 'change', key: 'c1', of: asked.key, kind: 'edited', place: asked.place, at: asked.at, by: asked.author, content: [{ type: 'text', text: secret }] });
    await idle(team);
    await nothingLeaked();
  });

  it('in an error of the model server is taken out of the record and the log', async () => {
    await run(() => new ModelError('unauthorized', `401: the key ${secret} is wrong`, { retryable: false }));
    expect((await stepsOf(team)).find((step) => step.type === 'model_failed')).toMatchObject({ error: { message: `401: the key ${mark} is wrong` } });
    await nothingLeaked();
  });

  it('in what a broken tool throws is taken out', async () => {
    const broken = { ...echoTool(''), execute: () => Promise.reject(new Error(`cannot log in with ${secret}`)) };
    await run(inTurn(lookUp('x'), { text: 'Fine.' }), 'hello', [broken]);
    expect(resultsIn(team.requests[1])[0]).toContain(`cannot log in with ${mark}`);
    await nothingLeaked();
  });

  it.each(['refused', 'retry', 'unknown'] as const)('in an error of the platform (%s) is taken out of the record', async (outcome) => {
    team = await Team.start({ clock, config, can: { progress: false }, script: inTurn(send('all', 'Hi.'), { text: 'Fine.' }) });
    await team.say(lin, 'hello');
    const card = await cardOf(team);
    team.platform.onSend = (message) => (message.place.channel === 'C_ALL' ? new PlatformError('http_400', `POST https://chat.example/send?key=${encodeURIComponent(secret)} failed`, { outcome }) : undefined);
    await pressOn(team, card, 'approve', lin);
    await clock.advance(25_000);
    await until('the answer', () => team.platform.texts().includes('Fine.'));
    expect((await outboxOf(team)).map((row) => row.error).join()).toContain(`key=${mark} failed`);
    await nothingLeaked();
  });

  it('is found by this test when it is there', async () => {
    team = await Team.start({ clock, script: () => ({ text: secret }) });
    await team.say(lin, secret);
    await idle(team);
    await expect(nothingLeaked()).rejects.toThrow('in database');
  });
});
