import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { OutboundMessage } from '../types.ts';
import { measure, type Size, splitMessage, splitText } from './split.ts';

const words = fc.constantFrom('word', '部署', '🚀', '👩‍👩‍👧‍👦', '🇨🇳', 'é', 'e\u0301', ' ', '\n', '\n\n', '\r\n', '. ', '。', ', ', '**', '\u202e', '\t', '1234567890'.repeat(5));
const plainText = fc.array(words, { maxLength: 400 }).map((parts) => parts.join(''));
const fenceLines = fc.constantFrom('```', '```ts', '~~~', '````', '  ```', 'const a = 1;', '', '# title', '说明文字', '- item');
const codeText = fc.array(fenceLines, { maxLength: 120 }).map((lines) => lines.join('\n'));
const size = fc.record({ limit: fc.integer({ min: 16, max: 400 }), unit: fc.constantFrom<Size['unit']>('utf16', 'bytes', 'codepoints') });

const withoutFences = (text: string): string =>
  text
    .split('\n')
    .filter((line) => !/^[ \t]*(```|~~~)/.test(line))
    .join('')
    .replaceAll('\r', '');

describe('splitText', () => {
  test('any text is cut into well-formed parts within the limit that join to the whole text', () => {
    fc.assert(
      fc.property(plainText, size, (text, s) => {
        const parts = splitText(text, s);
        expect(parts.join('')).toBe(text);
        for (const part of parts) {
          expect(part.isWellFormed()).toBe(true);
          expect(measure(part, s.unit)).toBeLessThanOrEqual(s.limit);
        }
      }),
    );
  });

  test('no part ends inside what a reader sees as one character', () => {
    fc.assert(
      fc.property(plainText, fc.integer({ min: 50, max: 400 }), (text, limit) => {
        const boundaries = new Set([...new Intl.Segmenter().segment(text)].map(({ index }) => index));
        let at = 0;
        for (const part of splitText(text, { limit, unit: 'utf16' }).slice(0, -1)) {
          at += part.length;
          expect(boundaries.has(at)).toBe(true);
        }
      }),
    );
  });

  test('code loses nothing but gains fences, within the limit', () => {
    fc.assert(
      fc.property(codeText, size, (text, s) => {
        const parts = splitText(text, s);
        expect(withoutFences(parts.join('\n'))).toBe(withoutFences(text));
        for (const part of parts) expect(measure(part, s.unit)).toBeLessThanOrEqual(s.limit);
      }),
    );
  });

  test('code is closed where it is cut and opened again with its language', () => {
    const code = Array.from({ length: 40 }, (_, i) => `const value${i} = ${i};`).join('\n');
    const parts = splitText(`Here:\n\n\`\`\`ts\n${code}\n\`\`\`\n\nDone.`, { limit: 300, unit: 'utf16' });
    expect(parts.length).toBeGreaterThan(2);
    for (const part of parts) expect(part.match(/^```/gm)?.length).toBe(2);
    for (const part of parts.slice(1)) expect(part.startsWith('```ts\n')).toBe(true);
    expect(parts.at(-1)?.endsWith('Done.')).toBe(true);
  });

  test('the line that ends the code stays with it where it fits', () => {
    const parts = splitText(`\`\`\`\n${'x\n'.repeat(40)}\`\`\`\n${'y'.repeat(60)}`, { limit: 90, unit: 'utf16' });
    expect(parts.every((part) => !part.startsWith('```\n```'))).toBe(true);
    expect(parts.at(-1)).toBe('y'.repeat(60));
  });

  test.for([
    ['after a paragraph', `${'a'.repeat(40)}\n\n${'b'.repeat(20)}\n${'c'.repeat(60)}`, `${'a'.repeat(40)}\n\n`],
    ['else after a line', `${'a'.repeat(60)}\n${'b '.repeat(40)}`, `${'a'.repeat(60)}\n`],
    ['else after a sentence', `It works. ${'b '.repeat(10)}So. ${'c'.repeat(90)}`, `It works. ${'b '.repeat(10)}So. `],
    ['also a Chinese one', `${'部署'.repeat(20)}。${'完成'.repeat(40)}`, `${'部署'.repeat(20)}。`],
    ['else after a word', `${'a'.repeat(70)} ${'b'.repeat(70)}`, `${'a'.repeat(70)} `],
    ['else where the limit is', 'a'.repeat(250), 'a'.repeat(100)],
  ])('cuts %s', ([, text, first]) => {
    expect(splitText(text ?? '', { limit: 100, unit: 'utf16' })[0]).toBe(first);
  });

  test('a text within the limit stays one part, also an empty one', () => {
    expect(splitText('', { limit: 100, unit: 'utf16' })).toEqual(['']);
    expect(splitText('```\nopen', { limit: 100, unit: 'utf16' })).toEqual(['```\nopen']);
  });

  test('the unit decides: three bytes a Chinese character, one code point an emoji', () => {
    expect(splitText('部'.repeat(100), { limit: 30, unit: 'bytes' })[0]).toHaveLength(10);
    expect(splitText('🚀'.repeat(100), { limit: 30, unit: 'codepoints' })[0]).toHaveLength(60);
  });

  test('a single character longer than the limit still makes progress and tears no surrogate pair', () => {
    const zalgo = `z${'\u0301'.repeat(500)}${'🚀'}${'\u{1F3FB}'.repeat(300)}`;
    const parts = splitText(zalgo, { limit: 99, unit: 'utf16' });
    expect(parts.join('')).toBe(zalgo);
    expect(parts.every((part) => part.isWellFormed() && part.length <= 99)).toBe(true);
  });

  test.for([
    ['6,000 emoji without a space', '👩‍👩‍👧‍👦🇨🇳🚀'.repeat(2000)],
    ['200 kB without a space', 'x'.repeat(200_000)],
    ['200 kB of fences', '```\n'.repeat(50_000)],
    ['200 kB of line feeds', '\n'.repeat(200_000)],
    ['200 kB of words', 'word '.repeat(40_000)],
  ] as const)('takes little time for %s, and four times as long for four times as much', ([, text]) => {
    const took = (input: string): number => {
      const start = performance.now();
      splitText(input, { limit: 4000, unit: 'utf16' });
      return performance.now() - start;
    };
    took(text);
    expect(took(text)).toBeLessThan(1000);
    expect(took(text.repeat(4))).toBeLessThan(4000);
  });
});

