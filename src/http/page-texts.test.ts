import { expect, test } from 'vitest';
import { pageTexts } from './page-texts.ts';

const leaves = (value: object): [string, unknown][] =>
  Object.entries(value).flatMap(([key, item]) => (typeof item === 'object' && item !== null ? leaves(item).map(([inner, leaf]): [string, unknown] => [`${key}.${inner}`, leaf]) : [[key, item]]));

test('both languages say the same things, in plain text, and keep the same gaps to fill', () => {
  const en = new Map(leaves(pageTexts.en));
  const zh = new Map(leaves(pageTexts.zh));
  expect([...zh.keys()]).toEqual([...en.keys()]);
  for (const [key, text] of en) {
    expect(String(text).length, key).toBeGreaterThan(0);
    expect(String(zh.get(key)).match(/\{\w+\}/g), key).toEqual(String(text).match(/\{\w+\}/g));
  }
});
