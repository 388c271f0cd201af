/** Exact decimal arithmetic. The tree is walked here, so nothing is computed that this file does not name. */
import { Decimal } from 'decimal.js';
import { z } from 'zod';
import { maxLength, normalise, parse, Refusal, type SyntaxNode } from './calculator-syntax.ts';
import type { ToolDefinition, ToolResult } from './types.ts';

const args = z.object({
  expression: z.string().describe('One expression, for example "(13+27)*4", "350 + 10%" or "round(1234.5*0.07, 2)"; + - * / ^ %, pi, e, sqrt, min, max, sum, mean, log, mod'),
});

export const calculator: ToolDefinition<z.output<typeof args>> = {
  name: 'calculator',
  description:
    'Computes one arithmetic expression exactly. Use it for every calculation, however small. Do not use it for units, dates, variables or equations: put plain numbers in. Returns the expression with its value, such as "(13+27)*4 = 160", or what to change.',
  level: 0,
  args,
  retrySafe: true,
  stable: true,
  trusted: true,
  execute: ({ expression }) => calculate(expression),
};

/** Beyond this power of ten a figure is a mistake, and computing on with it costs time. */
const maxExponent = 100;
const digits = 64;
const shownDigits = 20;
/** The last digits of a rounded value are not trusted: `1/3*3` is 1. */
const guardDigits = 8;
/** Work is done twice; where both agree within their trusted digits, the value is exact. */
const workingDigits = digits + guardDigits;
const controlDigits = 2 * maxExponent + 20;
/** The control of what is slow, in a fifth of the time. More than maxExponent, so that nothing is lost beside 1. */
const slowControlDigits = maxExponent + 10;

/** What is slow, in tenths of a logarithm, which takes a millisecond or two. */
const efforts = { root: 1, largePower: 1, logarithm: 10, fractionalPower: 25 } as const;
const maxEffort = 200;
/** Whole powers up to these take a few multiplications, or a few dozen. */
const smallPower = 100;
const largePower = 10_000;

/** One computation: its numbers, and its effort so far. */
type Work = { readonly Big: Decimal.Constructor; effort: number };

const work = (precision: number): Work => ({ Big: Decimal.clone({ precision }), effort: 0 });

async function calculate(expression: string): Promise<ToolResult> {
  try {
    const written = normalise(expression);
    return { ok: true, content: answer(written, parse(written)) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ok: false, error: error.kind, content: `Not calculated: ${error.message}` };
  }
}

function answer(written: string, tree: SyntaxNode): string {
  const first = work(workingDigits);
  const working = settledValue(tree, first);
  const value = settledValue(tree, work(first.effort < efforts.logarithm ? controlDigits : slowControlDigits));
  return sentence(written, value, working.eq(value));
}

function sentence(written: string, value: Decimal, exact: boolean): string {
  const note = /\blog\([^,()]*\)/.test(written) ? ' (log of one number is the natural logarithm)' : '';
  if (exact) return `${written} = ${plain(value, workingDigits)}${note}`;
  return `${written} ≈ ${plain(value.toSignificantDigits(shownDigits), shownDigits)} (rounded to ${shownDigits} digits)${note}`;
}

const settledValue = (tree: SyntaxNode, at: Work): Decimal => settled(evaluate(tree, at), at);

/** A value that fills the precision was rounded on the way; without its last digits it is what was meant. */
function settled(value: Decimal, { Big }: Work): Decimal {
  return value.precision() < Big.precision ? value : value.toSignificantDigits(Big.precision - guardDigits);
}

function plain(value: Decimal, places: number): string {
  if (value.isZero()) return '0';
  return value.e < places && value.e > -shownDigits ? value.toFixed() : value.toExponential();
}

// ---------------------------------------------------------------- evaluate

const tooLarge = `a value in it is larger than 10^${maxExponent}. Use smaller exponents, or logarithms.`;
const tooSmall = `a value in it is smaller than 10^-${maxExponent}. Check the figures.`;

