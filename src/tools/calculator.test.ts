import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { calculator } from './calculator.ts';
import type { ToolContext, ToolResult } from './types.ts';

async function calculate(expression: string): Promise<ToolResult> {
  const result = await calculator.execute?.({ expression }, {} as ToolContext, undefined);
  if (!result) throw new Error('the calculator did not answer');
  return result;
}

const exact: readonly (readonly [expression: string, value: string])[] = [
  ['(13+27)*4', '160'],
  ['0.1+0.2', '0.3'],
  ['1.1*1.1', '1.21'],
  ['1-0.9', '0.1'],
  ['12345678901234567890*98765432109876543210', '1219326311370217952237463801111263526900'],
  ['99999999999999999999 + 1', '100000000000000000000'],
  ['2^200', '1606938044258990275541962092341162602522202993782792835301376'],
  ['2**10', '1024'],
  ['2^3^2', '512'],
  ['-2^2', '-4'],
  ['(-2)^2', '4'],
  ['2^-2', '0.25'],
  ['3--2', '5'],
  ['.5+5.', '5.5'],
  ['1.5e3 + 1', '1501'],
  ['1e60+1', '1000000000000000000000000000000000000000000000000000000000001'],
  ['10 % 3', '1'],
  ['10%3', '1'],
  ['(7+3)%(4)', '2'],
  ['-7 mod 3', '2'],
  ['mod(10, 4)', '2'],
  ['7.5 % 2', '1.5'],
  ['350 + 10%', '385'],
  ['350 - 10%', '315'],
  ['50*20%', '10'],
  ['5%*200', '10'],
  ['10% + 20%', '0.3'],
  ['10% - 3%', '0.07'],
  ['50%', '0.5'],
  ['(5)%', '0.05'],
  ['50-(10%)', '49.9'],
  ['20% of 50', '10'],
  ['100 + 20% of 50', '110'],
  ['2(3+4)', '14'],
  ['1/3*3', '1'],
  ['1/3*3-1', '0'],
  ['floor(1/3*3)', '1'],
  ['mod(1, 1/3)', '0'],
  ['sqrt(2)^2', '2'],
  ['sqrt(16)', '4'],
  ['log(8, 2)', '3'],
  ['log10(1000)', '3'],
  ['ln(1)', '0'],
  ['exp(0)', '1'],
  ['abs(-3.5)', '3.5'],
  ['round(2.345, 2)', '2.35'],
  ['round(-2.5)', '-3'],
  ['floor(-1.2)', '-2'],
  ['ceil(1.2)', '2'],
  ['min(3, 1, 2)', '1'],
  ['max((1,234), 5)', '1234'],
  ['sum(1,234)', '235'],
  ['mean(1, 2, 6)', '3'],
  ['pow(2, 10)', '1024'],
  ['MAX(1, 2) + PI - pi', '2'],
  ['0^0', '1'],
  ['round(-0.4)', '0'],
  ['10^70+1', `1${'0'.repeat(69)}1`],
  ['2^-2^2', '0.0625'],
  ['8^(1/3)', '2'],
  ['ln(8)/ln(2)', '3'],
  ['10 - 4 - 3', '3'],
  ['24 / 4 / 2', '3'],
  ['7.*2', '14'],
  ['(2)3', '6'],
  ['2pi 3 - 6 pi', '0'],
  ['2 - 3 mod 2', '1'],
  ['17 % 5 % 3', '2'],
  ['100 + -5%', '99.95'],
  ['2^50%^2 - 2^0.25', '0'],
  ['(-1)^1e50', '1'],
  [`${'('.repeat(40)}1${')'.repeat(40)}`, '1'],
];

