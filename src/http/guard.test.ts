import { Hono } from 'hono';
import { describe, expect, test } from 'vitest';
import { guard, judge, sessionFor, type Visit } from './guard.ts';

const token = 'correct horse battery staple';
const visit = (method: string, path: string, headers: Record<string, string> = {}, session?: string): Visit => ({ method, path, headers, session });
const json = { 'content-type': 'application/json' };
const local = { host: 'localhost:3000', ...json };

describe('without a token', () => {
  test.for(['localhost', 'localhost:3000', 'LOCALHOST:80', '127.0.0.1:3000', '[::1]:3000', '[::1]'])('a request to %s passes', (host) => {
    expect(judge(undefined, visit('GET', '/api/runs', { host }))).toEqual({ to: 'pass' });
  });

  test.for(['', 'evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'localhost:3000, evil.example', '192.168.1.5:3000', '0.0.0.0:3000', '127.0.0.2', '::1', 'localhost:abc', 'hermes'])('one to "%s" does not', (host) => {
    expect(judge(undefined, visit('GET', '/', { host }))).toMatchObject({ to: 'forbidden', why: expect.stringContaining('HERMES_ADMIN_TOKEN') });
    expect(judge(undefined, visit('GET', '/healthz', { host }))).toMatchObject({ to: 'forbidden' });
  });

  test.for(['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via'])('one that a proxy passed on (%s) does not', (name) => {
    expect(judge(undefined, visit('GET', '/', { host: 'localhost', [name]: 'x' }))).toMatchObject({ to: 'forbidden', why: expect.stringContaining(name) });
  });

  test.for([
    ['POST as JSON', visit('POST', '/api/x', local)],
    ['POST as JSON with a charset', visit('POST', '/api/x', { ...local, 'content-type': 'application/json; charset=utf-8' })],
    ['POST from our own page', visit('POST', '/api/x', { ...local, origin: 'http://localhost:3000', 'sec-fetch-site': 'same-origin' })],
    ['PATCH as JSON', visit('PATCH', '/api/x', local)],
    ['DELETE as JSON', visit('DELETE', '/api/x', local)],
    ['DELETE without a body', visit('DELETE', '/api/x', { host: 'localhost:3000' })],
    ['GET after a click on another site', visit('GET', '/', { host: 'localhost:3000', 'sec-fetch-site': 'cross-site' })],
  ] as const)('%s passes', ([, request]) => {
    expect(judge(undefined, request)).toEqual({ to: 'pass' });
  });

  test.for([
    ['POST of a form', visit('POST', '/api/x', { ...local, 'content-type': 'application/x-www-form-urlencoded' }), /application\/json/],
    ['POST of text', visit('POST', '/api/x', { ...local, 'content-type': 'text/plain' }), /application\/json/],
    ['POST of something like JSON', visit('POST', '/api/x', { ...local, 'content-type': 'application/jsonx' }), /application\/json/],
    ['POST without a type', visit('POST', '/api/x', { host: 'localhost:3000' }), /application\/json/],
    ['DELETE of text', visit('DELETE', '/api/x', { host: 'localhost:3000', 'content-type': 'text/plain' }), /application\/json/],
    ['DELETE with a body of no type', visit('DELETE', '/api/x', { host: 'localhost:3000', 'content-length': '4' }), /application\/json/],
    ['POST from another site', visit('POST', '/api/x', { ...local, origin: 'https://evil.example' }), /another site/],
    ['POST from another port', visit('POST', '/api/x', { ...local, origin: 'http://localhost:8080' }), /another site/],
    ['POST from another local name', visit('POST', '/api/x', { ...local, origin: 'http://127.0.0.1:3000' }), /another site/],
    ['POST from a sandboxed page', visit('POST', '/api/x', { ...local, origin: 'null' }), /another site/],
    ['POST that the browser calls cross-site', visit('POST', '/api/x', { ...local, 'sec-fetch-site': 'cross-site' }), /another site/],
    ['PUT of text', visit('PUT', '/api/x', { ...local, 'content-type': 'text/plain' }), /application\/json/],
  ] as const)('%s does not', ([, request, why]) => {
    expect(judge(undefined, request)).toMatchObject({ to: 'forbidden', why: expect.stringMatching(why) });
  });
});

