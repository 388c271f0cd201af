/** Cuts a long text into messages a platform takes. Pure. Nothing is lost: the parts joined are the text, but for fences closed and opened again. */
import type { Capabilities, OutboundMessage } from '../types.ts';
import { closes, type Fence, fenceAfter, isFenceLine } from './fences.ts';

export type Size = { readonly limit: number; readonly unit: Capabilities['lengthUnit'] };

/** A part shorter than this share of the limit is not worth a nicer place to cut. */
const leastShare = 0.25;

/**
 * Every part is within the limit and never ends inside what a reader sees as one character, unless a single such character is longer than
 * the limit. Cuts after a paragraph where it can, else after a line, a sentence, a word. Linear in the length of the text.
 */
export function splitText(text: string, size: Size): string[] {
  const parts: string[] = [];
  let fence: Fence | undefined;
  for (let from = 0; ; ) {
    const opener = fence ? `${fence.opener}\n` : '';
    const room = size.limit - measure(opener, size.unit);
    const window = take(text, from, room, size.unit);
    if (from + window.length >= text.length) return [...parts, opener + window];
    const cut = cutOf({ text, from, fence, room, size }, window);
    parts.push(opener + cut.text + cut.closer);
    from += cut.text.length;
    fence = cut.fence;
  }
}

/** Part keys are `key`, `key#2`, `key#3` …; what belongs below the text goes on the last part, what belongs above it on the first. */
export function splitMessage(message: OutboundMessage, size: Size): OutboundMessage[] {
  const texts = splitText(message.markdown, size);
  const { buttons, input, files, replacesKey, quote, ...plain } = message;
  const below = { ...(buttons ? { buttons } : {}), ...(input ? { input } : {}), ...(files ? { files } : {}) };
  const above = { ...(replacesKey === undefined ? {} : { replacesKey }), ...(quote === undefined ? {} : { quote }) };
  return texts.map((markdown, index) => ({
    ...plain,
    key: index === 0 ? message.key : `${message.key}#${index + 1}`,
    markdown,
    ...(index === 0 ? above : {}),
    ...(index === texts.length - 1 ? below : {}),
  }));
}

