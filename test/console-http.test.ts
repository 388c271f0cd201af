/** The console over real HTTP: shapes, refusals, the guard, the page, live changes. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Interaction } from '../src/agent/types.ts';
import { StoreError } from '../src/errors.ts';
import { listen } from '../src/http/listen.ts';
import { writeAudit } from '../src/store/audit.ts';
import { findOrCreateConversation } from '../src/store/conversations.ts';
import { insertInteraction } from '../src/store/interactions.ts';
import { insertRun, setStatus } from '../src/store/runs.ts';
import { appendSteps } from '../src/store/steps.ts';
import { group, type OpenConsole, openConsole, openWeb, outbound, raw, start, type Web } from './fakes/console.ts';

let open: OpenConsole;
let web: Web;
const stops: string[] = [];
const stopRun = async (runId: string, by: string) => {
  stops.push(`${runId} by ${by}`);
  return runId === 'r_1' ? ('stopped' as const) : runId === 'r_2' ? ('ended' as const) : ('not_found' as const);
};

beforeEach(async () => {
  open = await openConsole();
  await start(open.adapter, open.agent);
  web = await openWeb(open, { stopRun });
});
afterEach(async () => {
  stops.length = 0;
  await web.close();
  await open.close();
});

async function call(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const sent = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body) };
  const response = await fetch(web.url + path, { method, ...sent });
  return { status: response.status, body: await response.json() };
}

const post = (body: object) => call('POST', '/api/console/messages', { channel: 'ops', user: 'lin', text: '@hermes hi', ...body });

describe('messages', () => {
  test('one is posted and read again with the buttons of the answer', async () => {
    const posted = await post({ text: '(13+27)*4', mention: true });
    const { key, thread } = posted.body as { key: string; thread: string };
    expect(posted).toEqual({ status: 200, body: { key: `console:local:ops:${thread}`, thread } });
    const buttons = [{ interactionId: 'i_1', choice: 'approve', label: 'Approve', style: 'danger' }] as const;
    await open.adapter.send(outbound('r_1/card', 'Sure?', { place: group(thread), buttons }));
    const at = '2026-01-05T09:00:00.000Z';
    const messages = [
      { key, thread, user: 'lin', text: '(13+27)*4', at, mention: true },
      { key: expect.stringMatching(/^console:local:ops:m/), thread, user: 'hermes', text: 'Sure?', at, buttons },
    ];
    expect(await call('GET', '/api/console/messages?channel=ops')).toEqual({ status: 200, body: { messages } });
    expect(await call('GET', `/api/console/messages?channel=ops&thread=${thread}`)).toEqual({ status: 200, body: { messages } });
    expect(await call('GET', `/api/console/messages?channel=ops&thread=${encodeURIComponent(key)}&limit=1`)).toEqual({ status: 200, body: { messages: messages.slice(1) } });
    expect(await call('GET', '/api/console/messages?channel=all')).toEqual({ status: 200, body: { messages: [] } });
  });

  test('one is edited and deleted under its key', async () => {
    const { key } = (await post({})).body as { key: string };
    const path = `/api/console/messages/${encodeURIComponent(key)}`;
    expect(await call('PATCH', path, { user: 'lin', text: '@hermes ho' })).toEqual({ status: 200, body: { key } });
    expect(await call('PATCH', path, { user: 'zhou', text: 'no' })).toMatchObject({ status: 403 });
    expect(await call('DELETE', path, { user: 'zhou' })).toMatchObject({ status: 403 });
    expect(await call('DELETE', path)).toEqual({ status: 200, body: { key } });
    expect(await call('GET', '/api/console/messages?channel=ops')).toEqual({ status: 200, body: { messages: [] } });
    expect(open.agent.events.map((event) => event.type)).toEqual(['message', 'change', 'change']);
    expect(await call('DELETE', '/api/console/messages/console%3Alocal%3Aops%3Am0')).toMatchObject({ status: 404 });
  });

  test.for([
    ['no channel', { channel: undefined }, /^channel: /],
    ['a user that is no text', { user: 5 }, /^user: .*string/],
    ['a text that is no text', { text: null }, /^text: .*string/],
    ['an unknown field', { chanel: 'ops' }, /^chanel: unknown field/],
    ['a mention that is no yes or no', { mention: 'yes' }, /^mention: .*boolean/],
    ['several mistakes', { user: 5, mention: 1 }, /user: .*; mention: /],
    ['the reserved name', { user: 'Hermes' }, /^user: .*bot itself/],
    ['an empty text', { text: '' }, /^text: must not be empty/],
    ['a name that is too long', { user: 'x'.repeat(65) }, /^user: must be 1 to 64/],
  ] as const)('%s is answered with the field it is in', async ([, body, why]) => {
    expect(await post(body)).toEqual({ status: 400, body: { error: { code: 'invalid', message: expect.stringMatching(why) } } });
    expect(open.agent.events).toEqual([]);
  });

  test.for([
    ['what is not JSON', '{"channel":', 400, 'invalid'],
    ['what is no object', '[1]', 400, 'invalid'],
    ['more than 1 MB', JSON.stringify({ channel: 'ops', user: 'lin', text: 'x'.repeat(1_100_000) }), 413, 'too_large'],
  ] as const)('%s is refused', async ([, body, status, code]) => {
    expect(await call('POST', '/api/console/messages', body)).toMatchObject({ status, body: { error: { code, message: expect.stringMatching(/^body: /) } } });
  });

  test('people and channels of other platforms, and direct chats of others, are 403; an unknown thread is 404', async () => {
    expect(await post({ user: 'slack:T1:U1' })).toMatchObject({ status: 403, body: { error: { code: 'forbidden' } } });
    expect(await post({ channel: 'slack:C1' })).toMatchObject({ status: 403 });
    expect(await post({ channel: '@zhou' })).toMatchObject({ status: 403 });
    expect(await call('GET', '/api/console/messages?channel=@zhou&user=lin')).toMatchObject({ status: 403 });
    expect(await post({ thread: 'm0' })).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } });
    expect(await call('GET', '/api/console/messages')).toMatchObject({ status: 400, body: { error: { message: expect.stringMatching(/^channel: /) } } });
    expect(await call('GET', '/api/console/messages?channel=ops&limit=x')).toMatchObject({ status: 400, body: { error: { message: expect.stringMatching(/^limit: /) } } });
  });

  test('storage that does not work is 503 with a plain sentence; a fault of ours is 500 without details', async () => {
    open.agent.answer = () => {
      throw new StoreError('store_busy', 'held by another process');
    };
    expect(await post({})).toMatchObject({ status: 503, body: { error: { code: 'store_busy', message: expect.stringMatching(/kept/) } } });
    open.agent.answer = () => {
      throw new Error('secret detail');
    };
    const failed = await post({});
    expect(failed).toMatchObject({ status: 500, body: { error: { code: 'internal' } } });
    expect(JSON.stringify(failed)).not.toMatch(/secret|stack|\.ts/);
    await open.adapter.stop();
    expect(await post({})).toMatchObject({ status: 503, body: { error: { code: 'not_ready' } } });
  });

  test('channels are listed', async () => {
    expect(await call('GET', '/api/console/channels')).toEqual({
      status: 200,
      body: {
        channels: [
          { id: 'ops', name: 'Ops 运维群' },
          { id: 'all', name: 'All hands' },
        ],
      },
    });
  });
});

describe('the record', () => {
  const asked: Interaction = { id: 'i_1', kind: 'approval', code: 'K7QP', question: 'post to all', options: [], tool: 'send_group_message', args: { content: 'lunch' }, sha: 's', mayAnswer: { kind: 'asker' }, needed: 1, expiresInMs: 1000 };

  async function fill(): Promise<string> {
    const now = open.clock.now();
    return open.store.transact(async (tx) => {
      const here = await findOrCreateConversation(tx, group('m1'), now);
      const slack = await findOrCreateConversation(tx, { ...group('1.2', 'C1'), platform: 'slack', tenant: 'T1' }, now);
      for (const id of ['r_1', 'r_2', 'r_3']) await insertRun(tx, { id, conversationId: here.id, lane: id, triggerKind: 'mention', messageKey: `console:local:ops:${id}`, asker: 'console:local:lin', at: now }, 'sqlite');
      await appendSteps(tx, { id: 'r_1', version: 0 }, [{ type: 'run_completed', text: '160', stop: 'answered' }], now);
      await setStatus(tx, 'r_1', { status: 'completed', input_tokens: 100, output_tokens: 20, at: now });
      await insertInteraction(tx, { interaction: asked, runId: 'r_1', conversationId: here.id, place: group('m1'), at: now });
      await insertInteraction(tx, { interaction: { ...asked, id: 'i_2', code: 'AAAA' }, runId: 'r_1', conversationId: slack.id, place: { ...group('1.2', 'C1'), platform: 'slack', tenant: 'T1' }, at: now + 1 });
      await writeAudit(tx, [{ at: now, kind: 'press', actor: 'console:local:lin', runId: 'r_1', subject: 'i_1' }], 'sqlite');
      return here.id;
    });
  }

  test('runs are listed newest first and paged', async () => {
    const conversation = await fill();
    const first = await call('GET', '/api/runs?limit=2');
    expect(first).toMatchObject({ status: 200, body: { runs: [{ id: 'r_3', status: 'queued', trigger: 'mention', startedAt: null, endedAt: null }, { id: 'r_2' }] } });
    expect(await call('GET', '/api/runs?before=r_2')).toMatchObject({
      status: 200,
      body: {
        runs: [{ id: 'r_1', status: 'completed', conversation, place: { platform: 'console', channel: 'ops', thread: 'm1' }, usage: { inputTokens: 100, outputTokens: 20 }, asker: 'console:local:lin', endedAt: '2026-01-05T09:00:00.000Z' }],
      },
    });
    expect(await call('GET', '/api/runs?before=2')).toMatchObject({ status: 200, body: { runs: [{ id: 'r_1' }] } });
    expect(await call('GET', '/api/runs?before=r_none')).toMatchObject({ status: 404 });
    expect(await call('GET', '/api/runs?limit=0')).toMatchObject({ status: 400, body: { error: { message: expect.stringMatching(/^limit: /) } } });
  });

  test('a run is shown with its steps', async () => {
    await fill();
    expect(await call('GET', '/api/runs/r_1')).toMatchObject({
      status: 200,
      body: { run: { id: 'r_1' }, steps: [{ seq: 1, type: 'run_completed', data: { text: '160', stop: 'answered' }, at: '2026-01-05T09:00:00.000Z' }] },
    });
    expect(await call('GET', '/api/runs/r_none')).toMatchObject({ status: 404, body: { error: { code: 'not_found', message: 'There is no run r_none.' } } });
  });

  test('a run is stopped by the admin, whoever the request names', async () => {
    expect(await call('POST', '/api/runs/r_1/stop', {})).toEqual({ status: 200, body: { state: 'stopped' } });
    expect(await call('POST', '/api/runs/r_2/stop', {})).toEqual({ status: 200, body: { state: 'ended' } });
    expect(await call('POST', '/api/runs/r_9/stop', {})).toMatchObject({ status: 404 });
    expect(await call('POST', '/api/runs/r_1/stop', { user: 'lin' })).toMatchObject({ status: 400 });
    expect(stops).toEqual(['r_1 by login:admin', 'r_2 by login:admin', 'r_9 by login:admin']);
  });

  test('interactions are listed, and answered by people of the console where they were asked on the console', async () => {
    await fill();
    expect(await call('GET', '/api/interactions?open=true')).toMatchObject({
      status: 200,
      body: {
        interactions: [
          { id: 'i_2', place: { platform: 'slack' } },
          { id: 'i_1', runId: 'r_1', kind: 'approval', code: 'K7QP', state: 'open', question: 'post to all', tool: 'send_group_message', args: { content: 'lunch' }, mayAnswer: { kind: 'asker' }, expiresAt: null },
        ],
      },
    });
    open.agent.answer = () => ({ state: 'not_entitled', notice: 'This is for lin.' });
    expect(await call('POST', '/api/interactions/i_1', { user: 'zhou', choice: 'approve' })).toEqual({ status: 200, body: { state: 'not_entitled', notice: 'This is for lin.' } });
    open.agent.answer = () => ({ state: 'accepted' });
    expect(await call('POST', '/api/interactions/i_1', { user: 'lin', text: 'the first' })).toEqual({ status: 200, body: { state: 'accepted' } });
    expect(open.agent.events).toMatchObject([
      { type: 'reply', interactionId: 'i_1', by: { id: 'console:local:zhou' }, choice: 'approve' },
      { type: 'reply', text: 'the first' },
    ]);
  });

  test('an answer to another platform, as somebody of another platform, as the bot or to nothing is refused', async () => {
    await fill();
    expect(await call('POST', '/api/interactions/i_2', { user: 'lin', choice: 'approve' })).toMatchObject({ status: 403, body: { error: { message: expect.stringMatching(/asked on slack/) } } });
    expect(await call('POST', '/api/interactions/i_1', { user: 'slack:T1:U1', choice: 'approve' })).toMatchObject({ status: 403 });
    expect(await call('POST', '/api/interactions/i_1', { user: 'hermes', choice: 'approve' })).toMatchObject({ status: 400 });
    expect(await call('POST', '/api/interactions/i_1', { user: 'lin' })).toMatchObject({ status: 400 });
    expect(await call('POST', '/api/interactions/i_9', { user: 'lin', choice: 'approve' })).toMatchObject({ status: 404 });
    expect(open.agent.events).toEqual([]);
  });

  test('audit, connections and usage are shown', async () => {
    await fill();
    expect(await call('GET', '/api/audit')).toMatchObject({ status: 200, body: { audit: [{ id: 1, kind: 'press', actor: 'console:local:lin', runId: 'r_1', subject: 'i_1', at: '2026-01-05T09:00:00.000Z' }] } });
    expect(await call('GET', '/api/connections')).toMatchObject({ status: 200, body: { connections: [{ platform: 'console', tenant: 'local', health: { connected: true } }] } });
    expect(await call('GET', '/api/usage')).toMatchObject({ status: 200, body: { days: [{ day: '2026-01-05', runs: 3, inputTokens: 100, outputTokens: 20 }], complete: true } });
    await open.clock.advance(8 * 86_400_000);
    expect(await call('GET', '/api/usage')).toMatchObject({ body: { days: [] } });
  });

  test('an unknown address of the API is a 404 in JSON', async () => {
    expect(await call('GET', '/api/nothing')).toEqual({ status: 404, body: { error: { code: 'not_found', message: 'There is no GET /api/nothing.' } } });
    expect(await call('POST', '/api/runs', {})).toMatchObject({ status: 404 });
  });
});

describe('health', () => {
  test('the process lives, also when the database does not', async () => {
    await open.store.close();
    expect(await call('GET', '/healthz')).toEqual({ status: 200, body: { ok: true } });
    expect(await call('GET', '/ready')).toMatchObject({ status: 503, body: { ok: false, problems: [expect.stringMatching(/^storage: /)] } });
  });

  test('it is ready when nothing is wrong, and says what is', async () => {
    expect(await call('GET', '/ready')).toEqual({ status: 200, body: { ok: true, problems: [], version: '0.0.0' } });
    const deaf = await openWeb(open, { ready: () => ({ ok: false, problems: ['slack is not connected'] }) });
    expect(await raw(deaf.port, 'GET', '/ready')).toMatchObject({ status: 503, text: expect.stringContaining('slack is not connected') });
    await deaf.close();
  });

  test('a port that is taken is said in words', async () => {
    const { Hono } = await import('hono');
    await expect(listen(new Hono(), { host: '127.0.0.1', port: web.port })).rejects.toMatchObject({ name: 'ConfigError', message: expect.stringMatching(new RegExp(`${web.port} is taken`)) });
  });
});

describe('the guard over the wire', () => {
  const token = 'a-long-admin-token';

  test('without a token only this machine is answered', async () => {
    expect(await raw(web.port, 'GET', '/', { host: 'evil.example' })).toMatchObject({ status: 403, text: expect.stringMatching(/admin token/) });
    expect(await raw(web.port, 'GET', '/api/runs', { 'x-forwarded-for': '10.0.0.1' })).toMatchObject({ status: 403 });
    expect(await raw(web.port, 'POST', '/api/runs/r_1/stop', { 'content-type': 'text/plain' }, '{}')).toMatchObject({ status: 403, text: expect.stringMatching(/application\/json/) });
    expect(await raw(web.port, 'POST', '/api/runs/r_1/stop', { 'content-type': 'application/json', origin: 'http://localhost:8080' }, '{}')).toMatchObject({ status: 403 });
    expect(stops).toEqual([]);
    expect(await raw(web.port, 'POST', '/api/runs/r_1/stop', { 'content-type': 'application/json', origin: `http://127.0.0.1:${web.port}` }, '{}')).toMatchObject({ status: 200 });
    expect(await raw(web.port, 'GET', '/login')).toMatchObject({ status: 302, headers: { location: '/' } });
  });

  test('with a token: 401 without detail, login by form or link, a cookie no script and no other site can use', async () => {
    const guarded = await openWeb(open, { config: `server: {admin_token: ${token}}` });
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    expect(await raw(guarded.port, 'GET', '/api/runs')).toMatchObject({ status: 401, text: '{"error":{"code":"unauthorized","message":"Unauthorized."}}' });
    expect(await raw(guarded.port, 'GET', '/')).toMatchObject({ status: 302, headers: { location: '/login' } });
    expect(await raw(guarded.port, 'GET', '/healthz')).toMatchObject({ status: 200 });
    expect(await raw(guarded.port, 'GET', '/api/runs', { authorization: `Bearer ${token}` })).toMatchObject({ status: 200 });
    expect(await raw(guarded.port, 'GET', '/login')).toMatchObject({ status: 200, text: expect.stringContaining('<form method="post" action="/login">') });
    expect(await raw(guarded.port, 'POST', '/login', form, 'token=wrong')).toMatchObject({ status: 401, text: expect.stringContaining('That is not the token.') });
    expect(await raw(guarded.port, 'GET', '/login?token=wrong&lang=zh')).toMatchObject({ status: 401, text: expect.stringContaining('令牌不正确') });
    for (const entered of [await raw(guarded.port, 'POST', '/login', form, `token=${token}`), await raw(guarded.port, 'GET', `/login?token=${token}`)]) {
      const [cookie = ''] = entered.headers['set-cookie'] ?? [];
      expect(entered).toMatchObject({ status: 302, headers: { location: '/' } });
      expect(cookie).toMatch(/^hermes_session=[\w-]+; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Strict$/);
      expect(cookie).not.toContain(token);
      expect(await raw(guarded.port, 'GET', '/api/runs', { cookie: cookie.split(';')[0] ?? '' })).toMatchObject({ status: 200 });
    }
    const secure = await raw(guarded.port, 'GET', `/login?token=${token}`, { 'x-forwarded-proto': 'https' });
    expect(secure.headers['set-cookie']?.[0]).toMatch(/; Secure/);
    await guarded.close();
  });
});

describe('the page', () => {
  test('it runs nothing but our own files, and every answer says so', async () => {
    const page = await raw(web.port, 'GET', '/');
    expect(page).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=UTF-8' } });
    expect(page.text).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*src=)/);
    for (const path of ['/', '/api/runs', '/nothing', '/login', '/healthz']) {
      expect((await raw(web.port, 'GET', path)).headers).toMatchObject({
        'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
      });
    }
  });

  test('its files carry a hash of what is in them and may be kept', async () => {
    const { text } = await raw(web.port, 'GET', '/');
    const paths = [...text.matchAll(/(?:href|src)="(\/static\/[^"]+)"/g)].map((match) => match[1] ?? '');
    expect(paths).toHaveLength(3);
    for (const path of paths) {
      expect(path).toMatch(/-[0-9a-f]{12}\.(js|css|svg)$/);
      expect(await raw(web.port, 'GET', path)).toMatchObject({ status: 200, headers: { 'cache-control': expect.stringContaining('immutable') } });
    }
    expect(await raw(web.port, 'GET', '/static/../deps.ts')).toMatchObject({ status: 404 });
  });

  test('it speaks the configured language, or the one asked for, and marks the demo model', async () => {
    expect((await raw(web.port, 'GET', '/')).text).toMatch(/<html lang="en">[\s\S]*class="badge"[^>]*>Demo model</);
    expect((await raw(web.port, 'GET', '/?lang=zh')).text).toMatch(/<html lang="zh-CN">[\s\S]*>演示模型</);
    const real = await openWeb(open, { config: 'language: zh\nmodels: {main: {base_url: "http://127.0.0.1:1/v1"}}' });
    const { text } = await raw(real.port, 'GET', '/');
    expect(text).toContain('<html lang="zh-CN">');
    expect(text).not.toContain('class="badge"');
    await real.close();
  });

  test('names of groups are text, whatever is in them', async () => {
    await open.storage.addChannels([{ id: 'x', name: '"><img src=x onerror=alert(1)>' }], 0);
    const { text } = await raw(web.port, 'GET', '/');
    expect(text).toContain('&lt;img src=x');
    expect(text).not.toContain('<img');
  });
});

describe('live changes', () => {
  /** Reads the stream until `until` is in it. */
  async function listenTo(path: string) {
    const leaving = new AbortController();
    const response = await fetch(web.url + path, { signal: leaving.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    return {
      type: response.headers.get('content-type'),
      leave: () => leaving.abort(),
      async until(part: string): Promise<string> {
        while (!text.includes(part)) {
          const { value, done } = (await reader?.read()) ?? { done: true, value: undefined };
          if (done) throw new Error(`the stream ended without ${part}: ${text}`);
          text += value;
        }
        return text;
      },
    };
  }

  test('each change is one event, and a ping keeps the line open', async () => {
    const stream = await listenTo('/api/events');
    expect(stream.type).toMatch(/^text\/event-stream/);
    await stream.until(': connected\n\n');
    const { thread } = (await post({})).body as { thread: string };
    expect(await stream.until('data:')).toContain(`event: change\ndata: ${JSON.stringify({ channel: 'ops', thread })}\n\n`);
    await open.clock.advance(15_000);
    await stream.until(': ping\n\n');
    stream.leave();
  });

  test('of a direct chat only its person hears', async () => {
    const zhou = await listenTo('/api/events?user=zhou');
    const lin = await listenTo('/api/events?user=lin');
    await Promise.all([zhou.until(': connected'), lin.until(': connected')]);
    await post({ channel: '@lin' });
    await post({ channel: 'all' });
    expect(await lin.until('"all"')).toContain('"@lin"');
    expect(await zhou.until('"all"')).not.toContain('"@lin"');
    zhou.leave();
    lin.leave();
  });

  test('the listener goes with the client', async () => {
    let listeners = 0;
    const gone = Promise.withResolvers<void>();
    const counted = {
      ...open.server,
      subscribe: (listener: Parameters<typeof open.server.subscribe>[0]) => {
        const leave = open.server.subscribe(listener);
        listeners++;
        return () => {
          leave();
          if (--listeners === 0) gone.resolve();
        };
      },
    };
    await web.close();
    web = await openWeb(open, { console: counted });
    const stream = await listenTo('/api/events');
    await stream.until(': connected');
    expect(listeners).toBe(1);
    stream.leave();
    await gone.promise;
    expect(listeners).toBe(0);
  });

  test('the server closes although somebody listens', async () => {
    const stream = await listenTo('/api/events');
    await stream.until(': connected');
    await web.close();
    await expect(stream.until('never')).rejects.toThrow();
    web = await openWeb(open, { stopRun });
  });
});
