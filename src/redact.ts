/** What is done to every text before it is stored: configured secrets become `[secret:NAME]`, also where they stand encoded, and half characters are mended. Pure. */

/** Shorter values would hit ordinary words. */
const shortestSecret = 6;

export type Redactor = {
  text(value: string): string;
  /** Every string in a value of JSON, made well-formed too, since no platform and no model takes half a character. Keys are left alone. */
  value<T>(value: T): T;
  /** True when a secret stands in any string of the value. */
  holdsSecret(value: unknown): boolean;
};

export function createRedactor(secrets: Readonly<Record<string, string>>): Redactor {
  const replacements = Object.entries(secrets)
    .filter(([, secret]) => secret.length >= shortestSecret)
    .flatMap(([name, secret]) => formsOf(secret).map((form) => ({ form, mark: `[secret:${name}]` })))
    .sort((a, b) => b.form.length - a.form.length);
  const text = (value: string): string => replacements.reduce((result, { form, mark }) => (result.includes(form) ? result.replaceAll(form, mark) : result), value);
  return { text, value: (value) => deep(value, (part) => text(part.toWellFormed())), holdsSecret: (value) => JSON.stringify(deep(value, text)) !== JSON.stringify(value) };
}

/** Plain, URL-encoded, escaped as in JSON, and the base64 of it at each of the three offsets it may start at. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const encoded = [0, 1, 2].map((offset) => {
    const shifted = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // The first and last characters also depend on the neighbours.
    const from = offset === 0 ? 0 : offset + 1;
    const to = (offset + bytes.length) % 3 === 0 ? shifted.length : shifted.length - 1;
    return shifted.slice(from, to);
  });
  const urlSafe = encoded.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'));
  return [...new Set([secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...encoded, ...urlSafe])].filter((form) => form.length >= shortestSecret);
}

function deep<T>(value: T, text: (value: string) => string): T {
  if (typeof value === 'string') return text(value) as T;
  if (Array.isArray(value)) return value.map((item) => deep(item, text)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, deep(item, text)])) as T;
}
