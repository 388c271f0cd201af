/** The page in a browser: what people see and press. */
import chromium from '@sparticuz/chromium';
import { type Browser, type Page, chromium as playwright } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { findOrCreateConversation } from '../src/store/conversations.ts';
import { insertInteraction } from '../src/store/interactions.ts';
import { group, messagesOf, type OpenConsole, openConsole, openWeb, outbound, start, type Web } from './fakes/console.ts';

let browser: Browser | undefined;
let why = '';
let open: OpenConsole;
let web: Web;
let page: Page;
const problems: string[] = [];

beforeAll(async () => {
  try {
    browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: ['--no-sandbox', '--disable-gpu'], headless: true });
  } catch (error) {
    why = `no browser can be started here: ${String(error).split('\n')[0]}`;
  }
});
afterAll(() => browser?.close());

beforeEach(async ({ skip }) => {
  if (!browser) return skip(why);
  open = await openConsole();
  await start(open.adapter, open.agent);
  // Pings must come by themselves here; nothing waits for one.
  web = await openWeb({ ...open, clock: { ...open.clock, setTimer: systemClock.setTimer } });
  page = await browser.newPage({ viewport: { width: 390, height: 800 } });
  problems.length = 0;
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(String(error)));
  await page.goto(web.url);
  await page.waitForSelector('.connection.on');
});
afterEach(async () => {
  if (!browser) return;
  await page.close();
  await web.close();
  await open.close();
});

const thread = () => messagesOf(open.agent).at(-1)?.place.thread ?? '';
const lines = () => page.locator('.line .text').allTextContents();

/** The row of an open question, as the agent writes it. */
async function opened(threadId: string): Promise<void> {
  await open.store.transact(async (tx) => {
    const conversation = await findOrCreateConversation(tx, group(threadId), 0);
    const interaction = { id: 'i_1', kind: 'approval', code: 'K7QP', question: '', options: [], sha: '', mayAnswer: { kind: 'asker' }, needed: 1, expiresInMs: 1000 } as const;
    await tx
      .insertInto('runs')
      .values({
        id: 'r_1',
        conversation_id: conversation.id,
        lane: 'x',
        status: 'suspended',
        version: 0,
        head: '',
        owner: null,
        lease_until: null,
        recoveries: 0,
        trigger_kind: 'mention',
        message_key: null,
        asker: '',
        input_tokens: 0,
        output_tokens: 0,
        delivery: null,
        created_at: 0,
        started_at: null,
        ended_at: null,
      })
      .execute();
    await insertInteraction(tx, { interaction, runId: 'r_1', conversationId: conversation.id, place: group(threadId), at: 0 });
  });
}

describe('the page', () => {
  test('an example is one click, and the answer appears by itself in the bubble', async () => {
    await page.click('.example >> nth=0');
    await page.waitForSelector('.line.root');
    expect(messagesOf(open.agent)).toMatchObject([{ mentionsBot: true, content: [{ text: '(13+27)*4' }], author: { id: 'console:local:lin' } }]);
    const live = await open.adapter.progress?.(group(thread()), { key: 'r/progress', language: 'en', text: 'Calculating…', elapsedMs: 0 });
    await page.waitForSelector('.progress');
    await open.adapter.send(outbound('r/answer', '160', { place: group(thread()) }), live);
    await page.waitForSelector('.ours:not(.progress)');
    expect(await lines()).toEqual(['@hermes (13+27)*4', '160']);
    expect(problems).toEqual([]);
  });

  test('whatever anybody writes is text', async () => {
    const evil = '<img src=x onerror="document.title=1"><script>document.title=2</script> **b**\n\u202eabc';
    await page.fill('#text', evil);
    await page.uncheck('#mention');
    await page.click('#composer button');
    await page.waitForSelector('.line.root');
    await open.adapter.send(outbound('r/answer', evil, { place: group(thread()) }));
    await page.waitForSelector('.ours');
    expect(await lines()).toEqual([evil, evil.replace('**b**', 'b')]);
    expect(await page.locator('main img, main script').count()).toBe(0);
    expect(await page.title()).toBe('hermes · Console');
    expect(problems).toEqual([]);
  });

  test('a card is pressed once, a private notice goes to who pressed, and a settled card has no buttons', async () => {
    await page.fill('#text', 'tell #all: lunch');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.line.root');
    await opened(thread());
    const buttons = [
      { interactionId: 'i_1', choice: 'approve', label: 'Approve', style: 'danger' },
      { interactionId: 'i_1', choice: 'deny', label: 'Deny' },
    ] as const;
    const sent = await open.adapter.send(outbound('i_1/card', 'Sure?', { place: group(thread()), buttons }));
    await page.waitForSelector('button.danger');
    for (const button of await page.locator('button:visible').all()) expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(44);
    open.agent.answer = () => ({ state: 'not_entitled', notice: 'This is for lin.' });
    await page.selectOption('#user', 'zhou');
    await page.click('button.danger');
    await page.waitForSelector('.notice.private');
    expect(await page.locator('.notice p').textContent()).toBe('Only zhou 周周 sees this: This is for lin.');
    await open.adapter.send(outbound('i_1/settled', 'Sure? ✔ Approved', { place: group(thread()), replacesKey: 'i_1/card' }), sent);
    await page.waitForSelector('.settled');
    expect(await page.locator('.buttons').count()).toBe(0);
    expect(open.agent.events.at(-1)).toMatchObject({ type: 'reply', by: { id: 'console:local:zhou' }, choice: 'approve' });
    expect(problems).toEqual([]);
  });

  test('words answer exactly the question they stand under, and half-written ones survive what happens meanwhile', async () => {
    await page.fill('#text', 'deploy');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.line.root');
    const asked = thread();
    await opened(asked);
    await open.adapter.send(outbound('i_1/card', 'Where to?', { place: group(asked), input: { interactionId: 'i_1', label: 'Your answer' } }));
    await page.fill('.answer textarea', 'to the');
    await open.server.postMessage({ channel: 'ops', user: 'zhou', text: 'not on Friday', thread: asked });
    await page.waitForSelector('text=not on Friday');
    await page.locator('.answer textarea').press('End');
    await page.keyboard.type(' test system');
    await page.keyboard.press('Enter');
    await page.waitForFunction("document.querySelector('.answer textarea').value === ''");
    expect(open.agent.events.at(-1)).toMatchObject({ type: 'reply', interactionId: 'i_1', by: { id: 'console:local:lin' }, text: 'to the test system' });
    expect(problems).toEqual([]);
  });

  test('Enter that an input method needs for itself sends nothing', async () => {
    await page.fill('#text', 'ni hao');
    await page.locator('#text').dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true });
    await page.locator('#text').press('Shift+Enter');
    expect(messagesOf(open.agent)).toEqual([]);
    expect(await page.inputValue('#text')).toBe('ni hao\n');
  });

  test('it fits a narrow screen, in Chinese too, and a direct chat is one list without threads', async () => {
    await page.goto(`${web.url}/?lang=zh`);
    await page.waitForSelector('.connection.on');
    await page.click('.channels li:last-child a');
    await page.waitForSelector('text=这里的内容只有你和 hermes 能看到');
    await page.fill('#text', '你好');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.line');
    expect(messagesOf(open.agent)).toMatchObject([{ place: { channel: '@lin', thread: '', audience: 'direct' }, mentionsBot: true }]);
    expect(await page.locator('.below').count()).toBe(0);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    expect(problems).toEqual([]);
  });
});
