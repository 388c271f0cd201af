/** Finds calculations in running text. It only finds them: what they are worth, and whether they are allowed, is the calculator's to say. Pure. */

const signs: Readonly<Record<string, string>> = { '×': '*', '✕': '*', '✖': '*', '·': '*', '÷': '/', '−': '-', '–': '-' };

/** Full-width forms and printed signs as on a keyboard. */
export function plainSigns(text: string): string {
  const plain = [...text].map((char) => signs[char] ?? (/[\uff01-\uff5e\u3000]/.test(char) ? char.normalize('NFKC') : char)).join('');
  return plain.replace(/(?<=[\d)])(\s+)[xX](\s+)(?=[\d(])/g, '$1*$2');
}

type Token = { readonly kind: 'number' | 'operator' | 'open' | 'close' | 'comma' | 'of'; readonly text: string };

/** Within one line. */
const tokenPatterns: readonly (readonly [Token['kind'], RegExp])[] = [
  ['number', /[^\S\n]*(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?![\d.]*[\p{Script=Latin}_])%?/uy],
  ['number', /[^\S\n]*\bpi\b/iuy],
  ['of', /[^\S\n]*\bof\b/iuy],
  ['open', /[^\S\n]*(?:\b(?:sqrt|abs|round|floor|ceil|min|max|sum|mean|log10|log|ln|exp|pow|mod)[^\S\n]*)?\(/iuy],
  ['close', /[^\S\n]*\)%?/uy],
  ['comma', /[^\S\n]*,/uy],
  ['operator', /[^\S\n]*(?:\*\*|[-+*/^%])/uy],
];

export type Expression = { readonly at: number; readonly expression: string };

/** Dates, versions, addresses and the marks of a list are no calculations. */
const notCalculations = /^[^\S\n]*[-*+][^\S\n]+|\d{4}-\d{1,2}-\d{1,2}|\d{4}\/\d{1,2}\/\d{1,2}|\b\d+(?:\.\d+){2,}\b|https?:\/\/\S+/gmu;
const calculatingWords = /[=算]|等于|多少|\b(?:calculate|compute|work out|what is|what's|how much)\b/iu;

export function expressionsIn(text: string): Expression[] {
  const searched = text.replace(notCalculations, (part) => ' '.repeat(part.length));
  const found: Expression[] = [];
  for (let at = 0; at < searched.length; at++) {
    if (!startsHere(searched, at)) continue;
    const { tokens, end } = tokensFrom(searched, at);
    const expression = tidy(tokens);
    if (expression !== undefined && isMeant(expression, searched)) found.push({ at, expression });
    at = Math.max(at, end - 1);
  }
  return found;
}

const startsHere = (text: string, at: number): boolean => /[\d(.+\-a-z]/i.test(text[at] ?? '') && !/[\p{Script=Latin}\d_.#]/u.test(text[at - 1] ?? '');

function tokensFrom(text: string, start: number): { tokens: Token[]; end: number } {
  const tokens: Token[] = [];
  let end = start;
  for (let token = tokenAt(text, end); token; token = tokenAt(text, end)) {
    if (token.kind === 'comma' && depthOf(tokens) <= 0) break;
    if (token.kind === 'of' && !tokens.at(-1)?.text.endsWith('%')) break;
    tokens.push(token);
    end += token.text.length;
  }
  return { tokens, end };
}

function tokenAt(text: string, at: number): Token | undefined {
  for (const [kind, pattern] of tokenPatterns) {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found) return { kind, text: found };
  }
  return undefined;
}

const depthOf = (tokens: readonly Token[]): number => tokens.reduce((depth, { kind }) => depth + (kind === 'open' ? 1 : kind === 'close' ? -1 : 0), 0);

/** The longest part that can be an expression: it ends with a value, its parentheses match, and it has something to compute. */
function tidy(tokens: readonly Token[]): string | undefined {
  let part = beforeStrayClose(tokens.slice(Math.max(0, tokens.findIndex(beginsValue))));
  while (part.length > 0 && !endsWithValue(part)) part = part.slice(0, -1);
  if (part.length > 0 && depthOf(part) > 0) return tidy(part.slice(1));
  return computes(part)
    ? part
        .map(({ text }) => text)
        .join('')
        .trim()
    : undefined;
}

function beforeStrayClose(tokens: readonly Token[]): readonly Token[] {
  const stray = tokens.findIndex((_, index) => depthOf(tokens.slice(0, index + 1)) < 0);
  return stray < 0 ? tokens : tokens.slice(0, stray);
}

const beginsValue = ({ kind, text }: Token): boolean => kind === 'number' || kind === 'open' || /[-+]/.test(text);

function endsWithValue(tokens: readonly Token[]): boolean {
  const kind = tokens.at(-1)?.kind;
  return kind === 'number' || kind === 'close';
}

function computes(tokens: readonly Token[]): boolean {
  const joins = tokens.some(({ kind }, index) => index > 0 && (kind === 'operator' || kind === 'of'));
  const calls = tokens.some(({ kind, text }) => kind === 'open' && text.trim() !== '(');
  return (joins || calls) && tokens.some(({ kind }) => kind === 'number');
}

/** `10-12` and `24/7` are calculations only when the message says so or holds nothing else. */
function isMeant(expression: string, text: string): boolean {
  if (!/^[\d.]+(?:[-/][\d.]+)+$/.test(expression)) return true;
  return calculatingWords.test(text) || text.replace(expression, '').replace(/[\s=?？。.]/g, '') === '';
}
