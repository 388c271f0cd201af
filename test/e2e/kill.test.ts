/** What a person in a browser sees when the process is killed in the middle: the real process, the real page, kill -9. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import chromium from '@sparticuz/chromium';
import { type Browser, type Page, chromium as playwright } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dataFolder, HermesProcess, killLeftovers } from '../fakes/process.ts';

let browser: Browser | undefined;
let why = '';
const data = dataFolder();
/** Where `HERMES_SCREENSHOTS` asks for pictures. */
const pictures = process.env.HERMES_SCREENSHOTS;

beforeAll(async () => {
  try {
    browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: ['--no-sandbox', '--disable-gpu'], headless: true });
  } catch (error) {
    why = `no browser can be started here: ${String(error).split('\n')[0]}`;
  }
});
afterAll(async () => {
  killLeftovers();
  await browser?.close();
  data.remove();
});

async function picture(page: Page, name: string): Promise<void> {
  if (pictures === undefined) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

async function ask(page: Page, text: string): Promise<void> {
  await page.fill('#text', text);
  await page.click('#composer button');
}

test('a tool, a question and a confirmation in the browser, with the process killed at each of them', { timeout: 60_000 }, async ({ skip }) => {
  if (!browser) return skip(why);
  let hermes = await HermesProcess.start({ data: data.path });
  const { port } = hermes;
  const restart = async (page: Page) => {
    await hermes.kill();
    await page.waitForSelector('.connection:not(.on)');
    hermes = await HermesProcess.start({ data: data.path, port });
    await page.waitForSelector('.connection.on');
  };
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
  await page.goto(hermes.address);
  await page.waitForSelector('.connection.on');

  await ask(page, 'work out (13+27)*4 and tell #all the result');
  await page.waitForSelector('button:has-text("Approve")');
  await picture(page, 'confirmation');
  await restart(page);

  await ask(page, '部署新版本');
  await page.waitForSelector('button:has-text("预发")');
  await restart(page);
  await picture(page, 'both-wait-after-the-restart');

  await page.dblclick('button:has-text("预发")');
  await page.waitForSelector('.line:has-text("lin answered")');
  await page.dblclick('button:has-text("Approve")');
  await page.waitForSelector('.line:has-text("Approved by")');
  await restart(page);
  await picture(page, 'receipts');

  const posted = await hermes.waitFor('all', undefined, (line) => line.text.includes('160'));
  expect((await hermes.messages('all')).filter((line) => line.user === 'hermes')).toHaveLength(1);
  expect(posted.text).toContain('from #ops');
  await hermes.waitFor('ops', undefined, (line) => line.text.includes('—— 演示模型') && line.text.includes('预发'));
  const { body } = await hermes.request('GET', '/api/runs');
  expect((body as { runs: { status: string }[] }).runs.map((run) => run.status)).toEqual(['completed', 'completed']);
  await page.close();
  expect(await hermes.terminate()).toBe(0);
});