describe('with a token', () => {
  const bearer = { authorization: `Bearer ${token.replaceAll(' ', '-')}` };
  const oneWord = token.replaceAll(' ', '-');

  test.for(['/healthz', '/webhooks/slack', '/webhooks/feishu', '/login'])('%s is open', (path) => {
    expect(judge(oneWord, visit('POST', path, { host: 'anything.example' }))).toEqual({ to: 'pass' });
  });

  test.for(['/', '/api/runs', '/api/events', '/ready', '/metrics', '/static/console.js', '/webhooks', '/healthz/x', '/api/webhooks/slack', '/nothing'])('%s is not', (path) => {
    expect(judge(oneWord, visit('GET', path)).to).not.toBe('pass');
    expect(judge(oneWord, visit('POST', path)).to).toBe('unauthorized');
  });

  test('a page sends to the login, everything else is told nothing', () => {
    expect(judge(oneWord, visit('GET', '/'))).toEqual({ to: 'login' });
    expect(judge(oneWord, visit('GET', '/runs', { accept: 'text/html,*/*' }))).toEqual({ to: 'login' });
    expect(judge(oneWord, visit('GET', '/api/runs', { accept: 'text/html' }))).toEqual({ to: 'unauthorized' });
    expect(judge(oneWord, visit('GET', '/ready'))).toEqual({ to: 'unauthorized' });
  });

  test('the token opens from any host and through any proxy', () => {
    expect(judge(oneWord, visit('POST', '/api/x', { ...bearer, host: 'hermes.example', 'x-forwarded-for': '10.0.0.1' }))).toEqual({ to: 'pass' });
    expect(judge(oneWord, visit('GET', '/', { authorization: `bearer  ${oneWord}` }))).toEqual({ to: 'pass' });
  });

  test.for(['', 'Bearer', 'Bearer ', 'Bearer wrong', `Basic ${oneWord}`, oneWord, `Bearer ${oneWord}x`, `Bearer ${oneWord.slice(0, -1)}`, `Bearer ${sessionFor(oneWord)}`])('"%s" does not open', (authorization) => {
    expect(judge(oneWord, visit('GET', '/api/runs', { authorization }))).toEqual({ to: 'unauthorized' });
  });

  test('the cookie opens and is worth nothing once the token changes; it is not the token itself', () => {
    expect(judge(oneWord, visit('GET', '/api/runs', {}, sessionFor(oneWord)))).toEqual({ to: 'pass' });
    expect(judge('another-token', visit('GET', '/api/runs', {}, sessionFor(oneWord)))).toEqual({ to: 'unauthorized' });
    expect(judge(oneWord, visit('GET', '/api/runs', {}, oneWord))).toEqual({ to: 'unauthorized' });
  });

  test.for([
    ['our own page', { 'sec-fetch-site': 'same-origin', host: 'inner', origin: 'https://hermes.example' }, 'pass'],
    ['an old browser on our own page', { host: 'hermes.example', origin: 'https://hermes.example' }, 'pass'],
    ['a neighbour on another port', { 'sec-fetch-site': 'same-site', host: 'localhost:3000', origin: 'http://localhost:8080' }, 'forbidden'],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 'forbidden'],
    ['an old browser on another site', { host: 'hermes.example', origin: 'https://evil.example' }, 'forbidden'],
  ] as const)('what the cookie changes is asked from %s: %s', ([, headers, to]) => {
    expect(judge(oneWord, visit('POST', '/api/x', { ...json, ...headers }, sessionFor(oneWord))).to).toBe(to);
  });
});

test.each([undefined, 'an-admin-token'])('the token of this machine opens to the command line beside the admin token %s, and no other does', async (token) => {
  const app = new Hono();
  app.use(guard(token, 'of-this-machine'));
  app.get('/api/runs', (c) => c.text('in'));
  const status = async (authorization: string) => (await app.request('http://bot.example/api/runs', { headers: { authorization } })).status;
  expect(await status('Bearer of-this-machine')).toBe(200);
  expect(await status('Bearer of-another')).toBe(token === undefined ? 403 : 401);
});
