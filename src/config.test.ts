import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type ConfigSource, loadConfig, nearest, parseConfig } from './config.ts';
import { ConfigError } from './errors.ts';

const parse = (text: string, env: ConfigSource['env'] = {}, overrides?: ConfigSource['overrides']) => parseConfig(text, { env, ...(overrides ? { overrides } : {}) }, 'hermes.yaml');

/** What is wrong with this configuration, line by line. */
function problemsOf(text: string, env: ConfigSource['env'] = {}): readonly string[] {
  try {
    parse(text, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

const folder = mkdtempSync(join(tmpdir(), 'hermes-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('defaults', () => {
  it('needs no configuration at all', () => {
    const config = parse('');
    expect(config.language).toBe('en');
    expect(config.server).toEqual({ host: '127.0.0.1', port: 3000 });
    expect(config.models.main).toEqual({ temperature: 0.2, maxTokens: 4096, timeoutS: 120, extraParams: {} });
    expect(config.agent).toMatchObject({ maxTurns: 10, maxToolFailures: 6, maxRunTime: 900_000, maxRuns: 8, queueLimit: 5, clarifyExpiry: 86_400_000, approvalExpiry: 86_400_000, approvalUseWithin: 900_000 });
    expect(config.tools).toEqual({ disabled: [], level2: [], timeoutS: 30 });
    expect(config.people).toEqual({ admins: [] });
    expect(config.secrets).toEqual({});
  });

  it('keeps the database in the data folder unless told otherwise', () => {
    expect(parse('data_dir: /srv/hermes').databaseUrl).toBe('sqlite:/srv/hermes/hermes.db');
    expect(parse('database_url: postgres://localhost/hermes').databaseUrl).toBe('postgres://localhost/hermes');
    expect(parse('data_dir: ./data').dataDir).toBe(resolve('data'));
  });

  it('reads a section whose lines are all commented out as absent', () => {
    expect(parse('agent:\n  # max_turns: 5\nplatforms:\ngroups:\n')).toMatchObject({ agent: { maxTurns: 10 }, groups: [] });
  });

  it('reads a file of comments only as no configuration', () => {
    expect(parse('# nothing yet\n').language).toBe('en');
  });

  it('passes extra parameters through as they are written', () => {
    expect(parse('models: { main: { extra_params: { top_k: 5, stop: null } } }').models.main.extraParams).toEqual({ top_k: 5, stop: null });
  });
});

describe('durations', () => {
  it.each([
    ['90s', 90_000],
    ['10m', 600_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
  ])('reads %s', (text, ms) => {
    expect(parse(`agent: { max_run_time: ${text} }`).agent.maxRunTime).toBe(ms);
  });

  it.each(['1.5h', '-3m', '10 m', 'soon', '10'])('refuses %s', (text) => {
    expect(problemsOf(`agent: { max_run_time: "${text}" }`)).toEqual(['hermes.yaml: agent.max_run_time: must be a duration such as 90s, 10m, 24h']);
  });
});

describe('variables of the environment in the file', () => {
  it('takes the value, or the default where there is none or an empty one', () => {
    const text = 'data_dir: "${DIR:-/srv/a}/x"';
    expect(parse(text).dataDir).toBe('/srv/a/x');
    expect(parse(text, { DIR: '' }).dataDir).toBe('/srv/a/x');
    expect(parse(text, { DIR: '/srv/b' }).dataDir).toBe('/srv/b/x');
  });

  it('takes numbers and switches from them too', () => {
    const config = parse('server: { port: "${WEB:-3100}" }\nagent: { progress: "${PROGRESS:-false}", max_turns: "${TURNS:-4}" }', { TURNS: '7' });
    expect([config.server.port, config.agent.progress, config.agent.maxTurns]).toEqual([3100, false, 7]);
  });

  it('works inside lists', () => {
    expect(parse('people: { admins: ["${ADMIN:-console:lin}"] }').people.admins).toEqual(['console:lin']);
  });

  it('names a variable that is not set and the key that wants it', () => {
    expect(problemsOf('models: { main: { model: "${MODEL_NAME}" } }')[0]).toMatch(/models\.main\.model: the environment variable MODEL_NAME is not set.*\$\{MODEL_NAME:-default\}/);
  });
});

describe('mistakes', () => {
  it.each([
    ['langage: zh', 'langage: unknown key; did you mean language?'],
    ['agent: { max_turn: 3 }', 'agent.max_turn: unknown key; did you mean max_turns?'],
    ['models: { main: { bas_url: "http://x" } }', 'models.main.bas_url: unknown key; did you mean base_url?'],
    ['groups: [{ match: "*", langauge: zh }]', 'groups.0.langauge: unknown key; did you mean language?'],
    ['platforms: { console: { channels: [{ id: a, nam: b, name: c }] } }', 'platforms.console.channels.0.nam: unknown key; did you mean name?'],
  ])('an unknown key is named with its nearest neighbour: %s', (text, problem) => {
    expect(problemsOf(text)).toEqual([`hermes.yaml: ${problem}`]);
  });

  it('an unknown key that resembles nothing is named with the keys that are known there', () => {
    expect(problemsOf('server: { completely_else: 1 }')).toEqual(['hermes.yaml: server.completely_else: unknown key; known here: host, port, admin_token']);
  });

  it('all mistakes are reported at once, from the file and from the environment', () => {
    const problems = problemsOf('langage: zh\nagent: { max_turns: 0, follow_up: never }\ntimezone: Mars/Olympus\npeople: { admins: [lin] }', { PORT: 'abc', OPENAI_BASE_URL: 'nowhere' }).join('\n');
    for (const key of ['langage', 'agent.max_turns', 'agent.follow_up', 'timezone', 'people.admins.0', 'PORT', 'models.main.base_url (from OPENAI_BASE_URL)']) expect(problems).toContain(key);
  });

  it('a key given twice is refused with its line', () => {
    expect(problemsOf('language: en\nagent: {}\nlanguage: zh')).toEqual(['hermes.yaml: Map keys must be unique at line 3, column 1']);
  });

  it.each(['hello', '- a\n- b', '42'])('a file that is no list of keys is refused: %j', (text) => {
    expect(problemsOf(text)).toEqual(['hermes.yaml: must consist of keys and values, such as "language: en"']);
  });

  it('an alias bomb is refused', () => {
    const bomb = 'a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]';
    expect(problemsOf(bomb)[0]).toContain('aliases');
  });

  it.each(['abc', '-1', '70000', '3000.5'])('a port that is none is refused: %s', (port) => {
    expect(problemsOf('', { PORT: port }).join()).toMatch(/PORT/);
  });

  it('bare ids of people and channels are refused with the form they need', () => {
    expect(problemsOf('people: { operators: [U123] }').join()).toContain('must be platform:id');
    expect(problemsOf('groups: [{ match: general }]').join()).toContain('platform:#name');
  });

  it.each([
    ['a key given twice', 'models:\n  main:\n    api_key: TOPSECRET-1\n    api_key: TOPSECRET-2'],
    ['a quote that is not closed', 'models:\n  main:\n    api_key: "TOPSECRET-1'],
    ['a secret where an address belongs', 'models: { main: { base_url: TOPSECRET-1 } }'],
    ['a secret with a star in front', 'models: { main: { api_key: *TOPSECRET-1 } }'],
    ['a short token', 'server: { admin_token: TOPSECRET }'],
    ['a list instead of a text', 'models: { main: { api_key: [TOPSECRET-1] } }'],
    ['a broken line', 'models: { main: { api_key: TOPSECRET-1, : [ } }'],
  ])('no message carries a secret: %s', (_, text) => {
    const said = problemsOf(text).join('\n');
    expect(said).not.toBe('');
    expect(said).not.toContain('TOPSECRET');
  });

  it('no message carries a secret of the environment', () => {
    const said = problemsOf('langage: zh', { HERMES_ADMIN_TOKEN: 'TOPSECRET', OPENAI_API_KEY: 'TOPSECRET-2', OPENAI_BASE_URL: 'TOPSECRET-3' }).join('\n');
    expect(said).toContain('HERMES_ADMIN_TOKEN');
    expect(said).not.toContain('TOPSECRET');
  });
});

describe('the environment', () => {
  it('wins over the file', () => {
    const text = 'language: en\ndata_dir: /a\nserver: { port: 1111, host: 127.0.0.2 }\nmodels: { main: { model: from-file, base_url: "http://127.0.0.1:1/v1" } }\ntools: { level2: [a] }\nlogging: { level: warn }';
    const config = parse(text, { HERMES_DATA_DIR: '/b', PORT: '2222', HOST: '0.0.0.0', HERMES_MODEL: 'from-env', OPENAI_BASE_URL: 'http://127.0.0.1:2/v1', HERMES_LEVEL2: 'x, y,', LOG_LEVEL: 'debug', DATABASE_URL: 'postgres://db/h' });
    expect(config).toMatchObject({
      dataDir: '/b',
      server: { port: 2222, host: '0.0.0.0' },
      models: { main: { model: 'from-env', baseUrl: 'http://127.0.0.1:2/v1' } },
      tools: { level2: ['x', 'y'] },
      logging: { level: 'debug' },
      databaseUrl: 'postgres://db/h',
    });
  });

  it('an empty variable leaves the file alone', () => {
    expect(parse('models: { main: { model: from-file } }', { HERMES_MODEL: '', PORT: '' })).toMatchObject({ models: { main: { model: 'from-file' } }, server: { port: 3000 } });
  });

  it('a flag of the command line wins over both', () => {
    expect(parse('server: { port: 1111 }', { PORT: '2222' }, { port: 3333 }).server.port).toBe(3333);
  });

  it('fills a section that the file leaves empty', () => {
    expect(parse('models:\n', { HERMES_MODEL: 'm' }).models.main.model).toBe('m');
  });
});

describe('demo and secrets', () => {
  it('the demo model serves only without a base URL and without a key', () => {
    expect(parse('').demo).toBe(true);
    expect(parse('', { HERMES_MODEL: 'm' }).demo).toBe(true);
    expect(parse('', { OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1' }).demo).toBe(false);
    expect(parse('', { OPENAI_API_KEY: 'k' }).demo).toBe(false);
  });

  it('lists what must never be shown, by name', () => {
    expect(parse('', { OPENAI_API_KEY: 'key-1', HERMES_ADMIN_TOKEN: 'token-of-length' }).secrets).toEqual({ OPENAI_API_KEY: 'key-1', HERMES_ADMIN_TOKEN: 'token-of-length' });
  });
});

describe('the file', () => {
  const written = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };

  it('is the one named, before the one in HERMES_CONFIG', () => {
    const named = written('named.yaml', 'language: zh');
    const other = written('other.yaml', 'language: en\nagent: { max_turns: 3 }');
    expect(loadConfig({ path: named, env: { HERMES_CONFIG: other } })).toMatchObject({ language: 'zh', source: named });
    expect(loadConfig({ env: { HERMES_CONFIG: other } })).toMatchObject({ agent: { maxTurns: 3 }, source: other });
  });

  it('that is named but missing is an error with its path', () => {
    expect(() => loadConfig({ path: join(folder, 'missing.yaml'), env: {} })).toThrow(join(folder, 'missing.yaml'));
  });

  it('an empty HERMES_CONFIG names no file', () => {
    expect(loadConfig({ env: { HERMES_CONFIG: '' } }).source).not.toBe(resolve(''));
  });
});

describe('nearest', () => {
  it.each([
    ['max_turn', 'max_turns'],
    ['Language', 'language'],
    ['xyz', undefined],
  ])('%s → %s', (word, expected) => {
    expect(nearest(word, ['language', 'max_turns', 'data_dir'])).toBe(expected);
  });
});
