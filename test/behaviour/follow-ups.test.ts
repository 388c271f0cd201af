import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PersonRef } from '../../src/adapters/types.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { Team } from '../fakes/team.ts';
import { idle, lin, saidIn, zhou } from './fixtures.ts';

const minute = 60_000;
let team: Team;
let clock: FakeClock;
let thread: string;
beforeEach(() => {
  clock = fakeClock();
});
afterEach(() => team.end());

/** 林一 has asked in a thread, and was answered a moment ago. */
async function answered(followUp?: string): Promise<void> {
  team = await Team.start({ clock, config: followUp ? `agent: { follow_up: ${followUp} }` : '', script: () => ({ text: 'Done.' }) });
  const asked = team.platform.say(lin, 'one');
  thread = asked.place.thread;
  await team.submit(asked);
  await idle(team);
}

/** What became of a message: how many runs there are besides the first, and the reason in the inbox when it was ignored. */
async function outcomeOf(by: PersonRef, text: string, options: { mentions?: PersonRef[]; mention?: boolean; thread?: string } = {}): Promise<string> {
  const event = team.platform.say(by, text, { thread, ...options });
  await team.submit(event);
  await idle(team);
  const row = await team.store.db.selectFrom('inbox').select(['outcome', 'reason']).where('message_key', '=', event.key).executeTakeFirstOrThrow();
  return row.reason === null ? row.outcome : `${row.outcome}: ${row.reason}`;
}

describe('a message without a mention, in the thread', () => {
  it('of the person the bot just answered is the next request, with the earlier context', async () => {
    await answered();
    expect(await outcomeOf(lin, '那明天呢？')).toBe('started');
    const last = team.requests.at(-1);
    expect(last && saidIn(last)).toEqual([expect.stringMatching(/one[\s\S]*Done\./), '那明天呢？']);
  });

  it('of that person counts for 30 minutes after the last post of the bot, and not a moment longer', async () => {
    await answered();
    await clock.advance(30 * minute);
    expect(await outcomeOf(lin, 'and tomorrow?')).toBe('started');
    await clock.advance(30 * minute + 1);
    expect(await outcomeOf(lin, 'and the day after?')).toBe('ignored: no mention');
    expect(await outcomeOf(lin, 'and the day after?', { mention: true })).toBe('started');
  });

  it('of that person to somebody else is none of ours, unless it mentions the bot too', async () => {
    await answered();
    expect(await outcomeOf(lin, '你看看这个', { mentions: [zhou] })).toBe('ignored: addresses somebody else');
    expect(await outcomeOf(lin, 'both of you', { mentions: [zhou], mention: true })).toBe('started');
  });

  it('of anybody else is ignored', async () => {
    await answered();
    expect(await outcomeOf(zhou, 'good to know')).toBe('ignored: no mention');
  });

  it('follows whoever asked last', async () => {
    await answered();
    expect(await outcomeOf(zhou, 'and me?', { mention: true })).toBe('started');
    expect(await outcomeOf(zhou, 'thanks, and tomorrow?')).toBe('started');
    expect(await outcomeOf(lin, 'hello?')).toBe('ignored: no mention');
  });

  it('of another bot is ignored, with a mention too', async () => {
    await answered();
    expect(await outcomeOf({ ...zhou, isBot: true }, 'build failed', { mention: true })).toBe('ignored: a bot');
  });
});

describe('a message without a mention, elsewhere', () => {
  it('on the main level of the channel is ignored, right after an answer too', async () => {
    await answered();
    const event = team.platform.say(lin, 'good morning', { mention: false });
    await team.submit(event);
    await idle(team);
    expect(team.requests).toHaveLength(1);
  });

  it('in another thread is ignored', async () => {
    await answered();
    expect(await outcomeOf(lin, 'good morning', { thread: 'm0999' })).toBe('ignored: no mention');
  });
});

describe('agent.follow_up', () => {
  it('mention: nothing but a mention starts a run', async () => {
    await answered('mention');
    expect(await outcomeOf(lin, 'and tomorrow?')).toBe('ignored: no mention');
    expect(await outcomeOf(lin, 'and tomorrow?', { mention: true })).toBe('started');
  });

  it('thread: everybody in the thread may go on, for the same 30 minutes', async () => {
    await answered('thread');
    expect(await outcomeOf(zhou, 'and tomorrow?')).toBe('started');
    expect(await outcomeOf(zhou, 'you there', { mentions: [lin] })).toBe('ignored: addresses somebody else');
    expect(await outcomeOf(zhou, 'hello', { thread: 'm0999' })).toBe('ignored: no mention');
    await clock.advance(30 * minute + 1);
    expect(await outcomeOf(zhou, 'and the day after?')).toBe('ignored: no mention');
  });
});
