/** Fenced code in Markdown, line by line: what is open where a text is cut. Pure. */

/** `opener` begins the code again after a cut, `closer` ends it before one. */
export type Fence = { readonly opener: string; readonly closer: string };

/** A line that opens or closes fenced code; indentation as in lists is allowed. */
const fenceLine = /^[ \t]{0,12}(`{3,24}|~{3,24})([^\n]*)$/;
/** What may stand after the marker again; anything else is left away. */
const languageName = /^[\w+#.-]{1,20}$/;

/** The fence that is open after `text`, when `open` was open before it. A last line without its line feed counts as a line. */
export function fenceAfter(text: string, open: Fence | undefined): Fence | undefined {
  let fence = open;
  for (let from = 0; from < text.length; ) {
    const feed = text.indexOf('\n', from);
    const end = feed < 0 ? text.length : feed;
    fence = afterLine(text.slice(from, end), fence);
    from = end + 1;
  }
  return fence;
}

export function isFenceLine(line: string): boolean {
  return fenceLine.test(line.replace(/\r$/, ''));
}

export function closes(line: string, fence: Fence): boolean {
  const match = fenceLine.exec(line.replace(/\r$/, ''));
  return match !== null && afterMatch(match, fence) === undefined;
}

function afterLine(line: string, open: Fence | undefined): Fence | undefined {
  const match = fenceLine.exec(line.replace(/\r$/, ''));
  return match ? afterMatch(match, open) : open;
}

function afterMatch(match: RegExpExecArray, open: Fence | undefined): Fence | undefined {
  const [whole, marker = '', info = ''] = match;
  if (open) {
    const isEnd = marker[0] === open.closer[0] && marker.length >= open.closer.length && info.trim() === '';
    return isEnd ? undefined : open;
  }
  if (marker.startsWith('`') && info.includes('`')) return undefined;
  const indent = whole.slice(0, whole.indexOf(marker));
  const word = info.trim().split(/\s/)[0] ?? '';
  return { opener: `${indent}${marker}${languageName.test(word) ? word : ''}`, closer: marker };
}
