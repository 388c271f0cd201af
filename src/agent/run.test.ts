import { describe, expect, it } from 'vitest';
import {
  approval,
  at,
  begun,
  call,
  called,
  calling,
  clarify,
  failed,
  failure,
  gathered,
  given,
  hall,
  limits,
  lin,
  opened,
  replied,
  requested,
  resolved,
  runOf,
  said,
  started,
  toolFinished,
  toolStarted,
  turn,
  wei,
} from '../../test/fakes/runs.ts';
import { adopt, authorOfWaiting, decide, emptyRun, isSuspended, optionMeant } from './run.ts';
import type { Outcome, Step } from './types.ts';

const hour = 3_600_000;
const atPress = new Date(begun + hour).toISOString();
const pressed = (interactionId: string, choice: string, own: Partial<Extract<Step, { type: 'interaction_pressed' }>> = {}): Step => ({ type: 'interaction_pressed', interactionId, by: lin, choice, counted: true, ...own });
const closed = (interactionId: string, outcome: Outcome): Step => ({ type: 'interaction_resolved', interactionId, outcome });
const told = (callId: string, error: 'declined' | 'no_answer', content: RegExp): Step => ({ type: 'tool_finished', callId, ms: 0, result: { ok: false, error, content: expect.stringMatching(content) as string } });

describe('start', () => {
  it('records the trigger, the asker, the place and the limits', () => {
    const content = [{ type: 'text' as const, text: 'hello' }];
    const trigger = { kind: 'mention' as const, messageKey: 'm1' };
    expect(decide(emptyRun('r1'), { kind: 'start', at: begun, by: lin, trigger, place: hall, content, limits })).toEqual([{ type: 'run_started', trigger, asker: lin, place: hall, content, limits }]);
  });

  it('happens once', () => {
    given(started())
      .when({ kind: 'start', trigger: { kind: 'command_line' }, place: hall, content: [], limits })
      .then();
  });

  it('comes before every other command', () => {
    expect(decide(emptyRun('r1'), { kind: 'cancel', at: begun, by: lin, reason: 'asked' })).toEqual([]);
  });
});

describe('a clarify', () => {
  const open = [...calling('which1'), opened(clarify('which1'))];

  it('is answered by a button', () => {
    given(...open)
      .when({ kind: 'resolve', interactionId: 'i-which1', choice: 'blue', entitled: true })
      .then(pressed('i-which1', 'blue'), closed('i-which1', { kind: 'answered', by: lin, at: atPress, value: 'blue' }), toolFinished('which1', { ok: true, content: 'Lin answered: blue' }, 0));
  });

  it('is answered in words', () => {
    const { result } = given(...open).when({ kind: 'resolve', interactionId: 'i-which1', text: ' the green one ', entitled: true });
    expect(result[1]).toMatchObject({ outcome: { kind: 'answered', value: 'the green one' } });
  });

  it.each([
    ['2', 'blue'],
    [' 1. ', 'red'],
    ['2）', 'blue'],
    ['２', 'blue'],
    ['1、', 'red'],
    ['3', '3'],
    ['0', '0'],
    ['2 of them', '2 of them'],
  ])('is answered by number: %j means %j', (text, value) => {
    expect(optionMeant(['red', 'blue'], text)).toBe(value);
  });

  it('that expired tells the model not to guess', () => {
    given(...open)
      .when({ kind: 'close_interaction', interactionId: 'i-which1', outcome: 'expired' })
      .then(closed('i-which1', { kind: 'expired', at: atPress }), told('which1', 'no_answer', /found no answer in time.*Do not guess/));
  });

  it('that could not be shown says why', () => {
    given(...open)
      .when({ kind: 'close_interaction', interactionId: 'i-which1', outcome: 'undeliverable', reason: 'the channel is archived' })
      .then(closed('i-which1', { kind: 'undeliverable', at: atPress, reason: 'the channel is archived' }), told('which1', 'no_answer', /could not be shown to anybody \(the channel is archived\)/));
  });

  it('answered too late expires instead, at the moment it had to', () => {
    const expiresAt = begun + hour;
    const { then } = given(...open).when({ kind: 'resolve', interactionId: 'i-which1', choice: 'red', entitled: true, at: expiresAt, expiresAt });
    then(pressed('i-which1', 'red', { counted: false, reason: 'expired' }), closed('i-which1', { kind: 'expired', at: new Date(expiresAt).toISOString() }), told('which1', 'no_answer', /no answer in time/));
  });

  it('answered a moment before its end counts', () => {
    const { result } = given(...open).when({ kind: 'resolve', interactionId: 'i-which1', choice: 'red', entitled: true, at: begun + hour - 1, expiresAt: begun + hour });
    expect(result[1]).toMatchObject({ outcome: { kind: 'answered' } });
  });

  it('answered by somebody who may not is recorded and stays open', () => {
    const command = given(...open).when({ kind: 'resolve', interactionId: 'i-which1', choice: 'red', by: wei, entitled: 'only the asker may answer' });
    command.then(pressed('i-which1', 'red', { by: wei, counted: false, reason: 'only the asker may answer' }));
    expect(runOf(...open, ...command.result).open).toHaveLength(1);
  });
});

