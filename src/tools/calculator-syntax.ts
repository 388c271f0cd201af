/** How people write arithmetic, and the syntax tree it becomes. mathjs only parses: nothing is computed by it. */
import type { BigNumber } from 'mathjs';

export const maxLength = 500;
const maxDepth = 40;

/** Why an expression has no value. Caught by the calculator; its message is what the model reads. */
export class Refusal extends Error {
  readonly kind: 'arguments' | 'business';
  constructor(kind: Refusal['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

const signs: Readonly<Record<string, string>> = { '×': '*', '✕': '*', '✖': '*', '⋅': '*', '·': '*', '∗': '*', '÷': '/', '∕': '/', '−': '-', '–': '-', '—': '-', '﹣': '-' };
const superscripts = /[⁰¹²³⁴⁵⁶⁷⁸⁹]+/g;

/** The expression as it is computed and shown: ASCII, lower case, without thousands separators. */
export function normalise(expression: string): string {
  if (expression.length > maxLength) throw new Refusal('arguments', `the expression has ${expression.length} characters, at most ${maxLength} are allowed. Split it and use the partial results.`);
  const text = [...expression.replace(superscripts, (power) => `^(${power.normalize('NFKC')})`)]
    .map(ascii)
    .join('')
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .replace(/\*\*/g, '^')
    .replace(/(?<=[\d)]) x (?=[\d(])/g, ' * ')
    .replace(/^ ?= ?|\s*=\s*\??\s*$/g, '')
    .trim();
  if (text === '') throw new Refusal('arguments', 'the expression is empty. Give one, such as "(13+27)*4".');
  refuseForeign(text);
  return withoutThousands(text);
}

function ascii(char: string): string {
  const compatible = signs[char] ?? char.normalize('NFKC');
  if (compatible.length > char.length) throw new Refusal('arguments', `the character "${char}" is not supported. Write it as numbers and operators, such as 1/2.`);
  return compatible;
}

const foreign: readonly (readonly [RegExp, string])[] = [
  [/[<>&|~?]|==|!=/, 'comparisons and logic are not supported. Give one arithmetic expression.'],
  [/=/, 'assignments and equations (=) are not supported. Put the numbers in directly.'],
  [/["'`]/, 'text in quotes is not supported. Give numbers only.'],
  [/[[\]{};]/, 'matrices and lists are not supported. Use sum(1, 2, 3), mean(…), min(…) or max(…).'],
  [/:/, 'ranges and ratios (:) are not supported. Use / for a division.'],
  [/!/, 'factorials (!) are not supported. Write the product out.'],
  [/[$€£¥₩]/, 'currency signs are not supported. Leave the sign out and name the currency in the answer.'],
  [/\b0[xob]/, 'hexadecimal, octal and binary numbers are not supported. Use decimal numbers.'],
  [/[a-z]\w*\.|\.[a-z_]/, 'property access (.) is not supported. Only numbers, operators and the named functions are.'],
];

function refuseForeign(text: string): void {
  const found = foreign.find(([pattern]) => pattern.test(text));
  if (found) throw new Refusal('arguments', found[1]);
  const char = /[^a-z0-9_.,+\-*/^%() ]/u.exec(text)?.[0];
  if (char !== undefined) throw new Refusal('arguments', `the character "${char}" is not supported. Use numbers, + - * / ^ %, parentheses and the named functions.`);
}

/** In the parentheses of a function a comma always separates arguments; elsewhere only thousands. */
function withoutThousands(text: string): string {
  const insideFunction: boolean[] = [];
  let result = '';
  for (const [part] of text.matchAll(/[a-z_]\w* ?\(|\(|\)|(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])|./g)) {
    if (part.endsWith('(')) insideFunction.push(part !== '(');
    else if (part === ')') insideFunction.pop();
    if (insideFunction.length > maxDepth) throw new Refusal('arguments', `parentheses are nested deeper than ${maxDepth}. Split the expression and use the partial results.`);
    const separates = insideFunction.at(-1) === true;
    if (!separates && part === ',') throw new Refusal('arguments', 'a comma stands outside a function and is no thousands separator. Use a point for decimals, such as 1234.5.');
    result += separates ? part : part.replaceAll(',', '');
  }
  return result;
}

// ---------------------------------------------------------------- parse

/** What is used of the number class. */
export type BigClass = {
  new (value: BigNumber): BigNumber;
  readonly precision: number;
  clone(settings: { precision: number }): BigClass;
  isDecimal(value: unknown): value is BigNumber;
  acos(value: number): BigNumber;
  exp(value: number): BigNumber;
  max(...values: BigNumber[]): BigNumber;
  min(...values: BigNumber[]): BigNumber;
};

export type Engine = { parse(text: string): unknown; numbers(digits: number): BigClass };

/** The part of mathjs's tree that is read here; any other node is refused by its type. */
export type SyntaxNode = { readonly type: string; readonly fn?: unknown; readonly args?: readonly SyntaxNode[]; readonly content?: SyntaxNode; readonly name?: string; readonly value?: unknown; readonly implicit?: boolean };

let loading: Promise<Engine> | undefined;

/** At the first calculation: mathjs costs most of a second. */
export function loaded(): Promise<Engine> {
  loading ??= load();
  return loading;
}

async function load(): Promise<Engine> {
  const { create, parseDependencies, BigNumberDependencies } = await import('mathjs');
  const math = create({ ...parseDependencies, ...BigNumberDependencies }, { number: 'BigNumber' });
  const { BigNumber } = math as unknown as { BigNumber: BigClass };
  return { parse: (text) => math.parse(text), numbers: (digits) => BigNumber.clone({ precision: digits }) };
}

export function parse(engine: Engine, written: string): SyntaxNode {
  try {
    return engine.parse(withoutPercent(written)) as SyntaxNode;
  } catch (error) {
    if (error instanceof Refusal || !(error instanceof SyntaxError)) throw error;
    throw new Refusal('arguments', `"${written}" is not a complete expression (${error.message}). Check parentheses and operators.`);
  }
}

/**
 * mathjs guesses whether % means percent or modulo: it takes `10% - 3%` for a modulo, and needs twice the time for each level of `1%(1%(…`.
 * It is decided here: before a number, a name or a parenthesis it is modulo, anywhere else percent, which travels as `!`.
 */
function withoutPercent(written: string): string {
  if (/ % [-+](?! )|% ?%/.test(written)) throw new Refusal('arguments', 'it is unclear whether this % means percent or modulo. Write mod(a, b) for a modulo.');
  return written
    .replace(/% ?of\b/g, '! *')
    .replace(/%(?= ?[\w.(])/g, ' mod ')
    .replaceAll('%', '!');
}
