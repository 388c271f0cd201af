/** Exact decimal arithmetic. The tree is walked here, so nothing is computed that this file does not name. */
import type { BigNumber } from 'mathjs';
import { z } from 'zod';
import { type BigClass, loaded, maxLength, normalise, parse, Refusal, type SyntaxNode } from './calculator-syntax.ts';
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

async function calculate(expression: string): Promise<ToolResult> {
  try {
    const written = normalise(expression);
    const engine = await loaded();
    const tree = parse(engine, written);
    const value = settledValue(tree, engine.numbers(controlDigits));
    const exact = settledValue(tree, engine.numbers(workingDigits)).eq(value);
    return { ok: true, content: sentence(written, value, exact) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ok: false, error: error.kind, content: `Not calculated: ${error.message}` };
  }
}

function sentence(written: string, value: BigNumber, exact: boolean): string {
  const note = /\blog\([^,()]*\)/.test(written) ? ' (log of one number is the natural logarithm)' : '';
  if (exact) return `${written} = ${plain(value, workingDigits)}${note}`;
  return `${written} ≈ ${plain(value.toSignificantDigits(shownDigits), shownDigits)} (rounded to ${shownDigits} digits)${note}`;
}

const settledValue = (tree: SyntaxNode, Big: BigClass): BigNumber => settled(evaluate(tree, Big), Big);

/** A value that fills the precision was rounded on the way; without its last digits it is what was meant. */
function settled(value: BigNumber, Big: BigClass): BigNumber {
  return value.precision() < Big.precision ? value : value.toSignificantDigits(Big.precision - guardDigits);
}

function plain(value: BigNumber, places: number): string {
  if (value.isZero()) return '0';
  return value.e < places && value.e > -shownDigits ? value.toFixed() : value.toExponential();
}

// ---------------------------------------------------------------- evaluate

function evaluate(node: SyntaxNode, Big: BigClass): BigNumber {
  const value = computed(node, Big);
  if (value.isNaN()) throw new Refusal('business', 'the expression has no real value (for instance the root of a negative number). Check the figures.');
  if (!value.isFinite() || value.e > maxExponent) throw new Refusal('business', `a value in it is larger than 10^${maxExponent}. Use smaller exponents, or logarithms.`);
  if (!value.isZero() && value.e < -maxExponent) throw new Refusal('business', `a value in it is smaller than 10^-${maxExponent}. Check the figures.`);
  return value;
}

function computed(node: SyntaxNode, Big: BigClass): BigNumber {
  switch (node.type) {
    case 'ConstantNode':
      if (!Big.isDecimal(node.value)) throw new Refusal('arguments', `"${String(node.value)}" is not a number.`);
      return new Big(node.value);
    case 'ParenthesisNode':
      return evaluate(node.content as SyntaxNode, Big);
    case 'SymbolNode':
      return constant(node.name ?? '', Big);
    case 'OperatorNode':
      return operation(node, Big);
    case 'FunctionNode':
      return call(node, Big);
    default:
      throw new Refusal('arguments', `${node.type.replace(/Node$/, '')} is not supported. Only numbers, operators and the named functions are.`);
  }
}

function constant(name: string, Big: BigClass): BigNumber {
  if (name === 'pi') return Big.acos(-1);
  if (name === 'e') return Big.exp(1);
  if (functions.has(name)) throw new Refusal('arguments', `${name} needs parentheses, such as ${name}(2).`);
  throw new Refusal('arguments', `the name "${name}" is unknown; variables and units are not supported. Put plain numbers in.`);
}

const isPercent = (node: SyntaxNode | undefined): boolean => node?.fn === 'factorial';

function operation(node: SyntaxNode, Big: BigClass): BigNumber {
  const [left, right] = node.args ?? [];
  if (!left) throw new Refusal('arguments', 'an operator has nothing to work on.');
  if (node.implicit) refuseAmbiguous(left);
  const a = evaluate(left, Big);
  if (!right) return unary(String(node.fn), a);
  const b = evaluate(right, Big);
  // People mean "ten per cent of what stands before".
  const share = isPercent(right) && !isPercent(left) ? a.times(b) : b;
  switch (node.fn) {
    case 'add':
      return total(a, share, Big);
    case 'subtract':
      return total(a, share.negated(), Big);
    case 'multiply':
      return a.times(b);
    case 'divide':
      return quotient(a, b);
    case 'mod':
      return modulo(a, b, Big);
    case 'pow':
      return power(a, b);
    default:
      throw new Refusal('arguments', `the operator "${String(node.fn)}" is not supported. Use + - * / ^ %.`);
  }
}

function refuseAmbiguous(left: SyntaxNode): void {
  if (left.type === 'OperatorNode' && left.fn === 'divide') throw new Refusal('arguments', 'a division followed by a value without * can be read in two ways. Write the * and parentheses.');
}

