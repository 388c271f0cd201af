/** The console as a platform: what people write reaches the agent once it is stored, what the agent posts stands once. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StoreError } from '../src/errors.ts';
import { fakeClock, settled } from './fakes/clock.ts';
import { group, messagesOf, type OpenConsole, openConsole, outbound, start } from './fakes/console.ts';

let open: OpenConsole;
beforeEach(async () => {
  open = await openConsole();
  await start(open.adapter, open.agent);
});
afterEach(() => open.close());

const say = (text: string, more: { channel?: string; user?: string; thread?: string; mention?: boolean; quote?: string } = {}) => open.server.postMessage({ channel: 'ops', user: 'lin', text, ...more });
const texts = async (channel = 'ops', user?: string) => (await open.server.messages({ channel, ...(user ? { user } : {}) })).map((line) => line.text);
const idOf = (key: string) => key.split(':').at(-1) ?? '';

describe('writing', () => {
  test('a message on the main level opens a thread under itself', async () => {
    const { key, thread } = await say('@hermes hello @zhou');
    expect(key).toBe(`console:local:ops:${thread}`);
    expect(open.agent.events).toEqual([
      {
        type: 'message',
        key,
        place: group(thread),
        at: '2026-01-05T09:00:00.000Z',
        author: { id: 'console:local:lin', name: 'lin', isBot: false, external: false },
        content: [{ type: 'text', text: 'hello @zhou' }],
        mentionsBot: true,
        mentions: [{ id: 'console:local:zhou', name: 'zhou', isBot: false, external: false }],
        raw: { text: '@hermes hello @zhou', mention: false },
      },
    ]);
  });

  test('a reply stands in the thread it names, by id, by key, or by another reply', async () => {
    const root = await say('one');
    const reply = await say('two', { thread: root.thread });
    expect(reply.thread).toBe(root.thread);
    expect((await say('three', { thread: root.key })).thread).toBe(root.thread);
    expect((await say('four', { thread: reply.key })).thread).toBe(root.thread);
    expect(messagesOf(open.agent).map((message) => message.place.thread)).toEqual(Array(4).fill(root.thread));
  });

  test('only a mention, in words or beside them, is meant for the bot', async () => {
    await say('just talk');
    await say('do it', { mention: true });
    await say('', { mention: true });
    expect(messagesOf(open.agent).map((message) => message.mentionsBot)).toEqual([false, true, true]);
  });

  test('a quoted message comes along with who said it', async () => {
    const { key } = await say('the budget is 5,000', { user: 'zhou' });
    await say('@hermes check this', { quote: key });
    expect(messagesOf(open.agent)[1]?.quoted).toMatchObject({ messageId: idOf(key), by: { id: 'console:local:zhou' }, text: 'the budget is 5,000' });
  });

  test('posting to an unknown channel creates it', async () => {
    await say('hello', { channel: '新群' });
    expect(await open.server.channels()).toEqual([
      { id: 'ops', name: 'Ops 运维群' },
      { id: 'all', name: 'All hands' },
      { id: '新群', name: '新群' },
    ]);
  });

  test.for([
    ['an empty text', { text: ' ' }, 'invalid', /text: must not be empty/],
    ['a text that is too long', { text: 'x'.repeat(20_001) }, 'invalid', /at most 20000/],
    ['the name of the bot', { user: 'hermes' }, 'invalid', /bot itself/],
    ['a person of another platform', { user: 'slack:T1:U1' }, 'forbidden', /another platform/],
    ['a channel of another platform', { channel: 'feishu:oc_1' }, 'forbidden', /another platform/],
    ['an unknown thread', { thread: 'm0' }, 'not_found', /no such message/],
    ['an unknown quote', { quote: 'm0' }, 'not_found', /no such message/],
    ["another person's direct chat", { channel: '@zhou' }, 'forbidden', /direct chat of zhou/],
  ] as const)('%s is refused, and nothing is stored', async ([, request, code, why]) => {
    await expect(open.server.postMessage({ channel: 'ops', user: 'lin', text: 'hi', ...request })).rejects.toMatchObject({ code, message: expect.stringMatching(why) });
    expect(await texts()).toEqual([]);
    expect(open.agent.events).toEqual([]);
  });

  test('a thread of another channel is not found', async () => {
    const { thread } = await say('here');
    await expect(say('there', { channel: 'all', thread })).rejects.toMatchObject({ code: 'not_found' });
  });

  test('what no database keeps is replaced: NUL and torn surrogates', async () => {
    await say('a\0b\ud800c');
    expect(await texts()).toEqual(['a\ufffdb\ufffdc']);
  });
});

describe('direct chats', () => {
  test('every message is meant for the bot, and there are no threads', async () => {
    const { key, thread } = await say('hello', { channel: '@lin' });
    expect([key.startsWith('console:local:@lin:m'), thread]).toEqual([true, '']);
    expect(open.agent.events[0]).toMatchObject({ mentionsBot: true, place: { channel: '@lin', thread: '', audience: 'direct' } });
    await expect(say('again', { channel: '@lin', thread: key })).rejects.toThrow(/no threads/);
  });

  test('they are read by their person only, found by nobody and listed nowhere', async () => {
    await say('secret', { channel: '@lin' });
    expect(await texts('@lin', 'lin')).toEqual(['secret']);
    await expect(open.server.messages({ channel: '@lin', user: 'zhou' })).rejects.toMatchObject({ code: 'forbidden' });
    await expect(open.server.messages({ channel: '@lin' })).rejects.toMatchObject({ code: 'forbidden' });
    expect(await open.adapter.findChannels?.('@lin')).toEqual([]);
    expect((await open.server.channels()).map(({ id }) => id)).toEqual(['ops', 'all']);
  });

  test('the bot answers there', async () => {
    const place = open.adapter.directPlace?.({ id: 'console:local:lin', isBot: false, external: false });
    if (!place) throw new Error('the console has direct chats');
    await open.adapter.send({ ...outbound('k', 'hello lin'), place });
    expect(await open.server.messages({ channel: '@lin', user: 'lin' })).toMatchObject([{ user: 'hermes', text: 'hello lin', thread: '' }]);
  });
});

describe('changing', () => {
  test('an edit changes the message and tells the agent what it says now', async () => {
    const { key } = await say('@hermes old', { user: 'lin' });
    await open.server.editMessage(key, 'lin', '@hermes new');
    await open.server.editMessage(key, undefined, 'newest');
    const changes = open.agent.events.slice(1);
    expect(changes).toMatchObject([
      { type: 'change', of: key, kind: 'edited', by: { id: 'console:local:lin' }, content: [{ type: 'text', text: 'new' }], mentionsBot: true },
      { type: 'change', of: key, kind: 'edited', content: [{ type: 'text', text: 'newest' }], mentionsBot: false },
    ]);
    expect(new Set(changes.map((change) => 'key' in change && change.key)).size).toBe(2);
    expect(await open.server.messages({ channel: 'ops' })).toMatchObject([{ text: 'newest', edited: true }]);
  });

  test('a deletion takes the message away, and deleted again it is the same change', async () => {
    const { key } = await say('@hermes never mind');
    await open.server.deleteMessage(key, 'lin');
    await open.server.deleteMessage(key, 'lin');
    expect(await texts()).toEqual([]);
    expect(open.agent.events.slice(1)).toMatchObject(Array(2).fill({ type: 'change', key: `${key}/deleted`, of: key, kind: 'deleted' }));
  });

  test("nobody changes somebody else's message, the bot's, or one that is not there", async () => {
    const { key, thread } = await say('mine');
    const sent = await open.adapter.send(outbound('k', 'ours', { place: group(thread) }));
    await expect(open.server.editMessage(key, 'zhou', 'theirs')).rejects.toMatchObject({ code: 'forbidden' });
    await expect(open.server.deleteMessage(key, 'zhou')).rejects.toMatchObject({ code: 'forbidden' });
    await expect(open.server.editMessage(`console:local:ops:${sent.platformMessageId}`, undefined, 'x')).rejects.toMatchObject({ code: 'forbidden' });
    await expect(open.server.editMessage('console:local:ops:m0', 'lin', 'x')).rejects.toMatchObject({ code: 'not_found' });
    await expect(open.server.editMessage(`console:local:all:${thread}`, 'lin', 'x')).rejects.toMatchObject({ code: 'not_found' });
    await open.server.deleteMessage(key, 'lin');
    await expect(open.server.editMessage(key, 'lin', 'x')).rejects.toMatchObject({ code: 'not_found' });
    expect(await texts()).toEqual(['ours']);
  });
});

describe('pressing', () => {
  test('a press is handed on with who pressed, and the receipt comes back', async () => {
    open.agent.answer = () => ({ state: 'not_entitled', notice: 'for lin' });
    expect(await open.server.press('i_1', { user: 'zhou', choice: 'approve' })).toEqual({ state: 'not_entitled', notice: 'for lin' });
    expect(open.agent.events).toMatchObject([{ type: 'reply', interactionId: 'i_1', by: { id: 'console:local:zhou' }, choice: 'approve' }]);
  });

  test('nobody presses as the bot, as somebody of another platform, or without an answer', async () => {
    await expect(open.server.press('i_1', { user: 'hermes', choice: 'approve' })).rejects.toMatchObject({ code: 'invalid' });
    await expect(open.server.press('i_1', { user: 'slack:T:U', choice: 'approve' })).rejects.toMatchObject({ code: 'forbidden' });
    await expect(open.server.press('i_1', { user: 'lin' })).rejects.toMatchObject({ code: 'invalid' });
    expect(open.agent.events).toEqual([]);
  });
});

describe('acknowledging', () => {
  const failing = () => {
    throw new StoreError('store_full', 'the disk is full');
  };

  test('what the agent could not store stays unacknowledged, is said plainly, and is handed on when it works again', async () => {
    open.agent.answer = failing;
    await expect(say('@hermes hello')).rejects.toMatchObject({ code: 'store_full', message: expect.stringMatching(/kept.*no need to write it again/) });
    open.agent.answer = () => ({ state: 'accepted' });
    await open.clock.advance(5000);
    await open.clock.advance(5000);
    expect(messagesOf(open.agent).map((message) => message.key)).toEqual(Array(2).fill(messagesOf(open.agent)[0]?.key));
    expect(await open.storage.unacknowledged(10)).toEqual([]);
  });

  test('the next process hands on, in order, what this one left, with the words as they stand by then', async () => {
    open.agent.answer = failing;
    const root = await say('@hermes first').catch(() => open.server.messages({ channel: 'ops' }));
    expect(root).toHaveLength(1);
    await say('@hermes second').catch(() => {});
    await say('@hermes third').catch(() => {});
    const [first, second] = await open.server.messages({ channel: 'ops' });
    await open.server.editMessage(first?.key ?? '', 'lin', '@hermes changed').catch(() => {});
    await open.server.deleteMessage(second?.key ?? '', 'lin').catch(() => {});
    await open.adapter.stop();
    const next = await openConsole({ folder: open.folder, clock: fakeClock() });
    await start(next.adapter, next.agent);
    await next.store.close();
    expect(messagesOf(next.agent).map((message) => message.content)).toEqual([[{ type: 'text', text: 'changed' }], [{ type: 'text', text: 'third' }]]);
  });

  test('a message that breaks the agent does not hold up the others', async () => {
    open.agent.answer = failing;
    await say('@hermes bad').catch(() => {});
    await say('@hermes good').catch(() => {});
    open.agent.events.length = 0;
    open.agent.answer = (event) => {
      if (event.type === 'message' && event.content.some((part) => part.type === 'text' && part.text === 'bad')) throw new Error('a fault of ours');
      return { state: 'accepted' };
    };
    await open.clock.advance(5000);
    await settled();
    expect(await open.storage.unacknowledged(10)).toMatchObject([{ text: '@hermes bad' }]);
    expect(messagesOf(open.agent)).toHaveLength(2);
  });

  test('before the start and after the stop nothing is stored that nobody would read', async () => {
    await open.adapter.stop();
    await expect(say('hello')).rejects.toMatchObject({ code: 'not_ready', retryable: true });
    expect(await texts()).toEqual([]);
    expect(open.adapter.health()).toMatchObject({ connected: false, problem: 'not started' });
    expect(open.clock.pending()).toBe(0);
  });
});

describe('sending', () => {
  const button = { interactionId: 'i_1', choice: 'approve', label: 'Approve', style: 'danger' } as const;

  test('a message of ours stands once under its key, with its buttons', async () => {
    const { thread } = await say('@hermes hi');
    const card = outbound('r_1/card', 'Sure?', { place: group(thread), buttons: [button], input: { interactionId: 'i_1', label: 'Answer' }, quote: thread });
    const first = await open.adapter.send(card);
    expect(await open.adapter.send(card)).toEqual(first);
    expect(await open.server.messages({ channel: 'ops', thread })).toMatchObject([{ user: 'lin' }, { user: 'hermes', text: 'Sure?', thread, buttons: [button], input: { label: 'Answer' }, quote: thread }]);
    expect(await open.adapter.wasSent?.('r_1/card', group(thread))).toBe(first.platformMessageId);
    expect(await open.adapter.wasSent?.('r_1/other', group(thread))).toBeUndefined();
  });

  test('a post on the main level becomes the root of its own thread', async () => {
    const { platformMessageId } = await open.adapter.send(outbound('k', 'Release is out', { place: group('', 'all') }));
    expect(await open.server.messages({ channel: 'all' })).toMatchObject([{ thread: platformMessageId }]);
    expect((await say('great', { channel: 'all', thread: platformMessageId })).thread).toBe(platformMessageId);
  });

  test('a settled card takes the place of the question, buttons and all', async () => {
    const sent = await open.adapter.send(outbound('i_1/card', 'Sure?', { buttons: [button] }));
    await open.adapter.send(outbound('i_1/settled', 'Sure? ✔ Approved', { replacesKey: 'i_1/card' }), sent);
    await open.adapter.send(outbound('i_1/settled', 'Sure? ✔ Approved', { replacesKey: 'i_1/card' }), sent);
    const lines = await open.server.messages({ channel: 'ops' });
    expect(lines).toMatchObject([{ key: `console:local:ops:${sent.platformMessageId}`, text: 'Sure? ✔ Approved', settled: true }]);
    expect(lines[0]).not.toHaveProperty('buttons');
    expect(await open.adapter.wasSent?.('i_1/settled', group())).toBe(sent.platformMessageId);
  });

  test('a message whose predecessor is gone is posted anew', async () => {
    await open.adapter.send(outbound('k', 'here'), { platformMessageId: 'm_gone' });
    expect(await texts()).toEqual(['here']);
  });

  test('a channel that does not exist refuses for good', async () => {
    await expect(open.adapter.send(outbound('k', 'x', { place: group('', 'nowhere') }))).rejects.toMatchObject({ name: 'PlatformError', outcome: 'refused' });
  });

  test('a long answer is cut at 4,000, buttons last', async () => {
    const parts = open.adapter.split(outbound('k', 'word '.repeat(2000), { buttons: [button] }));
    expect(parts.map((part) => [part.key, part.buttons?.length])).toEqual([
      ['k', undefined],
      ['k#2', undefined],
      ['k#3', 1],
    ]);
  });
});

describe('progress', () => {
  const state = (text: string) => ({ key: 'r_1/progress', language: 'en', text, elapsedMs: 0 }) as const;

  test('one bubble is edited in place and finished by the answer', async () => {
    const live = await open.adapter.progress?.(group('m1'), state('Thinking… 1 s'));
    expect(await open.adapter.progress?.(group('m1'), state('Thinking… 4 s'))).toEqual(live);
    expect(await open.adapter.progress?.(group('m1'), state('Thinking… 7 s'), live)).toEqual(live);
    expect(await open.server.messages({ channel: 'ops' })).toMatchObject([{ text: 'Thinking… 7 s', progress: true }]);
    await open.clock.advance(1000);
    expect(await open.adapter.send(outbound('r_1/answer', '160'), live)).toEqual(live);
    const lines = await open.server.messages({ channel: 'ops' });
    expect(lines).toMatchObject([{ text: '160', at: '2026-01-05T09:00:01.000Z' }]);
    expect(lines[0]).not.toHaveProperty('progress');
    expect(lines[0]).not.toHaveProperty('edited');
  });

  test('a bubble that comes late does not undo the answer', async () => {
    const live = await open.adapter.progress?.(group('m1'), state('Thinking…'));
    await open.adapter.send(outbound('r_1/answer', '160'), live);
    await open.adapter.progress?.(group('m1'), state('Thinking… 4 s'), live);
    expect(await texts()).toEqual(['160']);
  });

  test('an answer that arrived beside its bubble takes the bubble away', async () => {
    await open.adapter.send(outbound('r_1/answer', '160'));
    const live = await open.adapter.progress?.(group('m1'), state('Thinking…'));
    await open.adapter.send(outbound('r_1/answer', '160'), live);
    expect(await texts()).toEqual(['160']);
  });

  test('a closed bubble is gone and may come back; an answer is never closed', async () => {
    const live = await open.adapter.progress?.(group('m1'), state('Thinking…'));
    if (live) await open.adapter.closeProgress?.(group('m1'), live);
    expect(await texts()).toEqual([]);
    const again = await open.adapter.progress?.(group('m1'), state('Thinking…'));
    const answer = await open.adapter.send(outbound('r_1/answer', '160'), again);
    await open.adapter.closeProgress?.(group('m1'), answer);
    expect(await texts()).toEqual(['160']);
  });
});

describe('looking', () => {
  test('history has the newest lines of the thread after the one that opened it, oldest first, without bubbles and deleted ones', async () => {
    const root = await say('@hermes one', { user: 'zhou' });
    const place = group(root.thread);
    await open.adapter.send(outbound('k', 'answer', { place }));
    const deleted = await say('two', { thread: root.thread });
    await open.server.deleteMessage(deleted.key, 'lin');
    await say('elsewhere');
    const third = await say('three', { thread: root.thread });
    await open.adapter.progress?.(place, { key: 'r_2/progress', language: 'en', text: 'Thinking…', elapsedMs: 0 });
    const all = await open.adapter.history?.(place, undefined, 10);
    expect(all?.map((line) => [line.by.name, line.text, line.ours])).toEqual([
      ['zhou', 'one', false],
      ['hermes', 'answer', true],
      ['lin', 'three', false],
    ]);
    expect((await open.adapter.history?.(place, undefined, 1))?.map((line) => line.text)).toEqual(['one', 'three']);
    expect((await open.adapter.history?.(place, root.thread, 10))?.map((line) => line.text)).toEqual(['answer', 'three']);
    expect(await open.adapter.history?.(place, idOf(third.key), 10)).toEqual([]);
  });

  test('long lists come whole, in order, and no longer than asked', async () => {
    for (let i = 0; i < 1203; i++) await open.storage.add({ messageId: `x${i}`, channel: 'ops', thread: 'x0', author: 'lin', text: String(i), mention: false, at: i });
    const numbers = (lines: readonly { text: string }[]) => lines.map((line) => Number(line.text));
    expect(numbers(await open.server.messages({ channel: 'ops' }))).toEqual(Array.from({ length: 1203 }, (_, i) => i));
    expect(numbers(await open.server.messages({ channel: 'ops', thread: 'x0', limit: 501 }))).toEqual(Array.from({ length: 501 }, (_, i) => 702 + i));
  });

  test('channels are found by exact id or name, with or without #', async () => {
    const ops = [{ id: 'ops', name: 'Ops 运维群' }];
    for (const name of ['ops', '#ops', 'Ops 运维群', '#Ops 运维群']) expect(await open.adapter.findChannels?.(name)).toEqual(ops);
    for (const name of ['Op', 'OPS', '运维群', '']) expect(await open.adapter.findChannels?.(name)).toEqual([]);
  });

  test('people of the console are members of its groups and of their own direct chat', async () => {
    const person = (id: string, isBot = false) => ({ id, isBot, external: false });
    expect(await open.adapter.isMember?.(person('console:local:lin'), 'ops')).toBe(true);
    expect(await open.adapter.isMember?.(person('console:local:lin'), '@lin')).toBe(true);
    expect(await open.adapter.isMember?.(person('console:local:zhou'), '@lin')).toBe(false);
    expect(await open.adapter.isMember?.(person('slack:T1:U1'), 'ops')).toBe(false);
    expect(await open.adapter.isMember?.(person('console:local:hermes', true), 'ops')).toBe(false);
  });

  test('configured channels take a new name at the next start', async () => {
    await say('hi', { channel: 'lab' });
    await open.storage.addChannels([{ id: 'lab', name: 'The lab' }], 5);
    expect(await open.adapter.findChannels?.('The lab')).toEqual([{ id: 'lab', name: 'The lab' }]);
  });

  test('health tells since when it is connected and when something last came and went', async () => {
    await open.clock.advance(1000);
    await say('hi');
    await open.clock.advance(1000);
    await open.adapter.send(outbound('k', 'hi'));
    expect(open.adapter.health()).toEqual({ connected: true, since: '2026-01-05T09:00:00.000Z', lastEventAt: '2026-01-05T09:00:01.000Z', lastSentAt: '2026-01-05T09:00:02.000Z' });
  });

  test('a listener is told of each change until it leaves, and one that fails disturbs nobody', async () => {
    const told: string[] = [];
    const leave = open.server.subscribe(({ channel, thread }) => told.push(`${channel}/${thread}`));
    open.server.subscribe(() => {
      throw new Error('a listener broke');
    });
    const { key, thread } = await say('one');
    const sent = await open.adapter.send(outbound('k', 'two', { place: group(thread) }));
    await open.server.editMessage(key, 'lin', 'uno');
    await open.server.deleteMessage(key, 'lin');
    leave();
    await open.adapter.send(outbound('k', 'due'), sent);
    expect(told).toEqual(Array(4).fill(`ops/${thread}`));
  });
});
