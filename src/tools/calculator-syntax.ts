/** How people write arithmetic, and the syntax tree it becomes. Pure: nothing is computed here. */

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
  [/ % [-+](?! )|% ?%/, 'it is unclear whether this % means percent or modulo. Write mod(a, b) for a modulo.'],
  [/[\d.]e[+-](?!\d)/, 'a number with an exponent needs digits after it, such as 1e-5. Write 2*e for the constant e.'],
  [/(?<=[a-z]\w*)\.|\.[a-z_]/, 'property access (.) is not supported. Only numbers, operators and the named functions are.'],
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
  for (const [part] of text.matchAll(/[a-z_]\w*(?: ?\()?|\(|\)|(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])|./g)) {
    if (part.endsWith('(')) insideFunction.push(part !== '(');
    else if (part === ')') insideFunction.pop();
    const separates = insideFunction.at(-1) === true;
    if (!separates && part === ',') throw new Refusal('arguments', 'a comma stands outside a function and is no thousands separator. Use a point for decimals, such as 1234.5.');
    result += separates ? part : part.replaceAll(',', '');
  }
  return result;
}

// ---------------------------------------------------------------- parse

/** Two values side by side are multiplied: `2(3+4)`. */
type Operator = '+' | '-' | '*' | '/' | 'mod' | 'beside' | '^';

export type SyntaxNode =
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly SyntaxNode[] }
  | { readonly kind: 'group'; readonly inner: SyntaxNode }
  | { readonly kind: 'unary'; readonly operator: '+' | '-' | '%'; readonly operand: SyntaxNode }
  | { readonly kind: 'binary'; readonly operator: Operator; readonly left: SyntaxNode; readonly right: SyntaxNode };

/** What binds stronger is computed first. A sign binds like a power: `-2^2` is -4. */
const strengths = { '+': 1, '-': 1, '*': 2, '/': 2, mod: 2, beside: 3, '^': 4, '%': 5 } as const;

type Reader = { readonly written: string; readonly tokens: readonly string[]; at: number };

/** A Pratt parser: each token is read once. */
export function parse(written: string): SyntaxNode {
  const reader: Reader = { written, tokens: written.match(/(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[a-z_]\w*|[^ ]/g) ?? [], at: 0 };
  const tree = expression(reader, 0, 0);
  return reader.at < reader.tokens.length ? unexpected(reader) : tree;
}

function unexpected({ written, tokens, at }: Reader): never {
  const token = tokens[at];
  throw new Refusal('arguments', `"${written}" is not a complete expression (${token === undefined ? 'it ends too early' : `unexpected "${token}"`}). Check parentheses and operators.`);
}

function expression(reader: Reader, least: number, depth: number): SyntaxNode {
  if (depth > maxDepth) throw new Refusal('arguments', `parentheses, signs or powers are nested deeper than ${maxDepth}. Split the expression and use the partial results.`);
  let left = operand(reader, depth);
  for (let operator = operatorAfter(left, reader); operator && strengths[operator] >= least; operator = operatorAfter(left, reader)) {
    if (operator !== 'beside') reader.at++;
    left = operator === '%' ? { kind: 'unary', operator, operand: left } : { kind: 'binary', operator, left, right: rightOf(operator, reader, depth) };
  }
  return left;
}

function rightOf(operator: Operator, reader: Reader, depth: number): SyntaxNode {
  if (operator === '^') return expression(reader, strengths['^'], depth + 1);
  const right = expression(reader, strengths[operator] + 1, depth);
  const isAmbiguous = operator === '/' && right.kind === 'binary' && right.operator === 'beside';
  if (isAmbiguous) throw new Refusal('arguments', 'a division followed by a value without * can be read in two ways. Write the * and parentheses.');
  return right;
}

function operand(reader: Reader, depth: number): SyntaxNode {
  const token = reader.tokens[reader.at] ?? '';
  if (!beginsValue(token) && token !== '+' && token !== '-') return unexpected(reader);
  reader.at++;
  if (token === '+' || token === '-') return { kind: 'unary', operator: token, operand: expression(reader, strengths['^'], depth + 1) };
  if (token === '(') return { kind: 'group', inner: closed(reader, expression(reader, 0, depth + 1)) };
  if (!isName(token)) return { kind: 'number', text: token };
  if (reader.tokens[reader.at] !== '(') return { kind: 'name', name: token };
  reader.at++;
  return { kind: 'call', name: token, args: argumentsOf(reader, depth + 1) };
}

function argumentsOf(reader: Reader, depth: number): readonly SyntaxNode[] {
  if (reader.tokens[reader.at] === ')') return closed(reader, []);
  const args = [expression(reader, 0, depth)];
  while (reader.tokens[reader.at] === ',') {
    reader.at++;
    args.push(expression(reader, 0, depth));
  }
  return closed(reader, args);
}

function closed<Inside>(reader: Reader, inside: Inside): Inside {
  if (reader.tokens[reader.at] !== ')') unexpected(reader);
  reader.at++;
  return inside;
}

const isName = (token: string): boolean => /^[a-z_]/.test(token);
const beginsValue = (token: string): boolean => /^(?:\.?\d|[a-z_(])/.test(token);

/** Before a number, a name or a parenthesis % is modulo, anywhere else percent. */
function operatorAfter(left: SyntaxNode, reader: Reader): Operator | '%' | undefined {
  const [token = '', next = ''] = reader.tokens.slice(reader.at, reader.at + 2);
  if (token === '%') return beginsValue(next) && next !== 'of' ? 'mod' : '%';
  if (token === 'of' && reader.tokens[reader.at - 1] === '%') return '*';
  if (token === '+' || token === '-' || token === '*' || token === '/' || token === '^' || token === 'mod') return token;
  return token === '(' || isName(token) || (beginsValue(token) && mayPrecedeNumber(left)) ? 'beside' : undefined;
}

/** `(2)3` and `pi 2` are products, `1 2` is a mistake. */
const mayPrecedeNumber = (node: SyntaxNode): boolean => (node.kind === 'binary' ? node.operator === 'beside' && mayPrecedeNumber(node.right) : node.kind !== 'number' && node.kind !== 'unary');
