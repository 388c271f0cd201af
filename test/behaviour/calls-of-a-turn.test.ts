import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlatformError } from '../../src/errors.ts';
import { type FakeClock, fakeClock } from '../fakes/clock.ts';
import { purgeTool, Team, until } from '../fakes/team.ts';
import { found, type HeldCall, heldTool, idle, inThread, lastSaid, lin, postsIn, resultsIn, runsOf, stepsOf, zhou } from './fixtures.ts';

let team: Team;
let clock: FakeClock;
let calls: HeldCall[];
let purged: string[];
let thread: string;
beforeEach(() => {
  clock = fakeClock();
  calls = [];
  purged = [];
});
afterEach(() => team.end());

type Wanted = readonly [name: string, args: unknown];
const look = (note: string): Wanted => ['look', { note }];
const save = (note: string): Wanted => ['save', { note }];
const purge = (table: string): Wanted => ['purge_records', { table }];
const which: Wanted = ['clarify', { question: 'Which one?', options: ['red', 'blue'] }];

/** One turn with these calls; the next reply is the answer. `look` reads, `save` changes something, `purge_records` cannot be undone. */
async function turn(...wanted: Wanted[]): Promise<void> {
  team = await Team.start({
    clock,
    tools: [heldTool('look', calls), heldTool('save', calls, 1), purgeTool(purged)],
    script: (request) => (request.messages.some((m) => m.role === 'tool') || lastSaid(request) !== 'go' ? { text: 'Done.' } : { calls: wanted.map(([name, args]) => ({ name, args })) }),
  });
  const asked = team.platform.say(lin, 'go');
  thread = asked.place.thread;
  await team.submit(asked);
}

const begun = (): string[] => calls.map((call) => call.note);
const finish = (note: string): void => calls.find((call) => call.note === note)?.open(found(`result of ${note}`));
/** Waits for these calls to have begun, and lets pass what would make another one begin. */
async function onlyBegun(...notes: string[]): Promise<void> {
  await until(`${notes.join(' and ')} to begin`, () => calls.length >= notes.length);
  await clock.advance(5000);
  expect(begun()).toEqual(notes);
}

describe('calls of one turn', () => {
  it('that only read run side by side, and the model reads the results in the order of its calls', async () => {
    await turn(look('a'), look('b'), look('c'));
    await onlyBegun('a', 'b', 'c');
    for (const note of ['c', 'a', 'b']) {
      finish(note);
      await until(`the result of ${note} on record`, async () => (await stepsOf(team)).some((step) => step.type === 'tool_finished' && step.result.content === `result of ${note}`));
    }
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual(['result of a', 'result of b', 'result of c']);
    expect(team.requests).toHaveLength(2);
  });

  it('that change something wait for earlier ones at work, and later ones wait for them', async () => {
    await turn(look('a'), save('b'), look('c'), save('d'));
    await onlyBegun('a');
    finish('a');
    await onlyBegun('a', 'b');
    finish('b');
    await onlyBegun('a', 'b', 'c');
    finish('c');
    await onlyBegun('a', 'b', 'c', 'd');
    finish('d');
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual(['result of a', 'result of b', 'result of c', 'result of d']);
  });

  it('that change something do not wait for earlier ones still being asked about', async () => {
    await turn(purge('logs'), save('b'));
    await onlyBegun('b');
    await until('the card', () => postsIn(team, thread)[0]?.buttons);
    finish('b');
    await until('the run waits for the card alone', async () => (await runsOf(team))[0]?.status === 'suspended');
    const approve = team.button('Approve');
    await team.press(approve.interactionId, approve.choice, lin);
    await idle(team);
    expect({ purged, results: resultsIn(team.requests[1]) }).toEqual({ purged: ['logs'], results: ['Purged logs.', 'result of b'] });
  });

  it('that need a person are asked about at once, and an open question holds up nothing that reads', async () => {
    await turn(which, purge('logs'), look('c'));
    await onlyBegun('c');
    await until('both cards', () => postsIn(team, thread).length === 2);
    await team.say(lin, 'blue', { thread });
    await until('the question is settled', () => postsIn(team, thread)[0]?.text.includes('blue**'));
    // One card is open and one call at work: the model is not asked before both are over.
    await onlyBegun('c');
    expect(team.requests).toHaveLength(1);
    finish('c');
    const deny = team.button('Deny');
    await team.press(deny.interactionId, deny.choice, lin);
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual(['林一 answered: blue', expect.stringContaining('declined'), 'result of c']);
  });

  it('approved while another one is at work waits for it', async () => {
    await turn(look('a'), purge('logs'));
    await onlyBegun('a');
    await until('the card', () => postsIn(team, thread)[0]?.buttons);
    const approve = team.button('Approve');
    await team.press(approve.interactionId, approve.choice, lin);
    await onlyBegun('a');
    expect(purged).toEqual([]);
    finish('a');
    await until('the approved call', () => purged.length === 1);
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual(['result of a', 'Purged logs.']);
  });

  it('with arguments that do not fit get that as their result, and the others run', async () => {
    await turn(['look', { note: [] }], ['nothing_like_it', {}], look('c'));
    await onlyBegun('c');
    finish('c');
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual([expect.stringContaining('The arguments do not fit: note'), expect.stringContaining('There is no tool called "nothing_like_it"'), 'result of c']);
  });
});

