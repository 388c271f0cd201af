/** The platform was called and nobody knows what came of it: what is repeated, what is not, and how that shows. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { splitText } from '../../src/adapters/shared/split.ts';
import type { Capabilities } from '../../src/adapters/types.ts';
import { PlatformError } from '../../src/errors.ts';
import { idle, inThread, lin, runsOf } from '../behaviour/fixtures.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { Team, until } from '../fakes/team.ts';
import { auditOf, inTurn, outboxOf } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let thread: string;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

const mark = { en: '_(possibly a repeat: I could not tell whether the first attempt arrived)_', zh: '_（可能是重复消息：无法确认上一次是否送达）_' };
const busy = new PlatformError('overloaded', 'come back later', { outcome: 'retry' });
const noAnswer = new PlatformError('timeout', 'no answer', { outcome: 'unknown' });
const cannotBeAsked: Partial<Capabilities> = { askWhetherSent: false, idempotentSend: false };

type Fate = ReturnType<Team['platform']['onSend']>;

/** An answer whose attempts to be sent meet these fates one after the other. */
async function answered(can: Partial<Capabilities>, fates: readonly Fate[], options: { text?: string; config?: string } = {}): Promise<void> {
  team = await Team.start({ clock, can: { progress: false, ...can }, config: options.config ?? 'language: en', script: inTurn({ text: options.text ?? 'Hello.' }) });
  team.platform.onSend = (_message, count) => fates[count - 1];
  const asked = team.platform.say(lin, 'hi');
  thread = asked.place.thread;
  await team.submit(asked);
  await until('the end', async () => (await runsOf(team))[0]?.status === 'completed');
  await clock.advance(60_000);
}

describe('an answer whose first attempt has no outcome', () => {
  it('is not posted again where the platform says that it arrived', async () => {
    await answered({ askWhetherSent: true }, ['lost']);
    expect(inThread(team, thread)).toEqual(['Hello.']);
    expect(team.platform.sends).toBe(1);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'delivered' }]);
  });

  it('is posted again, unmarked, where the platform says that it did not arrive', async () => {
    await answered({ askWhetherSent: true }, [noAnswer]);
    expect(inThread(team, thread)).toEqual(['Hello.']);
    expect(team.platform.sends).toBe(2);
  });

  it('is sent again under the same key where the platform takes a key once', async () => {
    await answered({ askWhetherSent: false, idempotentSend: true }, ['lost']);
    expect(inThread(team, thread)).toEqual(['Hello.']);
    expect(team.platform.sends).toBe(2);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'delivered' }]);
  });

  it.each(['en', 'zh'] as const)('is repeated once where nothing can be asked, and says so (%s)', async (language) => {
    await answered(cannotBeAsked, ['lost'], { config: `language: ${language}` });
    expect(inThread(team, thread)).toEqual(['Hello.', `Hello.\n\n${mark[language]}`]);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'delivered' }]);
  });

  it('is repeated once also when the platform had refused an attempt before', async () => {
    await answered(cannotBeAsked, [busy, 'lost']);
    expect(inThread(team, thread)).toEqual(['Hello.', `Hello.\n\n${mark.en}`]);
  });

  it('still counts as a repeat when the platform refuses the repeat for a while', async () => {
    await answered(cannotBeAsked, ['lost', busy, busy]);
    expect(inThread(team, thread)).toEqual(['Hello.', `Hello.\n\n${mark.en}`]);
  });

  it('is not repeated a second time: it is recorded as unknown, and the asker is told where to look', async () => {
    await answered(cannotBeAsked, ['lost', 'lost']);
    expect(inThread(team, thread)).toEqual(['Hello.', `Hello.\n\n${mark.en}`]);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'unknown' }]);
    expect(team.platform.texts('D_lin')).toEqual(['I could not tell whether my message to #ops arrived, and did not repeat it. Please look there.']);
    expect((await auditOf(team)).filter((entry) => entry.kind === 'delivery_failed')).toMatchObject([{ data: { state: 'unknown' } }]);
  });

  it('because the platform hangs counts as such after half a minute', async () => {
    team = await Team.start({ clock, can: { progress: false }, script: inTurn({ text: 'Hello.' }) });
    const { adapter } = team.connection;
    const { send } = adapter;
    let hung = 0;
    adapter.send = (part, live) => (hung++ === 0 ? new Promise(() => {}) : send.call(adapter, part, live));
    const asked = team.platform.say(lin, 'hi');
    await team.submit(asked);
    await until('the attempt', () => hung === 1);
    await clock.advance(29_000);
    expect(team.platform.texts()).toEqual([]);
    await clock.advance(5000);
    expect(team.platform.texts()).toEqual(['Hello.']);
  });

  it('while the platform cannot even be asked waits until it can', async () => {
    team = await Team.start({ clock, can: { progress: false }, script: inTurn({ text: 'Hello.' }) });
    const { adapter } = team.connection;
    const { wasSent } = adapter;
    let asked = 0;
    adapter.wasSent = (key, place) => (++asked < 3 ? Promise.reject(new Error('not now')) : (wasSent?.call(adapter, key, place) ?? Promise.resolve(undefined)));
    team.platform.onSend = (_message, count) => (count === 1 ? 'lost' : undefined);
    await team.say(lin, 'hi');
    await clock.advance(60_000);
    expect({ posted: team.platform.texts(), sends: team.platform.sends, asked }).toEqual({ posted: ['Hello.'], sends: 1, asked: 3 });
  });
});