describe('an approval', () => {
  const open = [...calling('send1'), opened(approval('send1'))];
  const press = (choice: string, own: object = {}) => ({ kind: 'resolve' as const, interactionId: 'i-send1', choice, entitled: true as const, ...own });

  it('approved lets the call run: no result is written', () => {
    const { then, result } = given(...open).when(press('approve'));
    then(pressed('i-send1', 'approve'), closed('i-send1', { kind: 'approved', by: lin, at: atPress }));
    const run = runOf(...open, ...result);
    expect(run.calls[0]).toMatchObject({ state: 'new', approval: { interactionId: 'i-send1', sha: 'sha' } });
    expect(run.open).toEqual([]);
  });

  it('denied tells the model who said no and why', () => {
    given(...open)
      .when(press('deny', { reason: 'wrong group' }))
      .then(pressed('i-send1', 'deny'), closed('i-send1', { kind: 'declined', by: lin, at: atPress, reason: 'wrong group' }), told('send1', 'declined', /Lin declined this call: wrong group\. It was not executed/));
  });

  it('is given by nothing but an approval', () => {
    for (const kind of ['declined', 'expired', 'withdrawn', 'undeliverable'] as const) expect(runOf(...open, resolved('i-send1', kind)).calls[0]?.approval).toBeUndefined();
  });

  it('that needs two waits for the second, and the same person does not count twice', () => {
    const two = [...calling('send1'), opened(approval('send1', { needed: 2 }))];
    const first = given(...two).when(press('approve'));
    first.then(pressed('i-send1', 'approve'));
    given(...two, ...first.result)
      .when(press('approve'))
      .then(pressed('i-send1', 'approve', { counted: false, reason: 'already pressed' }));
    given(...two, ...first.result)
      .when(press('approve', { by: wei }))
      .then(pressed('i-send1', 'approve', { by: wei }), closed('i-send1', { kind: 'approved', by: wei, at: atPress }));
    expect(given(...two, ...first.result).when(press('deny', { by: wei })).result[1]).toMatchObject({ outcome: { kind: 'declined', by: wei } });
  });

  it('pressed by one who may not is recorded and changes nothing', () => {
    given(...open)
      .when(press('approve', { by: wei, entitled: 'not an approver' }))
      .then(pressed('i-send1', 'approve', { by: wei, counted: false, reason: 'not an approver' }));
  });

  it('a press that does not count does not count towards two either', () => {
    const two = [...calling('send1'), opened(approval('send1', { needed: 2 }))];
    const refused = given(...two).when(press('approve', { by: wei, entitled: 'not an approver' })).result;
    given(...two, ...refused)
      .when(press('approve', { by: wei }))
      .then(pressed('i-send1', 'approve', { by: wei }));
  });

  it('a second press changes nothing, whatever it says', () => {
    const decided = [...open, ...given(...open).when(press('approve')).result];
    given(...decided)
      .when(press('deny'))
      .then();
    given(...decided)
      .when(press('approve', { by: wei }))
      .then();
  });

  it('pressed after its time has passed expires', () => {
    given(...open)
      .when(press('approve', { expiresAt: begun + 60_000 }))
      .then(
        pressed('i-send1', 'approve', { counted: false, reason: 'expired' }),
        closed('i-send1', { kind: 'expired', at: new Date(begun + 60_000).toISOString() }),
        told('send1', 'declined', /request for approval found no answer in time/),
      );
  });

  it('is not decided by words that are no decision', () => {
    given(...open)
      .when({ kind: 'resolve', interactionId: 'i-send1', text: 'well', entitled: true })
      .then(pressed('i-send1', 'well', { counted: false, reason: 'not a decision' }));
  });
});