function evaluate(node: SyntaxNode, at: Work): Decimal {
  const value = computed(node, at);
  if (value.isNaN()) throw new Refusal('business', 'the expression has no real value (for instance the root of a negative number). Check the figures.');
  if (!value.isFinite() || value.e > maxExponent) throw new Refusal('business', tooLarge);
  if (!value.isZero() && value.e < -maxExponent) throw new Refusal('business', tooSmall);
  return value;
}

function computed(node: SyntaxNode, at: Work): Decimal {
  switch (node.kind) {
    case 'number':
      return literal(node.text, at);
    case 'name':
      return constant(node.name, at);
    case 'call':
      return call(node.name, node.args, at);
    case 'group':
      return evaluate(node.inner, at);
    case 'unary':
      return unary(node.operator, evaluate(node.operand, at));
    case 'binary':
      return binary(node, at);
  }
}

/** Far below the smallest number there is only zero, which is not what was written. */
function literal(text: string, { Big }: Work): Decimal {
  const value = new Big(text);
  if (value.isZero() && /^[0.]*[1-9]/.test(text)) throw new Refusal('business', tooSmall);
  return value;
}

function constant(name: string, at: Work): Decimal {
  if (name === 'pi') return at.Big.acos(-1);
  if (name === 'e') return exponential(new at.Big(1), at);
  if (functions.has(name)) throw new Refusal('arguments', `${name} needs parentheses, such as ${name}(2).`);
  throw new Refusal('arguments', `the name "${name}" is unknown; variables and units are not supported. Put plain numbers in.`);
}

function unary(operator: '+' | '-' | '%', a: Decimal): Decimal {
  if (operator === '%') return a.div(100);
  return operator === '-' ? a.negated() : a;
}

const isPercent = (node: SyntaxNode): boolean => node.kind === 'unary' && node.operator === '%';

function binary({ operator, left, right }: Extract<SyntaxNode, { kind: 'binary' }>, at: Work): Decimal {
  const a = evaluate(left, at);
  const b = evaluate(right, at);
  // People mean "ten per cent of what stands before".
  const share = isPercent(right) && !isPercent(left) ? a.times(b) : b;
  switch (operator) {
    case '+':
      return total(a, share, at);
    case '-':
      return total(a, share.negated(), at);
    case '*':
    case 'beside':
      return a.times(b);
    case '/':
      return quotient(a, b);
    case 'mod':
      return modulo(a, b, at);
    case '^':
      return power(a, b, at);
  }
}

function quotient(a: Decimal, b: Decimal): Decimal {
  if (b.isZero()) throw new Refusal('business', 'it divides by zero. Check the figures; there is no such value.');
  return a.div(b);
}

/** What is left of two rounded values that should cancel out is no figure. The control sees both in full, or there is no answer. */
function total(a: Decimal, b: Decimal, { Big }: Work): Decimal {
  if (Big.precision > workingDigits && Math.abs(a.e - b.e) >= Big.precision) throw new Refusal('business', 'the values of a sum are too far apart. Leave out the smaller one.');
  const sum = a.plus(b);
  return sum.e < Math.max(a.e, b.e) - (Big.precision - guardDigits) ? sum.times(0) : sum;
}

/** With the sign of the divisor, as in spreadsheets. */
function modulo(a: Decimal, b: Decimal, at: Work): Decimal {
  const times = settled(quotient(a, b), at).floor();
  if (times.e >= digits) throw new Refusal('business', 'the numbers of a modulo are too far apart. Use smaller ones.');
  return total(a, b.times(times).negated(), at);
}

function spend(at: Work, kind: keyof typeof efforts): void {
  at.effort += efforts[kind];
  if (at.effort > maxEffort) throw new Refusal('arguments', 'it has too many logarithms, roots and powers to answer at once. Split it and use the partial results.');
}

function logarithm(a: Decimal, at: Work, base?: 10): Decimal {
  if (a.lte(0)) throw new Refusal('business', 'there is no logarithm of zero or of a negative number. Check the figures.');
  spend(at, 'logarithm');
  return base ? a.log(base) : a.ln();
}

function root(a: Decimal, at: Work): Decimal {
  spend(at, 'root');
  return a.sqrt();
}

