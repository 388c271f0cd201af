/** A long answer without a single space, through the real process and the console. */
import { afterAll, expect, test } from 'vitest';
import { startFakeLlm, text } from '../fakes/llm.ts';
import { dataFolder, HermesProcess, killLeftovers } from '../fakes/process.ts';

const data = dataFolder();
afterAll(() => {
  killLeftovers();
  data.remove();
});

test('arrives whole on the console: no character is torn, every emoji is there', { timeout: 30_000 }, async () => {
  const answer = 'a'.repeat(1999) + '😀'.repeat(3000);
  const llm = await startFakeLlm([text(answer)]);
  const hermes = await HermesProcess.start({ data: data.path, env: { OPENAI_BASE_URL: llm.url, HERMES_MODEL: 'm' } });
  const { thread } = await hermes.say({ channel: 'ops', user: 'lin', text: '@hermes 给我三千个笑脸' });
  await hermes.waitFor('ops', thread, (line) => line.text.endsWith('😀') && line.text.length < 4000);
  const parts = (await hermes.messages('ops', thread)).filter((line) => line.user === 'hermes').map((line) => line.text);
  expect(parts.length).toBeGreaterThan(1);
  for (const part of parts) expect([part.isWellFormed(), part.includes('\ufffd'), part.length <= 4000]).toEqual([true, false, true]);
  const emoji = parts.reduce((sum, part) => sum + (part.match(/😀/gu)?.length ?? 0), 0);
  expect(emoji).toBe(3000);
  expect(llm.requests.every(({ body }) => JSON.stringify(body).isWellFormed())).toBe(true);
  await hermes.terminate();
  await llm.close();
});