describe('cancel', () => {
  it('takes back what is open, then ends the run', () => {
    given(...calling('which1', 'send1'), opened(clarify('which1')), opened(approval('send1')))
      .when({ kind: 'cancel', by: wei, reason: 'asked' })
      .then(closed('i-which1', { kind: 'withdrawn', at: atPress }), closed('i-send1', { kind: 'withdrawn', at: atPress }), { type: 'run_cancelled', by: wei, reason: 'asked' });
  });

  it('an ended run takes no command any more', () => {
    const ends: Step[] = [
      { type: 'run_completed', text: 'done', stop: 'answered' },
      { type: 'run_failed', error: { code: 'x', message: '' } },
      { type: 'run_cancelled', by: lin, reason: 'asked' },
    ];
    for (const end of ends) {
      const ended = given(...calling('which1'), opened(clarify('which1')), end);
      expect(ended.run.open).toEqual([]);
      ended.when({ kind: 'cancel', reason: 'asked' }).then();
      ended.when({ kind: 'resolve', interactionId: 'i-which1', choice: 'red', entitled: true }).then();
      ended.when({ kind: 'close_interaction', interactionId: 'i-which1', outcome: 'expired' }).then();
      ended.when({ kind: 'add_message', messageKey: 'm2', content: [] }).then();
      ended.when({ kind: 'edit', messageKey: 'm1', content: [] }).then();
    }
  });

  it('steps after the ending change nothing but the version', () => {
    const ended = runOf(started(), gathered(), { type: 'run_cancelled', by: lin, reason: 'asked' });
    const later = runOf(started(), gathered(), { type: 'run_cancelled', by: lin, reason: 'asked' }, said('m2', 'more'), requested());
    expect(later).toEqual({ ...ended, version: 5, lastAt: later.lastAt });
  });
});

describe('messages', () => {
  const content = [{ type: 'text' as const, text: 'new words' }];
  const wordsOf = (...steps: Step[]) => {
    const run = runOf(...steps);
    return [...run.transcript, ...run.held].map((entry) => (entry.kind === 'person' ? entry.content.map((part) => (part.type === 'text' ? part.text : '')).join('') : `model: ${entry.text}`));
  };

  it('an edit before the start replaces the request', () => {
    given(started()).when({ kind: 'edit', messageKey: 'm1', content }).then({ type: 'message_added', messageKey: 'm1', by: lin, content });
    expect(wordsOf(started(), said('m1', 'new words'))).toEqual(['new words']);
  });

  it('an edit after the start is not ours any more', () => {
    given(started(), gathered()).when({ kind: 'edit', messageKey: 'm1', content }).then();
    given(started()).when({ kind: 'edit', messageKey: 'unknown', content }).then();
  });

  it('an edit of a message that no request has carried yet replaces it in its place', () => {
    const steps = [started(), gathered(), requested(), said('m2', 'second'), said('m3', 'third')];
    expect(given(...steps).when({ kind: 'edit', messageKey: 'm2', content }).result).toHaveLength(1);
    expect(wordsOf(...steps, said('m2', 'second, mended'))).toEqual(['question', 'second, mended', 'third']);
    expect(authorOfWaiting(runOf(...steps, replied('a'), requested()), 'm2')).toBeUndefined();
  });

  it('a message that joins is held until the next request, never between a call and its result', () => {
    const asked = [...calling('look1'), said('m2', 'and also'), toolStarted('look1'), toolFinished('look1')];
    const before = runOf(...asked);
    expect(before.held).toHaveLength(1);
    expect(before.transcript.map((e) => e.kind)).toEqual(['person', 'model']);
    const after = runOf(...asked, requested());
    expect(after.held).toEqual([]);
    expect(after.transcript.map((e) => e.kind)).toEqual(['person', 'model', 'person']);
  });

  it('that come when only the last reply may follow are not taken: nothing could be done for them', () => {
    const add = { kind: 'add_message' as const, messageKey: 'm2', content };
    given(started(), gathered(), requested(1, true)).when(add).then();
    given(...calling('which1'), toolFinished('which1', failure('no_answer'), 0))
      .when(add)
      .then();
    expect(given(started(), gathered(), requested(1)).when(add).result).toHaveLength(1);
  });

  it('messages keep the order in which they were said', () => {
    expect(wordsOf(started(), gathered(), said('m2', 'two'), said('m3', 'three'), requested(), replied('answer'), said('m4', 'four'))).toEqual(['question', 'two', 'three', 'model: answer', 'four']);
  });
});