export function measure(text: string, unit: Size['unit']): number {
  switch (unit) {
    case 'utf16':
      return text.length;
    case 'bytes':
      return Buffer.byteLength(text);
    case 'codepoints':
      return codePoints(text);
  }
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** As much of the text from `from` on as fits, at least one code point. */
function take(text: string, from: number, limit: number, unit: Size['unit']): string {
  let used = 0;
  let end = from;
  while (end < text.length) {
    const code = text.codePointAt(end) ?? 0;
    used += costOf(code, unit);
    if (used > limit && end > from) break;
    end += code > 0xffff ? 2 : 1;
    if (used > limit) break;
  }
  return text.slice(from, end);
}

function costOf(code: number, unit: Size['unit']): number {
  if (unit === 'codepoints') return 1;
  if (unit === 'utf16') return code > 0xffff ? 2 : 1;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

// ---------------------------------------------------------------- where to cut

/** What is left begins at `from`, inside `fence` if there is one; `room` is what the limit leaves for it. */
type Rest = { readonly text: string; readonly from: number; readonly fence: Fence | undefined; readonly room: number; readonly size: Size };
/** `fence` is open after the part and worth opening again in the next. */
type Cut = { readonly text: string; readonly closer: string; readonly fence: Fence | undefined };

/** The window does not hold the whole rest. Inside fenced code the cut is made again, earlier, until there is room for closing it. */
function cutOf(rest: Rest, window: string): Cut {
  const { text, from, size, room } = rest;
  const piece = window.slice(0, endOf(text, from, window));
  const fence = worthReopening(fenceAfter(piece, rest.fence), size);
  if (!fence) return { text: piece, closer: '', fence };
  const whole = withClosingLine(rest, piece, fence);
  if (whole !== undefined) return { text: whole, closer: '', fence: undefined };
  const closer = piece.endsWith('\n') ? fence.closer : `\n${fence.closer}`;
  if (measure(piece + closer, size.unit) <= room || piece.length < 2) return { text: piece, closer, fence };
  return cutOf(rest, take(text, from, Math.min(room, measure(window, size.unit)) - fence.closer.length - 1, size.unit));
}

/** The code ends with the very next line, and that line still fits: nothing needs to be opened again. */
function withClosingLine({ text, from, room, size }: Rest, piece: string, fence: Fence): string | undefined {
  if (!piece.endsWith('\n')) return undefined;
  const start = from + piece.length;
  const ahead = text.slice(start, start + room);
  const feed = ahead.indexOf('\n');
  const line = feed < 0 ? ahead : ahead.slice(0, feed);
  const whole = piece + (feed < 0 ? line : `${line}\n`);
  return closes(line, fence) && measure(whole, size.unit) <= room ? whole : undefined;
}

/** A fence whose own lines would fill half a part is text like any other. */
function worthReopening(fence: Fence | undefined, { limit, unit }: Size): Fence | undefined {
  return fence && measure(fence.opener + fence.closer, unit) + 2 <= limit / 2 ? fence : undefined;
}

/** Length of the part that begins at `from`. */
function endOf(text: string, from: number, window: string): number {
  const boundaries = boundariesOf(text, from, window);
  const least = Math.max(1, Math.floor(window.length * leastShare));
  for (const nicest of [paragraphEnd, lineEnd, sentenceEnd, wordEnd]) {
    const end = nicest(window, least);
    if (end !== undefined && boundaries.isBoundary(end) && !tearsFence(text, from, end)) return end;
  }
  const last = boundaries.last();
  const line = window.lastIndexOf('\n', last - 1) + 1;
  return line > 0 && tearsFence(text, from, last) ? line : last;
}

/** Where readers see characters end, asked of a window and the code point after it. */
function boundariesOf(text: string, from: number, window: string): { isBoundary(index: number): boolean; last(): number } {
  const next = text.codePointAt(from + window.length) ?? 0;
  const segments = new Intl.Segmenter().segment(window + String.fromCodePoint(next));
  return {
    isBoundary: (index) => segments.containing(index)?.index === index,
    // A single character longer than the window is cut between code points.
    last: () => segments.containing(window.length)?.index || window.length,
  };
}

/** The line around the cut is one that opens or closes code. */
function tearsFence(text: string, from: number, cut: number): boolean {
  const at = from + cut;
  if (text[at - 1] === '\n' || text[at] === '\n') return false;
  const start = text.slice(Math.max(from, at - 64), at).lastIndexOf('\n');
  if (start < 0 && at - from > 64) return false;
  const lineStart = start < 0 ? from : Math.max(from, at - 64) + start + 1;
  const after = text.slice(at, at + 64).indexOf('\n');
  return isFenceLine(text.slice(lineStart, after < 0 ? at + 64 : at + after));
}

function paragraphEnd(window: string, least: number): number | undefined {
  const end = Math.max(window.lastIndexOf('\n\n') + 2, window.lastIndexOf('\n\r\n') + 3);
  return end >= Math.max(least, 4) ? end : undefined;
}

function lineEnd(window: string, least: number): number | undefined {
  const end = window.lastIndexOf('\n') + 1;
  return end >= least ? end : undefined;
}

/** After 。！？； wherever they stand, after . ! ? ; only before a space. */
function sentenceEnd(window: string, least: number): number | undefined {
  for (let end = window.length; end >= least; end--) {
    const last = window[end - 1] ?? '';
    if ('。！？；…'.includes(last)) return end;
    if ((last === ' ' || last === '\t') && '.!?;:'.includes(window[end - 2] ?? 'x')) return end;
  }
  return undefined;
}

function wordEnd(window: string, least: number): number | undefined {
  for (let end = window.length; end >= least; end--) if (/[\s，、,]/.test(window[end - 1] ?? '')) return end;
  return undefined;
}