describe('a call whose arguments have to be looked up first', () => {
  it.each([
    { problem: 'hangs', resolve: () => new Promise<never>(() => {}), said: 'within 10 s' },
    { problem: 'fails', resolve: () => Promise.reject(new PlatformError('ratelimited', 'slow down', { outcome: 'retry' })), said: 'at the moment (ratelimited)' },
  ])('is refused when the look-up $problem, and the model reads why', async ({ resolve, said }) => {
    const tools = [{ ...heldTool('look', calls), resolve }];
    team = await Team.start({ clock, tools, script: (request) => (request.messages.some((m) => m.role === 'tool') ? { text: 'Not done.' } : { calls: [{ name: 'look', args: {} }] }) });
    await team.say(lin, 'go');
    await until('the request', () => team.requests.length >= 1);
    await clock.advance(10_000);
    await idle(team);
    expect(resultsIn(team.requests[1])).toEqual([`Not executed: what the arguments of look mean could not be looked up ${said}. Try it once more, or say what was not done.`]);
    expect({ calls, texts: team.platform.texts(), logged: team.logged }).toEqual({ calls: [], texts: ['Not done.'], logged: [] });
  });
});

describe('a call that never returns', () => {
  it('is stopped after 30 seconds: the model reads the other results and a time-out, and the person gets an answer', async () => {
    await turn(look('a'), look('hangs'), look('c'));
    await until('the calls', () => calls.length === 3);
    await clock.advance(1000);
    finish('a');
    finish('c');
    await clock.advance(28_999);
    expect({ requests: team.requests.length, told: calls[1]?.signal.aborted }).toEqual({ requests: 1, told: false });
    await clock.advance(1);
    await until('the answer', () => inThread(team, thread).includes('Done.'));
    expect(calls[1]?.signal.aborted).toBe(true);
    expect(resultsIn(team.requests[1])).toEqual(['result of a', 'look did not finish within 30 s and was stopped. Try it once more with a smaller request, or go on without it.', 'result of c']);
  });

  it('delays nobody in another thread', async () => {
    await turn(look('hangs'));
    await until('the call', () => calls.length === 1);
    const other = team.platform.say(zhou, 'hello');
    await team.submit(other);
    await until('the answer there', () => inThread(team, other.place.thread).includes('Done.'));
    expect(await runsOf(team)).toMatchObject([{ status: 'running' }, { status: 'completed' }]);
  });

  it('may return or fail later without changing anything', async () => {
    await turn(look('returns'), look('fails'));
    await until('the calls', () => calls.length === 2);
    await clock.advance(30_000);
    await idle(team);
    const steps = await stepsOf(team);
    finish('returns');
    calls[1]?.open(Promise.reject(new Error('too late')) as never);
    await clock.advance(60_000);
    expect(await stepsOf(team)).toEqual(steps);
    expect(inThread(team, thread)).toEqual(['Done.']);
  });

  it('is not repeated by itself; the model may call it again', async () => {
    team = await Team.start({ clock, tools: [heldTool('look', calls)], script: (request) => (resultsIn(request).length < 2 ? { calls: [{ name: 'look', args: {} }] } : { text: 'Gave up.' }) });
    await team.say(lin, 'go');
    for (const n of [1, 2]) {
      await until(`call ${n}`, () => calls.length === n);
      await clock.advance(30_000);
    }
    await idle(team);
    expect({ calls: calls.length, texts: team.platform.texts() }).toEqual({ calls: 2, texts: ['Gave up.'] });
  });
});
