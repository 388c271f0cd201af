/** One YAML file with defaults, plus the environment. Every mistake is reported at once, with the key it is in. */
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { ConfigError } from './errors.ts';

const units = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90s`, `10m`, `24h`, `7d` → milliseconds. */
const duration = (fallback: string) =>
  z
    .string()
    .regex(/^\d+(s|m|h|d)$/, 'must be a duration such as 90s, 10m, 24h')
    .default(fallback)
    .transform((text) => Number(text.slice(0, -1)) * units[text.slice(-1) as keyof typeof units]);

/** `${PORT:-3000}` arrives as text. */
const number = <T extends z.ZodType<number>>(type: T) => z.preprocess((value) => (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value), type);
const flag = z.preprocess((value) => (value === 'true' ? true : value === 'false' ? false : value), z.boolean());

const platformId = z.string().regex(/^(slack|feishu|wecom|console|login|command_line):.+/, 'must be platform:id, for example slack:U123 or console:lin');
const channelMatch = z.string().regex(/^(\*|(slack|feishu|wecom|console):#?.+)$/, 'must be *, platform:channel-id or platform:#name');
const timezone = z.string().refine(isZone, 'must be an IANA time zone such as Asia/Shanghai');
const language = z.enum(['en', 'zh']);

const model = z.strictObject({
  base_url: z.url({ protocol: /^https?$/ }).optional(),
  api_key: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  temperature: number(z.number().min(0).max(2)).default(0.2),
  max_tokens: number(z.int().min(16)).default(4096),
  timeout_s: number(z.number().min(1).max(3600)).default(120),
  extra_params: z.record(z.string(), z.unknown()).default({}),
});

const schema = z.strictObject({
  language: language.default('en'),
  timezone: timezone.default(Intl.DateTimeFormat().resolvedOptions().timeZone),
  data_dir: z.string().min(1).default('./hermes-data'),
  database_url: z.string().optional(),
  server: z.strictObject({ host: z.string().default('127.0.0.1'), port: number(z.int().min(0).max(65_535)).default(3000), admin_token: z.string().min(12, 'must have at least 12 characters').optional() }).prefault({}),
  models: z.strictObject({ main: model.prefault({}) }).prefault({}),
  agent: z
    .strictObject({
      max_turns: number(z.int().min(1).max(100)).default(10),
      max_tool_failures: number(z.int().min(1)).default(6),
      max_run_time: duration('15m'),
      max_runs: number(z.int().min(1).max(1000)).default(8),
      queue_limit: number(z.int().min(1)).default(5),
      follow_up: z.enum(['asker', 'mention', 'thread']).default('asker'),
      clarify_expiry: duration('24h'),
      approval_expiry: duration('24h'),
      approval_use_within: duration('15m'),
      on_edit: z.enum(['post', 'suppress']).default('post'),
      on_delete: z.enum(['post', 'suppress']).default('post'),
      progress: flag.default(true),
      instructions_path: z.string().optional(),
    })
    .prefault({}),
  tools: z
    .strictObject({
      enabled: z.array(z.string()).optional(),
      disabled: z.array(z.string()).default([]),
      level2: z.array(z.string()).default([]),
      timeout_s: number(z.number().min(1).max(3600)).default(30),
    })
    .prefault({}),
  groups: z.array(z.strictObject({ match: channelMatch, language: language.optional(), timezone: timezone.optional(), send_to: z.array(channelMatch).optional() })).default([]),
  people: z.strictObject({ admins: z.array(platformId).default([]), operators: z.array(platformId).optional() }).prefault({}),
  platforms: z
    .strictObject({
      console: z.strictObject({ channels: z.array(z.strictObject({ id: z.string().regex(/^[\p{L}\p{N}_-]{1,64}$/u, 'must be 1 to 64 letters, digits, _ or -'), name: z.string().min(1).max(80) })).default([]) }).prefault({}),
    })
    .prefault({}),
  logging: z.strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info') }).prefault({}),
});

type Camel<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type CamelKeys<T> = T extends readonly (infer U)[] ? readonly CamelKeys<U>[] : T extends object ? { readonly [K in keyof T as K extends string ? Camel<K> : K]: CamelKeys<T[K]> } : T;

/** Durations are milliseconds; keys as in the file, in camelCase. `demo` is true when no model server is configured. */
export type Config = CamelKeys<z.output<typeof schema>> & { readonly databaseUrl: string; readonly demo: boolean; readonly source: string; readonly secrets: Readonly<Record<string, string>> };

type Environment = Readonly<Record<string, string | undefined>>;

/** Environment variable → path of the key it sets; a value in the environment wins over the file. */
const environmentKeys: Readonly<Record<string, readonly string[]>> = {
  OPENAI_BASE_URL: ['models', 'main', 'base_url'],
  OPENAI_API_KEY: ['models', 'main', 'api_key'],
  HERMES_MODEL: ['models', 'main', 'model'],
  HERMES_DATA_DIR: ['data_dir'],
  DATABASE_URL: ['database_url'],
  HOST: ['server', 'host'],
  PORT: ['server', 'port'],
  HERMES_ADMIN_TOKEN: ['server', 'admin_token'],
  HERMES_LEVEL2: ['tools', 'level2'],
  LOG_LEVEL: ['logging', 'level'],
};

export type ConfigSource = { readonly path?: string; readonly env: Environment; readonly overrides?: { readonly port?: number; readonly host?: string } };

/** Reads the file named, or `HERMES_CONFIG`, or `hermes.yaml` if it is there; none of them is fine. Throws ConfigError. */
export function loadConfig(source: ConfigSource): Config {
  const named = source.path ?? (source.env.HERMES_CONFIG || undefined);
  const path = named ?? (existsSync('hermes.yaml') ? 'hermes.yaml' : undefined);
  const text = path === undefined ? '' : readText(path);
  return parseConfig(text, source, path === undefined ? 'defaults' : resolve(path));
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError([`the configuration file ${resolve(path)} cannot be read. Name an existing file with --config, or leave it out to use the defaults.`], { cause: error });
  }
}

export function parseConfig(text: string, source: ConfigSource, name = 'configuration'): Config {
  const problems: string[] = [];
  const written = expand(readYaml(text, name), source.env, [], problems);
  const raw = withEnvironment(isObject(written) ? written : {}, source, problems);
  const parsed = schema.safeParse(raw);
  if (!parsed.success) problems.push(...parsed.error.issues.flatMap((issue) => describe(issue, source.env)));
  if (problems.length > 0 || !parsed.success) throw new ConfigError(problems.map((problem) => (name === 'defaults' ? problem : `${name}: ${problem}`)));
  return complete(parsed.data, name);
}

/** Messages carry the line and column, never the line itself: a secret may stand in it. */
function readYaml(text: string, name: string): Record<string, unknown> {
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0) throw new ConfigError(document.errors.map((error) => `${name}: ${(error.message.split('\n')[0] ?? '').replace(/:$/, '')}`));
  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    throw new ConfigError([`${name}: its aliases (*name) cannot be resolved; put quotes around a value that begins with *`], { cause: error });
  }
  if (value === null || value === undefined) return {};
  if (!isObject(value)) throw new ConfigError([`${name}: must consist of keys and values, such as "language: en"`]);
  return value;
}

function complete(data: z.output<typeof schema>, name: string): Config {
  const dataDir = resolve(data.data_dir.replace(/^~(?=\/)/, homedir()));
  const demo = data.models.main.base_url === undefined && data.models.main.api_key === undefined;
  const { api_key } = data.models.main;
  const secrets = { ...(api_key ? { OPENAI_API_KEY: api_key } : {}), ...(data.server.admin_token ? { HERMES_ADMIN_TOKEN: data.server.admin_token } : {}) };
  const camel = camelKeys(data) as CamelKeys<z.output<typeof schema>>;
  return { ...camel, dataDir, databaseUrl: data.database_url ?? `sqlite:${join(dataDir, 'hermes.db')}`, demo, source: name, secrets };
}

function camelKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelKeys);
  if (!isObject(value)) return value;
  // Parameters passed through to the model server keep the spelling that server knows.
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase()), key === 'extra_params' ? v : camelKeys(v)]));
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** `${NAME}` and `${NAME:-default}` in any string. A key whose lines are all commented out counts as absent. */
function expand(value: unknown, env: Environment, path: readonly string[], problems: string[]): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g, (_, name: string, fallback: string | undefined) => {
      const found = env[name] || fallback;
      if (found === undefined) problems.push(`${path.join('.')}: the environment variable ${name} is not set; set it, or write \${${name}:-default}`);
      return found ?? '';
    });
  }
  if (Array.isArray(value)) return value.map((item, index) => expand(item, env, [...path, String(index)], problems));
  if (!isObject(value)) return value;
  const entries = path.includes('extra_params') ? Object.entries(value) : Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(entries.map(([key, item]) => [key, expand(item, env, [...path, key], problems)]));
}

function withEnvironment(raw: Record<string, unknown>, source: ConfigSource, problems: string[]): Record<string, unknown> {
  const result = structuredClone(raw);
  for (const [name, path] of Object.entries(environmentKeys)) {
    const value = source.env[name];
    if (value === undefined || value === '') continue;
    if (name === 'PORT' && !/^\d+$/.test(value)) problems.push(`PORT: must be a number, got "${value}"`);
    else
      place(
        result,
        path,
        name === 'PORT'
          ? Number(value)
          : name === 'HERMES_LEVEL2'
            ? value
                .split(',')
                .map((v) => v.trim())
                .filter(Boolean)
            : value,
      );
  }
  if (source.overrides?.port !== undefined) place(result, ['server', 'port'], source.overrides.port);
  if (source.overrides?.host !== undefined) place(result, ['server', 'host'], source.overrides.host);
  return result;
}

function place(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path;
  if (rest.length === 0) {
    target[key] = value;
    return;
  }
  const inner = isObject(target[key]) ? target[key] : {};
  target[key] = inner;
  place(inner, rest, value);
}

function describe(issue: z.core.$ZodIssue, env: Environment): string[] {
  const at = issue.path.join('.');
  const variable = Object.entries(environmentKeys).find(([name, path]) => env[name] && path.join('.') === at)?.[0];
  if (issue.code !== 'unrecognized_keys') return [`${at}${variable ? ` (from ${variable})` : ''}: ${issue.message}`];
  const known = keysAt(schema, issue.path);
  return issue.keys.map((key) => {
    const near = nearest(key, known);
    return `${[...issue.path, key].join('.')}: unknown key${near ? `; did you mean ${near}?` : `; known here: ${known.join(', ')}`}`;
  });
}

function keysAt(root: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = unwrapped(root);
  for (const key of path) at = at instanceof z.ZodArray ? unwrapped(at.element) : at instanceof z.ZodObject ? unwrapped(at.shape[String(key)]) : undefined;
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

function unwrapped(type: unknown): unknown {
  if (type instanceof z.ZodDefault || type instanceof z.ZodPrefault || type instanceof z.ZodOptional) return unwrapped(type.unwrap());
  return type;
}

/** The known word with the fewest changed letters, if it is close enough to have been meant. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const scored = known.map((candidate) => ({ candidate, distance: editDistance(word, candidate) })).sort((a, b) => a.distance - b.distance);
  const best = scored[0];
  return best && best.distance <= Math.max(2, Math.floor(best.candidate.length / 3)) ? best.candidate : undefined;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length] ?? 0;
}

function isZone(zone: string): boolean {
  try {
    Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