function unary(name: string, a: BigNumber): BigNumber {
  if (name === 'unaryMinus') return a.negated();
  if (name === 'unaryPlus') return a;
  if (name === 'factorial') return a.div(100);
  throw new Refusal('arguments', `the operator "${name}" is not supported. Use + - * / ^ %.`);
}

function quotient(a: BigNumber, b: BigNumber): BigNumber {
  if (b.isZero()) throw new Refusal('business', 'it divides by zero. Check the figures; there is no such value.');
  return a.div(b);
}

/** What is left of two rounded values that should cancel out is no figure. */
function total(a: BigNumber, b: BigNumber, Big: BigClass): BigNumber {
  const sum = a.plus(b);
  return sum.e < Math.max(a.e, b.e) - (Big.precision - guardDigits) ? sum.times(0) : sum;
}

/** With the sign of the divisor, as in spreadsheets. */
function modulo(a: BigNumber, b: BigNumber, Big: BigClass): BigNumber {
  const times = settled(quotient(a, b), Big).floor();
  if (times.e >= digits) throw new Refusal('business', 'the numbers of a modulo are too far apart. Use smaller ones.');
  return total(a, b.times(times).negated(), Big);
}

function logarithm(a: BigNumber): BigNumber {
  if (a.lte(0)) throw new Refusal('business', 'there is no logarithm of zero or of a negative number. Check the figures.');
  return a.ln();
}

function power(a: BigNumber, b: BigNumber): BigNumber {
  if (a.isZero() && b.isNegative()) throw new Refusal('business', 'it divides by zero (zero to a negative power). Check the figures.');
  return a.pow(b);
}

type Values = readonly [BigNumber, ...BigNumber[]];
type MathFunction = { readonly count: readonly [number, number]; readonly compute: (values: Values, Big: BigClass) => BigNumber };

const anyCount = [1, maxLength] as const;
const one = (compute: (a: BigNumber, Big: BigClass) => BigNumber): MathFunction => ({ count: [1, 1], compute: ([a], Big) => compute(a, Big) });
const two = (compute: (a: BigNumber, b: BigNumber, Big: BigClass) => BigNumber): MathFunction => ({ count: [2, 2], compute: ([a, b = a], Big) => compute(a, b, Big) });
const sum = ([first, ...rest]: Values, Big: BigClass): BigNumber => rest.reduce((so, value) => total(so, value, Big), first);

const functions: ReadonlyMap<string, MathFunction> = new Map<string, MathFunction>([
  ['abs', one((a) => a.abs())],
  ['ceil', one((a, Big) => settled(a, Big).ceil())],
  ['exp', one((a) => a.exp())],
  ['floor', one((a, Big) => settled(a, Big).floor())],
  ['ln', one(logarithm)],
  ['log', { count: [1, 2], compute: ([a, base]) => (base ? quotient(logarithm(a), logarithm(base)) : logarithm(a)) }],
  ['log10', one((a) => (a.gt(0) ? a.log(10) : logarithm(a)))],
  ['max', { count: anyCount, compute: (values, Big) => Big.max(...values) }],
  ['mean', { count: anyCount, compute: (values, Big) => sum(values, Big).div(values.length) }],
  ['min', { count: anyCount, compute: (values, Big) => Big.min(...values) }],
  ['mod', two(modulo)],
  ['pow', two(power)],
  ['round', { count: [1, 2], compute: ([a, places], Big) => settled(a, Big).toDecimalPlaces(decimals(places), 4) }],
  ['sqrt', one((a) => a.sqrt())],
  ['sum', { count: anyCount, compute: sum }],
]);

function decimals(places: BigNumber | undefined): number {
  const count = places?.toNumber() ?? 0;
  if (!Number.isInteger(count) || count < 0 || count > digits) throw new Refusal('arguments', `round takes a whole number of decimal places from 0 to ${digits}, such as round(2.345, 2).`);
  return count;
}

function call(node: SyntaxNode, Big: BigClass): BigNumber {
  const name = (node.fn as SyntaxNode).name ?? '';
  const known = functions.get(name);
  if (!known) throw new Refusal('arguments', `the function "${name}" is not supported. Available: ${[...functions.keys()].join(', ')}.`);
  const [first, ...rest] = (node.args ?? []).map((arg) => evaluate(arg, Big));
  const [fewest, most] = known.count;
  const count = first ? rest.length + 1 : 0;
  if (!first || count < fewest || count > most) throw new Refusal('arguments', `${name} takes ${fewest === most ? fewest : `${fewest} to ${most}`} value${most === 1 ? '' : 's'}, got ${count}.`);
  return known.compute([first, ...rest], Big);
}