function exponential(a: Decimal, at: Work): Decimal {
  refuseFar(a.toNumber());
  spend(at, 'logarithm');
  return a.exp();
}

function power(a: Decimal, b: Decimal, at: Work): Decimal {
  if (a.isZero() && b.isNegative()) throw new Refusal('business', 'it divides by zero (zero to a negative power). Check the figures.');
  if (!a.isZero()) refuseFar(b.toNumber() * naturalLogarithm(a.abs()));
  if (!b.isInteger() || b.abs().gt(largePower)) spend(at, 'fractionalPower');
  else if (b.abs().gt(smallPower)) spend(at, 'largePower');
  return a.pow(b);
}

/** Before e^exponent is computed, which would take long or end in a zero that is none. */
function refuseFar(exponent: number): void {
  const far = (maxExponent + 1) * Math.LN10;
  if (exponent > far) throw new Refusal('business', tooLarge);
  if (exponent < -far) throw new Refusal('business', tooSmall);
}

/** Near 1 the distance to it counts: 1 + 1e-80 has a logarithm too. */
function naturalLogarithm(a: Decimal): number {
  const distance = a.minus(1).toNumber();
  return Math.abs(distance) < 0.5 ? Math.log1p(distance) : Math.log(a.toNumber());
}

type Values = readonly [Decimal, ...Decimal[]];
type MathFunction = { readonly count: readonly [number, number]; readonly compute: (values: Values, at: Work) => Decimal };

const anyCount = [1, maxLength] as const;
const one = (compute: (a: Decimal, at: Work) => Decimal): MathFunction => ({ count: [1, 1], compute: ([a], at) => compute(a, at) });
const two = (compute: (a: Decimal, b: Decimal, at: Work) => Decimal): MathFunction => ({ count: [2, 2], compute: ([a, b = a], at) => compute(a, b, at) });
const sum = ([first, ...rest]: Values, at: Work): Decimal => rest.reduce((so, value) => total(so, value, at), first);

const functions: ReadonlyMap<string, MathFunction> = new Map<string, MathFunction>([
  ['abs', one((a) => a.abs())],
  ['ceil', one((a, at) => settled(a, at).ceil())],
  ['exp', one(exponential)],
  ['floor', one((a, at) => settled(a, at).floor())],
  ['ln', one((a, at) => logarithm(a, at))],
  ['log', { count: [1, 2], compute: ([a, base], at) => (base ? quotient(logarithm(a, at), logarithm(base, at)) : logarithm(a, at)) }],
  ['log10', one((a, at) => logarithm(a, at, 10))],
  ['max', { count: anyCount, compute: (values, { Big }) => Big.max(...values) }],
  ['mean', { count: anyCount, compute: (values, at) => sum(values, at).div(values.length) }],
  ['min', { count: anyCount, compute: (values, { Big }) => Big.min(...values) }],
  ['mod', two(modulo)],
  ['pow', two(power)],
  ['round', { count: [1, 2], compute: ([a, places], at) => settled(a, at).toDecimalPlaces(decimals(places), 4) }],
  ['sqrt', one(root)],
  ['sum', { count: anyCount, compute: sum }],
]);

function decimals(places: Decimal | undefined): number {
  const count = places?.toNumber() ?? 0;
  if (!Number.isInteger(count) || count < 0 || count > digits) throw new Refusal('arguments', `round takes a whole number of decimal places from 0 to ${digits}, such as round(2.345, 2).`);
  return count;
}

function call(name: string, args: readonly SyntaxNode[], at: Work): Decimal {
  const known = functions.get(name);
  if (!known) throw new Refusal('arguments', `the function "${name}" is not supported. Available: ${[...functions.keys()].join(', ')}.`);
  const [first, ...rest] = args.map((arg) => evaluate(arg, at));
  const [fewest, most] = known.count;
  if (!first || args.length < fewest || args.length > most) throw new Refusal('arguments', `${name} takes ${fewest === most ? fewest : `${fewest} to ${most}`} value${most === 1 ? '' : 's'}, got ${args.length}.`);
  return known.compute([first, ...rest], at);
}
