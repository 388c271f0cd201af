import { describe, expect, test } from 'vitest';
import { readText } from './parse.ts';
import { checkAccess, checkChannel, checkUser, messageIdIn } from './parse-ids.ts';

describe('the mention of the bot', () => {
  test.for([
    ['@hermes (13+27)*4', '(13+27)*4'],
    ['please @hermes look', 'please look'],
    ['@Hermes, stop', 'stop'],
    ['@HERMES：停', '停'],
    ['请@hermes看一下', '请看一下'],
    ['先看 @hermes\n第二行', '先看\n第二行'],
    ['@hermes', ''],
    ['@hermes @hermes twice', 'twice'],
    ['done. @hermes', 'done.'],
  ])('%j is one, and leaves %j', ([text, rest]) => {
    expect(readText(text ?? '')).toMatchObject({ namesBot: true, text: rest });
  });

  test.for(['hermes', 'mail lin@hermes.example', '@hermes2 is another', '@hermes-bot too', '@hermesis', 'a.b@hermes'])('%j is none', (text) => {
    expect(readText(text)).toMatchObject({ namesBot: false, text });
  });
});

test('other names are mentions of people, once each; a call to everybody is nobody', () => {
  expect(readText('@lin @zhou 周 @lin ask @周周').mentions.map((person) => person.id)).toEqual(['console:local:lin', 'console:local:zhou', 'console:local:周周']);
  for (const text of ['@all', '@channel lunch', '@所有人', '@所有人请看', '@Everyone', '@here', 'mail zhou@example.com']) expect(readText(text)).toMatchObject({ namesBot: false, mentions: [] });
});

test('reading a long text takes time in proportion to it', () => {
  const start = performance.now();
  for (const text of ['@hermes '.repeat(2500), '@'.repeat(20_000), ' '.repeat(20_000), `@${'x'.repeat(20_000)}`]) readText(text);
  expect(performance.now() - start).toBeLessThan(500);
});

describe('names', () => {
  test.for(['lin', '林一', 'a', 'x'.repeat(64), 'Zoë_2-b'])('%j may speak', (user) => {
    expect(checkUser(user)).toBe(user);
  });

  test.for([
    ['', /user: must be 1 to 64/],
    ['x'.repeat(65), /user: must be 1 to 64/],
    ['a b', /user: must be 1 to 64/],
    ['@lin', /user: must be 1 to 64/],
    ['hermes', /bot itself/],
    ['HERMES', /bot itself/],
    ['ｈｅｒｍｅｓ', /bot itself/],
    ['slack:T1:U1', /belongs to another platform/],
    ['login:admin', /belongs to another platform/],
  ] as const)('%j may not', ([user, why]) => {
    expect(() => checkUser(user)).toThrow(why);
  });

  test.for(['ops', '运维群', '@lin'])('%j is a channel', (channel) => {
    expect(checkChannel(channel)).toBe(channel);
  });

  test.for(['', 'a b', '#ops', '@', '@hermes', '@a b', 'slack:C1'])('%j is none', (channel) => {
    expect(() => checkChannel(channel)).toThrow(/channel|user/);
  });

  test('a direct chat is open to its own person only, a group to all', () => {
    expect(() => checkAccess('@lin', 'lin')).not.toThrow();
    expect(() => checkAccess('@lin', 'zhou')).toThrow(/direct chat of lin/);
    expect(() => checkAccess('@lin', undefined)).toThrow(/direct chat of lin/);
    expect(() => checkAccess('ops', undefined)).not.toThrow();
  });

  test('a message is named by its id or by its key', () => {
    expect(messageIdIn('thread', 'm1')).toBe('m1');
    expect(messageIdIn('thread', 'console:local:@lin:m1')).toBe('m1');
    expect(() => messageIdIn('thread', 'slack:T1:C1:1.2')).toThrow(/another platform/);
  });
});