describe('splitMessage', () => {
  const message: OutboundMessage = {
    key: 'r_1/answer',
    place: { platform: 'console', tenant: 'local', channel: 'ops', thread: 'm1', audience: 'group' },
    language: 'en',
    markdown: 'word '.repeat(50),
    buttons: [{ interactionId: 'i_1', choice: 'approve', label: 'Approve' }],
    input: { interactionId: 'i_1', label: 'Your answer' },
    files: [{ name: 'a.txt', mimeType: 'text/plain', blob: 'sha' }],
    replacesKey: 'r_1/earlier',
    quote: 'm1',
  };

  test('parts are numbered by key; what stands above goes first, what stands below goes last', () => {
    const parts = splitMessage(message, { limit: 100, unit: 'utf16' });
    expect(parts.map((part) => part.key)).toEqual(['r_1/answer', 'r_1/answer#2', 'r_1/answer#3']);
    expect(parts.map((part) => [part.replacesKey, part.quote])).toEqual([
      ['r_1/earlier', 'm1'],
      [undefined, undefined],
      [undefined, undefined],
    ]);
    expect(parts.map((part) => [part.buttons, part.input, part.files].filter(Boolean).length)).toEqual([0, 0, 3]);
    expect(parts.map((part) => part.markdown).join('')).toBe(message.markdown);
  });

  test('one part is the message itself', () => {
    expect(splitMessage(message, { limit: 4000, unit: 'utf16' })).toEqual([message]);
  });
});