describe('calculator', () => {
  it.each(exact)('%s is exactly %s', async (expression, value) => {
    expect((await calculate(expression)).content.split(' = ').at(-1)).toBe(value);
  });

  const rewritten: readonly (readonly [written: string, content: string])[] = [
    ['（13＋27）×4', '(13+27)*4 = 160'],
    ['１００÷８', '100/8 = 12.5'],
    ['5−3', '5-3 = 2'],
    ['1,234,567.89 * 2', '1234567.89 * 2 = 2469135.78'],
    ['１，２３４＋１', '1234+1 = 1235'],
    ['3 x 4', '3 * 4 = 12'],
    ['5²', '5^(2) = 25'],
    [' =1+1 ', '1+1 = 2'],
    ['1+1=?', '1+1 = 2'],
    ['2\n+\t3', '2 + 3 = 5'],
  ];
  it.each(rewritten)('reads %j as people mean it', async (written, content) => {
    expect(await calculate(written)).toEqual({ ok: true, content });
  });

  const rounded: readonly (readonly [expression: string, start: string])[] = [
    ['1/3', '1/3 ≈ 0.33333333333333333333 (rounded to 20 digits)'],
    ['sqrt(2)', 'sqrt(2) ≈ 1.4142135623730950488 '],
    ['pi', 'pi ≈ 3.1415926535897932385 '],
    ['2*e', '2*e ≈ 5.4365636569180904707 '],
    ['2^300', '2^300 ≈ 2.0370359763344860863e+90 '],
    ['log(100)', 'log(100) ≈ 4.605170185988091368 (rounded to 20 digits) (log of one number is the natural logarithm)'],
  ];
  it.each(rounded)('says that %s is rounded', async (expression, start) => {
    expect((await calculate(expression)).content).toContain(start);
  });

  const refused: readonly (readonly [expression: string, error: string, named: string])[] = [
    ['', 'arguments', 'empty'],
    ['   ', 'arguments', 'empty'],
    ['1+', 'arguments', 'not a complete expression'],
    ['(1+2', 'arguments', 'not a complete expression'],
    ['1 2', 'arguments', 'not a complete expression'],
    ['x = 3', 'arguments', 'assignments'],
    ['f(x) = x', 'arguments', 'assignments'],
    ['1 == 1', 'arguments', 'comparisons'],
    ['2 > 1', 'arguments', 'comparisons'],
    ['a.b', 'arguments', 'property access'],
    ['sqrt.constructor', 'arguments', 'property access'],
    ['"text"', 'arguments', 'quotes'],
    ['[1, 2]', 'arguments', 'matrices'],
    ['1; 2', 'arguments', 'matrices'],
    ['1:1e9', 'arguments', 'ranges'],
    ['5!', 'arguments', 'factorials'],
    ['0x10', 'arguments', 'hexadecimal'],
    ['$5 + 3', 'arguments', 'currency'],
    ['3万 + 5', 'arguments', '"万"'],
    ['½ + 1', 'arguments', '"½"'],
    ['5 cm', 'arguments', '"cm"'],
    ['5 cm to inch', 'arguments', 'cm'],
    ['true', 'arguments', '"true"'],
    ['not 1', 'arguments', '"not"'],
    ['zeros(1e4, 1e4)', 'arguments', '"zeros"'],
    ['import(1)', 'arguments', '"import"'],
    ['constructor(1)', 'arguments', '"constructor"'],
    ['__proto__', 'arguments', '"__proto__"'],
    ['sqrt 4', 'arguments', 'sqrt needs parentheses'],
    ['sqrt(1, 2)', 'arguments', 'sqrt takes 1 value, got 2'],
    ['max()', 'arguments', 'max takes'],
    ['round(1, 0.5)', 'arguments', 'decimal places'],
    ['1,23 + 1', 'arguments', 'comma'],
    ['10 % -3', 'arguments', 'percent or modulo'],
    ['5%%', 'arguments', 'percent or modulo'],
    ['6/2(1+2)', 'arguments', 'two ways'],
    ['1/0', 'business', 'divides by zero'],
    ['mod(1, 0)', 'business', 'divides by zero'],
    ['0^-1', 'business', 'divides by zero'],
    ['log(5, 1)', 'business', 'divides by zero'],
    ['sqrt(-1)', 'business', 'no real value'],
    ['ln(0)', 'business', 'no logarithm'],
    ['9^9^9', 'business', 'larger than'],
    ['1e99999999999', 'business', 'larger than'],
    ['exp(99999)', 'business', 'larger than'],
    ['1e-200', 'business', 'smaller than'],
    ['exp(-1e20)', 'business', 'smaller than'],
    ['1e-99999999999999999999', 'business', 'smaller than'],
    ['(1+1e-17)^-1e100', 'business', 'smaller than'],
    ['1e100 + ln(2)/1e20', 'business', 'too far apart'],
    ['2^(2) 3', 'arguments', 'not a complete expression (unexpected "3")'],
    ['max(1,)', 'arguments', 'not a complete expression (unexpected ")")'],
    ['(1))', 'arguments', 'not a complete expression (unexpected ")")'],
    ['2e-(3)', 'arguments', 'digits after it'],
    ['pi/2(3)', 'arguments', 'two ways'],
    [`${'ln(2)+'.repeat(20)}ln(2)`, 'arguments', 'too many logarithms'],
    [`${'-'.repeat(41)}1`, 'arguments', 'nested deeper'],
    ['1+'.repeat(250) + 1, 'arguments', '501 characters'],
    [`${'('.repeat(41)}1${')'.repeat(41)}`, 'arguments', 'nested deeper'],
  ];
  it.each(refused)('refuses %j', async (expression, error, named) => {
    const result = await calculate(expression);
    expect(result).toMatchObject({ ok: false, error });
    expect(result.content).toContain(named);
    expect(result.content).toMatch(/^Not calculated: .*[.)]$/);
  });

  it('comes back at once from what would take for ever', async () => {
    const started = performance.now();
    await Promise.all([calculate('9^9^9^9'), calculate('1%('.repeat(40) + 1 + ')'.repeat(40)), calculate(`2^${'2^'.repeat(240)}2`), calculate('-'.repeat(499) + 1)]);
    expect(performance.now() - started).toBeLessThan(2000);
  });

  it('answers the slowest expressions at once', async () => {
    const slowest = ['(2/3)^(1/7)+'.repeat(8), 'ln(7/3)+'.repeat(20), 'sqrt(2)+'.repeat(9), '(1+1e-70)^(1e71+.5)+'.repeat(8), '.98^9e3+'.repeat(62), '(4/3)^99*'.repeat(8)];
    const started = performance.now();
    const results = await Promise.all(slowest.map((expression) => calculate(`${expression}1`)));
    expect(performance.now() - started).toBeLessThan(2000);
    expect(results.map(({ ok }) => ok)).toEqual(slowest.map(() => true));
  });

  it('never throws, whatever is written', async () => {
    const pieces = fc.constantFrom('1', '2.5', '0', '1e9', '+', '-', '*', '/', '^', '%', '(', ')', ',', ' ', 'sqrt(', 'mod(', 'pi', 'of', 'x', '=', '!', '.', '√', '\ud800');
    const expressions = fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(expressions, async (expression) => {
        expect((await calculate(expression)).content).not.toBe('');
      }),
      { numRuns: 500 },
    );
  });

  it('agrees with whole numbers of any size', async () => {
    const values = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n });
    await fc.assert(
      fc.asyncProperty(values, values, async (a, b) => {
        expect((await calculate(`(${a}) * (${b}) + (${a})`)).content.split(' = ').at(-1)).toBe(String(a * b + a));
      }),
      { numRuns: 200 },
    );
  });
});