describe('the fold', () => {
  it('counts turns by reply, tokens over all of them, failures in a row', () => {
    const run = runOf(started(), gathered(), ...turn('look1'), requested(), called('look2', 'look3'), toolFinished('look2', failure('network')), toolFinished('look3', failure('timeout')));
    expect(run).toMatchObject({ turns: 2, usage: { inputTokens: 20, outputTokens: 4 }, toolFailures: 2 });
    expect(runOf(...calling('look1', 'look2'), toolFinished('look1', failure('network')), toolFinished('look2')).toolFailures).toBe(0);
  });

  it('does not count the no of a person as a failure of a tool', () => {
    expect(runOf(...calling('send1'), toolFinished('send1', failure('declined'))).toolFailures).toBe(0);
  });

  it('a failed request counts as an attempt, not as a turn; a reply starts the attempts anew', () => {
    const failing = [started(), gathered(), requested(1), failed({ code: 'network', message: 'x' }), requested(2)];
    expect(runOf(...failing)).toMatchObject({ turns: 0, attempt: 2, modelFailures: 1 });
    expect(runOf(...failing, replied('ok'))).toMatchObject({ turns: 1, attempt: 0, modelFailures: 0 });
    expect(runOf(...failing, replied('ok')).lastError).toBeUndefined();
  });

  it('a tainted result or context taints the run for good', () => {
    const tainting = [...calling('look1', 'look2'), toolFinished('look1', { ok: true, content: '', tainted: true }), toolFinished('look2')];
    expect(runOf(...tainting).tainted).toBe(true);
    expect(runOf(started(), gathered(true), gathered(false)).tainted).toBe(true);
    expect(runOf(started(), gathered()).tainted).toBe(false);
  });

  it('a result for a call that is unknown or already finished changes nothing', () => {
    const once = [...calling('look1'), toolFinished('look1')];
    expect(runOf(...once, toolFinished('look1', failure('network'))).results.look1).toEqual({ ok: true, content: 'found' });
    expect(runOf(...once, toolFinished('other')).results).toEqual(runOf(...once).results);
    expect(runOf(...once, toolStarted('look1', 2)).calls[0]?.state).toBe('finished');
  });

  it('reads past steps of a newer program', () => {
    const step = { type: 'dreamt', of: 'sheep' } as unknown as Step;
    expect(runOf(started(), gathered(), step)).toMatchObject({ version: 3, turns: 0 });
  });

  it('calls of a reply that was to be the last are not listened to', () => {
    const run = runOf(started(), gathered(), requested(1, true), replied('so far', [call('look1')]));
    expect(run).toMatchObject({ calls: [], reply: { text: 'so far', last: true } });
    expect(run.transcript.at(-1)).toMatchObject({ toolCalls: [] });
  });

  describe('working time', () => {
    const asked = [at(0, started()), at(0, gathered()), at(0, requested())];

    it('is what models and tools took', () => {
      expect(runOf(...asked, at(5, replied('', [call('look1')], 5000)), at(6, toolStarted('look1')), at(9, toolFinished('look1', undefined, 3000))).workingMs).toBe(8000);
    });

    it('counts calls side by side once', () => {
      const both = [...asked, at(0, replied('', [call('look1'), call('look2')], 0)), at(0, toolStarted('look1')), at(0, toolStarted('look2'))];
      expect(runOf(...both, at(5, toolFinished('look1', undefined, 5000)), at(8, toolFinished('look2', undefined, 8000))).workingMs).toBe(8000);
    });

    it('leaves out the time that people took', () => {
      const open = [...asked, at(1, replied('', [call('which1')], 1000)), at(1, opened(clarify('which1')))];
      expect(runOf(...open, at(90_000, resolved('i-which1', 'answered')), at(90_000, toolFinished('which1', undefined, 0))).workingMs).toBe(1000);
    });

    it('leaves out the time after a process died', () => {
      const died = [...asked, at(0, replied('', [call('look1')], 0)), at(0, toolStarted('look1')), at(7200, toolStarted('look1', 2))];
      expect(runOf(...died, at(7202, toolFinished('look1', undefined, 2000))).workingMs).toBe(2000);
    });

    it('is not shortened by messages that join meanwhile', () => {
      expect(runOf(...asked, at(9, said('m2', 'hurry')), at(10, replied('done', [], 10_000))).workingMs).toBe(10_000);
    });
  });
});

describe('adopt', () => {
  it('makes running calls orphans and forgets the request in flight', () => {
    const run = adopt(runOf(...calling('look1', 'look2', 'which1'), toolStarted('look1'), toolFinished('look1'), toolStarted('look2'), opened(clarify('which1'))));
    expect(run.calls.map((c) => c.state)).toEqual(['finished', 'orphan', 'asking']);
    expect(adopt(runOf(started(), gathered(), requested())).request).toBeUndefined();
  });
});

describe('isSuspended', () => {
  it.each<[string, boolean, Step[]]>([
    ['something is open and nothing runs', true, [...calling('which1'), opened(clarify('which1'))]],
    ['a call is still running', false, [...calling('which1', 'look1'), opened(clarify('which1')), toolStarted('look1')]],
    ['nothing is open', false, calling('look1')],
    ['it has ended', false, [...calling('which1'), opened(clarify('which1')), { type: 'run_cancelled', by: lin, reason: 'asked' }]],
  ])('%s: %s', (_, expected, steps) => {
    expect(isSuspended(runOf(...steps))).toBe(expected);
  });
});
