/** Text of others, made safe to show: nothing invisible, nothing that reorders what is read. Pure. */

/** Control characters but tab and line feed, zero-width and bidi marks, and other format characters. */
const invisible = /(?!\t|\n|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Variation_Selector}\u2028\u2029]/gu;
/** Joiners inside an emoji are part of it; a variation selector only chooses its look. */
const insideEmoji = /\p{Extended_Pictographic}[\u{1f3fb}-\u{1f3ff}\ufe0f]?(?:\u200d\p{Extended_Pictographic}[\u{1f3fb}-\u{1f3ff}\ufe0f]?)+/gu;

/** Each invisible character is named, as in `[U+202E]`. */
export function visible(text: string): string {
  let result = '';
  let from = 0;
  for (const emoji of text.matchAll(insideEmoji)) {
    result += named(text.slice(from, emoji.index)) + emoji[0];
    from = emoji.index + emoji[0].length;
  }
  return result + named(text.slice(from));
}

export function hasInvisible(text: string): boolean {
  return visible(text) !== text;
}

const named = (text: string): string => text.replace(invisible, (c) => `[U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`);

/** At most `limit` UTF-16 units, never cut inside a character or an emoji. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  let end = 0;
  for (const { index, segment } of new Intl.Segmenter().segment(text.slice(0, limit + 64))) {
    if (index + segment.length > limit) break;
    end = index + segment.length;
  }
  return text.slice(0, end || whole(text, limit));
}

/** Where a single grapheme is longer than the limit, at least no surrogate pair is torn. */
function whole(text: string, limit: number): number {
  const code = text.charCodeAt(limit - 1);
  return code >= 0xd800 && code <= 0xdbff ? limit - 1 : limit;
}

/** A name as data: one line, at most 40 visible characters, nothing invisible, no fence or mention marks, followed by a short id. */
export function label(person: { readonly id: string; readonly name?: string }): string {
  const id = person.id.split(':').at(-1) ?? person.id;
  const name = clip(
    (person.name ?? '')
      .replace(invisible, '')
      .replace(/[<>`*_~|[\]{}@#\s]+/g, ' ')
      .trim(),
    40,
  );
  return name && name !== id ? `${name} (${id})` : id;
}