describe('an answer in several parts', () => {
  const text = Array.from({ length: 40 }, (_, n) => `Line ${n} of the answer, long enough to count.`).join('\n');
  const parts = () => inThread(team, thread);
  const whole = () => parts().join('');

  it('refused in the middle goes on with the part that is missing', async () => {
    await answered({ lengthLimit: 400 }, [undefined, undefined, busy, busy], { text });
    expect(whole()).toBe(text);
    expect(team.platform.sends).toBe(parts().length + 2);
  });

  it('refused in the middle for good stops there, and the asker is told', async () => {
    await answered({ lengthLimit: 400 }, [undefined, new PlatformError('msg_blocked', 'not this', { outcome: 'refused' })], { text });
    expect(parts()).toHaveLength(1);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'failed' }]);
    expect(team.platform.texts('D_lin')).toHaveLength(1);
  });

  /** What was posted but for the mark: each part in its place, those that were lost twice. */
  const posted = () =>
    parts()
      .map((part) => part.replace(mark.en, '').trimEnd())
      .filter(Boolean)
      .join('\n')
      .trimEnd();

  it.each([
    { fates: [undefined, 'lost'], repeated: [1] },
    { fates: [undefined, 'lost', undefined, undefined, 'lost'], repeated: [1, 2] },
  ] as const)('lost in the middle repeats only the parts that were lost, each once and marked', async ({ fates, repeated }) => {
    const pieces = splitText(text, { limit: 400, unit: 'utf16' }).map((piece) => piece.trimEnd());
    await answered({ lengthLimit: 400, ...cannotBeAsked }, fates, { text });
    expect(posted()).toBe(pieces.flatMap((piece, index) => (repeated.includes(index as never) ? [piece, piece] : [piece])).join('\n'));
    expect(parts().filter((part) => part.includes(mark.en))).toHaveLength(repeated.length);
    expect(await runsOf(team)).toMatchObject([{ delivery: 'delivered' }]);
  });

  it.each([1, 2, 3])('goes on after part %i when the process is killed right after it', async (killedAfter) => {
    team = await Team.start({ clock, can: { progress: false, lengthLimit: 400 }, script: inTurn({ text }) });
    let isDead = false;
    team.onCommit = () => {
      if (isDead || team.platform.ours().length < killedAfter) return;
      isDead = true;
      throw new Error('killed');
    };
    const asked = team.platform.say(lin, 'hi');
    thread = asked.place.thread;
    await team.submit(asked);
    await until('the end of the process', () => isDead);
    await team.kill();
    const arrived = parts().length;
    expect(arrived).toBe(killedAfter);
    await team.start();
    await idle(team);
    expect(whole()).toBe(text);
    expect(team.platform.sends).toBe(parts().length);
    expect((await outboxOf(team)).map((row) => row.state)).toEqual(['sent']);
  });
});
