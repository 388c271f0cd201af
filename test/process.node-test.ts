/** The real process on the real Node, so that what runs is what ships: types stripped, no transform, SIGTERM and kill -9. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { dataFolder, HermesProcess, killLeftovers } from './fakes/process.ts';

afterEach(killLeftovers);

test('a mention is answered with a tool, and SIGTERM ends the process with exit code 0', async () => {
  const data = dataFolder();
  const hermes = await HermesProcess.start({ data: data.path });
  const { thread } = await hermes.say({ channel: 'ops', user: 'lin', text: '@hermes (13+27)*4' });
  const answer = await hermes.waitFor('ops', thread, (line) => line.text.includes('160'));
  assert.match(answer.text, /demo model|演示模型/);
  assert.equal(await hermes.terminate(), 0);
  data.remove();
});

test('a question and a confirmation outlive kill -9, and a second press changes nothing', async () => {
  const data = dataFolder();
  let hermes = await HermesProcess.start({ data: data.path });
  const deploy = await hermes.say({ channel: 'ops', user: 'lin', text: '@hermes deploy the new version' });
  const notify = await hermes.say({ channel: 'ops', user: 'lin', text: '@hermes tell #all: lunch at noon' });
  const asked = (thread: string) => hermes.waitFor('ops', thread, (line) => (line.buttons?.length ?? 0) > 0);
  await Promise.all([asked(deploy.thread), asked(notify.thread)]);
  await hermes.kill();

  hermes = await HermesProcess.start({ data: data.path });
  const question = await asked(deploy.thread);
  await hermes.say({ channel: 'ops', user: 'lin', text: 'production', thread: deploy.thread });
  await hermes.waitFor('ops', deploy.thread, (line) => line.buttons === undefined && /production/i.test(line.text) && line.key !== question.key);
  const card = await asked(notify.thread);
  assert.equal((await hermes.press(card, 'Approve', 'zhou')).state, 'not_entitled');
  assert.equal((await hermes.press(card, 'Approve', 'lin')).state, 'accepted');
  assert.equal((await hermes.press(card, 'Approve', 'lin')).state, 'already_decided');
  await hermes.waitFor('all', undefined, (line) => line.text.startsWith('lunch at noon'));
  await hermes.kill();

  hermes = await HermesProcess.start({ data: data.path });
  await hermes.waitFor('ops', notify.thread, (line) => line.text.includes('demo model') && line.buttons === undefined);
  const posted = (await hermes.messages('all')).filter((line) => line.text.startsWith('lunch at noon'));
  assert.equal(posted.length, 1);
  const { body } = await hermes.request('GET', '/api/runs');
  assert.deepEqual(
    (body as { runs: { status: string }[] }).runs.map((run) => run.status),
    ['completed', 'completed'],
  );
  assert.equal(await hermes.terminate(), 0);
  data.remove();
});

test('a second process on the same data waits, opens no port, and takes over', async () => {
  const data = dataFolder();
  const first = await HermesProcess.start({ data: data.path });
  const waits = Promise.withResolvers<void>();
  let ready = false;
  const second = HermesProcess.start({ data: data.path, onOutput: (all) => all.includes('stands by') && waits.resolve() });
  second.then(
    () => (ready = true),
    (error: unknown) => waits.reject(error),
  );
  await waits.promise;
  const { thread } = await first.say({ channel: 'ops', user: 'lin', text: '@hermes deploy it' });
  await first.waitFor('ops', thread, (line) => line.buttons !== undefined);
  assert.equal(ready, false);
  await first.kill();
  const successor = await second;
  await successor.waitFor('ops', thread, (line) => line.buttons !== undefined);
  assert.equal(await successor.terminate(), 0);
  data.remove();
});
