/** The example file against the schema itself, asked for its keys the way a person would find them out: by a key it does not know. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { parseConfig } from '../src/config.ts';
import { ConfigError } from '../src/errors.ts';

type Path = readonly (string | 0)[];

const example = readFileSync(new URL('../config/hermes.example.yaml', import.meta.url), 'utf8');
const commentedSetting = /^(\s*)# (\s*(?:- )?[a-z][a-z0-9_]*:.*)$/;
/** The example with the settings that are only hinted at switched on. */
const everything = example.replace(new RegExp(commentedSetting, 'gm'), '$1$2');
const env = { HERMES_ADMIN_TOKEN: 'twelve-letters', OPENAI_API_KEY: 'sk-example' };

test('the example as it stands says what the defaults are', () => {
  const { source: _, ...written } = parseConfig(example, { env: {} });
  const { source: __, ...defaults } = parseConfig('', { env: {} });
  expect(written).toEqual(defaults);
});

test('every setting that is commented out may be switched on', () => {
  expect(everything).not.toBe(example);
  expect(() => parseConfig(everything, { env })).not.toThrow();
});

test('every key of the schema stands in the example', () => {
  const paths = settings();
  expect(paths.length).toBeGreaterThan(30);
  const written: unknown = parse(everything);
  expect(paths.filter((path) => !stands(written, path)).map((path) => path.join('.'))).toEqual([]);
});

test('every default that does not depend on the machine stands uncommented', () => {
  const written: unknown = parse(example);
  const ofTheMachine = ['timezone', 'database_url'];
  const missing = settings().filter((path) => !stands(written, path) && isPlain(defaultAt(path)) && !ofTheMachine.includes(path.join('.')));
  expect(missing.map((path) => path.join('.'))).toEqual([]);
});

test('every setting is explained on its own line', () => {
  const lines = example.split('\n').filter((line) => /^\s*(# )?\s*(- )?[a-z][a-z0-9_]*:/.test(line));
  const sections = /^(server|models|agent|tools|people|logging|# platforms):$/;
  expect(lines.filter((line) => !sections.test(line) && !/: ?.*# \S/.test(line.replace(/^\s*# /, '')))).toEqual([]);
});

function settings(path: Path = []): Path[] {
  return keysAt(path).flatMap((key) => {
    const here = [...path, key];
    const inner = settings(here);
    return [here, ...(inner.length > 0 ? inner : settings([...here, 0]))];
  });
}

/** The keys known at a place, from the sentence that refuses an unknown one; none where any key is fine or none can be. */
function keysAt(path: Path): readonly string[] {
  const unheardOf = 'q'.repeat(60);
  const text = stringify(path.reduceRight<unknown>((inner, key) => (key === 0 ? [inner] : { [key]: inner }), { [unheardOf]: 1 }));
  try {
    parseConfig(text, { env: {} });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const refusal = error.problems.find((problem) => problem.includes(`${[...path, unheardOf].join('.')}: unknown key`));
    return refusal?.split('known here: ')[1]?.split(', ') ?? [];
  }
}

function stands(value: unknown, path: Path): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key) && stands((value as Record<string | number, unknown>)[key], rest);
}

function defaultAt(path: Path): unknown {
  const camel = path.map((key) => String(key).replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()));
  return camel.reduce<unknown>((value, key) => (typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined), parseConfig('', { env: {} }));
}

const isPlain = (value: unknown): boolean => value !== undefined && typeof value !== 'object';
