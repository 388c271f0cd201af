import { afterEach, describe, expect, it } from 'vitest';
import { person } from './fakes/platform.ts';
import { purgeTool, Team, until } from './fakes/team.ts';

const lin = person('lin', '林一');
let team: Team;
afterEach(() => team.end());

describe('a mention', () => {
  it('is answered once, in its thread', async () => {
    team = await Team.start({ script: () => ({ text: 'Hello.' }) });
    const event = team.platform.say(lin, 'hi');
    await team.submit(event);
    await until('answer', () => team.platform.texts().length === 1);
    expect(await team.submit(event)).toEqual({ state: 'duplicate' });
    expect(team.platform.ours()[0]).toMatchObject({ text: 'Hello.', thread: event.place.thread });
    expect(team.requests).toHaveLength(1);
  });

  it('leads to an approval that runs the call after one press', async () => {
    const done: string[] = [];
    team = await Team.start({ tools: [purgeTool(done)], script: (_r, n) => (n === 1 ? { calls: [{ name: 'purge_records', args: { table: 'logs_old' } }] } : { text: 'Purged.' }) });
    await team.say(lin, 'purge logs_old');
    await until('card', () => team.platform.texts().length === 1);
    expect(done).toEqual([]);
    const { interactionId, choice } = team.button('Approve');
    expect((await team.press(interactionId, choice, lin)).state).toBe('accepted');
    await until('answer', () => team.platform.texts().at(-1) === 'Purged.');
    expect(done).toEqual(['logs_old']);
    expect((await team.press(interactionId, choice, lin)).state).toBe('already_decided');
  });
});
