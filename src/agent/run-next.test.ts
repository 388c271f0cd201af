import { describe, expect, it } from 'vitest';
import {
  approval,
  at,
  brief,
  called,
  calling,
  clarify,
  failed,
  failure,
  type Given,
  gathered,
  judge,
  lin,
  nextOf,
  noJudge,
  opened,
  replied,
  requested,
  resolved,
  runOf,
  runs,
  said,
  started,
  toolFinished,
  toolStarted,
  turn,
} from '../../test/fakes/runs.ts';
import { adopt, next } from './run.ts';
import type { Judge, Step } from './types.ts';

const then = (...steps: readonly Given[]) => expect(brief(nextOf(...steps)));
/** As another process finds the run. */
const adopted = (own: Judge, ...steps: readonly Given[]) => next(adopt(runOf(...steps)), own);
const approved = (callId: string): Step[] => [opened(approval(callId)), resolved(`i-${callId}`, 'approved')];
const expired = (callId: string): Step[] => [opened(clarify(callId)), resolved(`i-${callId}`, 'expired'), toolFinished(callId, failure('no_answer'), 0)];

describe('next, top to bottom', () => {
  it.each<Step>([
    { type: 'run_completed', text: '', stop: 'silent' },
    { type: 'run_failed', error: { code: 'x', message: '' } },
    { type: 'run_cancelled', by: lin, reason: 'withdrawn' },
  ])('an ended run is done: $type', (end) => {
    then(started(), end).toBe('done');
    then(...calling('look1'), end).toBe('done');
  });

  it('a run without context gathers it, messages or not', () => {
    then(started()).toBe('gather');
    then(started(), said('m2', 'more')).toBe('gather');
  });

  it('with the context the model is asked', () => {
    then(started(), gathered()).toBe('call_model 1');
  });

  it('a request in flight is waited for', () => {
    then(started(), gathered(), requested()).toBe('wait');
  });

  it('calls of a reply run', () => {
    then(...calling('look1')).toBe('run_tools look1');
  });

  it('a refused call gets its result without running', () => {
    expect(nextOf(...calling('nope1'))).toEqual({ do: 'append', steps: [toolFinished('nope1', failure('permission', 'not here'), 0)] });
  });

  it('refusals come first, then questions, then calls', () => {
    const mixed = calling('look1', 'send1', 'nope1');
    then(...mixed).toBe('append tool_finished');
    then(...mixed, toolFinished('nope1', failure('permission'))).toBe('ask send1');
    then(...mixed, toolFinished('nope1', failure('permission')), opened(approval('send1'))).toBe('run_tools look1');
  });

  it('with all results there the model is asked again', () => {
    then(started(), gathered(), ...turn('look1', 'look2')).toBe('call_model 1');
  });

  it('anything open is waited for, also what belongs to no call', () => {
    const { callId: _, ...takeover } = clarify('x', { kind: 'takeover' });
    const stuck: Step[] = [started(), gathered(), ...turn('look1'), opened(takeover)];
    then(...stuck).toBe('wait');
    then(...stuck, resolved('i-x', 'answered')).toBe('call_model 1');
    then(...calling('which1'), opened(clarify('which1'))).toBe('wait');
  });

  it('a reply without calls completes the run', () => {
    expect(nextOf(started(), gathered(), requested(), replied('the answer'))).toEqual({ do: 'append', steps: [{ type: 'run_completed', text: 'the answer', stop: 'answered' }] });
  });

  it('a reply overtaken by a message goes on to the next request', () => {
    const overtaken: Step[] = [started(), gathered(), requested(), said('m2', 'wait'), replied('the answer')];
    then(...overtaken).toBe('call_model 1');
    then(...overtaken, requested()).toBe('wait');
    then(...overtaken, requested(), replied('the better answer')).toBe('append run_completed');
    then(started(), gathered(), requested(), replied('the answer'), said('m2', 'also')).toBe('call_model 1');
  });

  it('asks about no call that is asked about, running or finished', () => {
    const settled = [...calling('look1', 'look2', 'which1'), toolStarted('look1'), toolFinished('look2'), opened(clarify('which1'))];
    expect(next(runOf(...settled), noJudge)).toEqual({ do: 'wait' });
  });
});

describe('calls of one turn', () => {
  it('neighbouring calls of level 0 run side by side', () => {
    then(...calling('look1', 'look2', 'look3')).toBe('run_tools look1 look2 look3');
    then(...calling('look1', 'look2'), toolStarted('look1')).toBe('run_tools look2');
  });

  it('a call that changes something waits for earlier ones that are running', () => {
    then(...calling('look1', 'save1')).toBe('run_tools look1');
    then(...calling('look1', 'save1'), toolStarted('look1')).toBe('wait');
    then(...calling('look1', 'save1'), toolStarted('look1'), toolFinished('look1')).toBe('run_tools save1');
  });

  it('two calls that change something run one after the other', () => {
    then(...calling('save1', 'save2')).toBe('run_tools save1');
    then(...calling('save1', 'save2'), toolStarted('save1', 1, 1)).toBe('wait');
    then(...calling('save1', 'save2'), toolStarted('save1', 1, 1), toolFinished('save1')).toBe('run_tools save2');
  });

  it('what reads after a change waits for the change', () => {
    then(...calling('save1', 'look1')).toBe('run_tools save1');
    then(...calling('save1', 'look1'), toolStarted('save1', 1, 1)).toBe('wait');
    then(...calling('look1', 'save1', 'look2')).toBe('run_tools look1');
    then(...calling('look1', 'save1', 'look2'), toolStarted('look1')).toBe('wait');
  });

  it('all calls that need a person are asked about at once', () => {
    then(...calling('send1', 'look1', 'which1', 'send2')).toBe('ask send1 which1 send2');
  });

  it('a call that changes something does not wait for earlier ones still being asked about', () => {
    then(...calling('send1', 'save1'), opened(approval('send1'))).toBe('run_tools save1');
  });

  it('an open question holds up no call of level 0', () => {
    then(...calling('which1', 'look1'), opened(clarify('which1'))).toBe('run_tools look1');
    then(...calling('which1', 'look1'), opened(clarify('which1')), toolStarted('look1'), toolFinished('look1')).toBe('wait');
  });

  it('an approved call runs, and waits for its turn like any other', () => {
    then(...calling('send1'), ...approved('send1')).toBe('run_tools send1');
    then(...calling('look1', 'send1'), ...approved('send1'), toolStarted('look1')).toBe('wait');
  });

  it('a call whose approval no longer counts is asked about again', () => {
    const strict: Judge = () => ({ do: 'ask', kind: 'approval', level: 2 });
    expect(brief(next(runOf(...calling('send1'), ...approved('send1')), strict))).toBe('ask send1');
  });

  it('a tool withdrawn while a person decided is refused', () => {
    const withdrawn: Judge = () => ({ do: 'refuse', level: 2, rule: 'off', result: failure('permission') });
    expect(brief(next(runOf(...calling('send1'), ...approved('send1')), withdrawn))).toBe('append tool_finished');
  });

  it('no request is made while a result is missing, whatever people say meanwhile', () => {
    then(...calling('look1'), toolStarted('look1'), said('m2', 'hurry')).toBe('wait');
  });
});

describe('recovery', () => {
  it('a request of a process that died is made again, as the next attempt', () => {
    expect(brief(adopted(judge, started(), gathered(), requested(1)))).toBe('call_model 2');
  });

  it('a call that is retry-safe runs again, at most twice', () => {
    const safe: Judge = () => runs(0, true);
    const died = (attempts: number) => [...calling('look1'), ...Array.from({ length: attempts }, (_, index) => toolStarted('look1', index + 1))];
    expect(brief(adopted(safe, ...died(1)))).toBe('run_tools look1');
    expect(brief(adopted(safe, ...died(2)))).toBe('run_tools look1');
    const effect = adopted(safe, ...died(3));
    expect(effect).toMatchObject({ do: 'append', steps: [{ type: 'tool_finished', result: { ok: false, error: 'outcome_unknown' } }] });
  });

  it('any other call ends as outcome unknown, and the model is told to say so', () => {
    const effect = adopted(judge, ...calling('save1'), toolStarted('save1', 1, 1));
    expect(effect).toMatchObject({ do: 'append', steps: [{ callId: 'save1', result: { error: 'outcome_unknown', content: expect.stringMatching(/unknown.*not repeated.*Tell the person/) as string } }] });
  });

  it.each<[string, Judge]>([
    ['refused by now', () => ({ do: 'refuse', level: 1, rule: 'off', result: failure('permission') })],
    ['to be asked about by now', () => ({ do: 'ask', kind: 'approval', level: 2 })],
  ])('a call that was begun and is %s ends as outcome unknown: it may have happened', (_, own) => {
    expect(adopted(own, ...calling('look1'), toolStarted('look1'))).toMatchObject({ do: 'append', steps: [{ result: { error: 'outcome_unknown' } }] });
  });

  it('calls that were not begun simply run', () => {
    expect(brief(adopted(judge, ...calling('look1', 'look2'), toolStarted('look1')))).toBe('run_tools look1 look2');
  });

  it('what was asked stays asked', () => {
    expect(brief(adopted(judge, ...calling('which1'), opened(clarify('which1'))))).toBe('wait');
  });

  it('a reply that was stored completes the run, without another request', () => {
    expect(brief(adopted(judge, started(), gathered(), requested(), replied('done')))).toBe('append run_completed');
  });
});

describe('limits', () => {
  const turns = (count: number): Step[] => Array.from({ length: count }, (_, index) => turn(`look${index}`)).flat();

  it('after the last allowed turn one last call without tools follows, then the turn limit is the ending', () => {
    const spent = [started({ maxTurns: 2 }), gathered(), ...turns(2)];
    then(...spent).toBe('call_model 1 last');
    expect(nextOf(...spent, requested(1, true), replied('so far'))).toEqual({ do: 'append', steps: [{ type: 'run_completed', text: 'so far', stop: 'turn_limit' }] });
  });

  it('an ordinary answer on the last allowed turn is an answer', () => {
    const almost = [started({ maxTurns: 2 }), gathered(), ...turns(1)];
    then(...almost).toBe('call_model 1');
    expect(nextOf(...almost, requested(), replied('done'))).toMatchObject({ steps: [{ stop: 'answered' }] });
  });

  it('a server that calls tools on the last request is not listened to', () => {
    then(started({ maxTurns: 1 }), gathered(), ...turns(1), requested(1, true), called('look9')).toBe('append run_completed');
  });

  it('a failed last request is made again as the last', () => {
    then(started({ maxTurns: 1 }), gathered(), ...turns(1), requested(1, true), failed({ code: 'network', message: '' })).toBe('call_model 2 last after 1000');
  });

  it('retries are attempts and spend no turn', () => {
    then(started({ maxTurns: 1 }), gathered(), requested(), failed({ code: 'network', message: '' })).toBe('call_model 2 after 1000');
  });

  it('the longest working time ends a run like the turn limit', () => {
    const slow = (ms: number) => [at(0, started({ maxRunMs: 10_000 })), at(0, gathered()), at(0, requested()), at(0, called('look1')), at(0, toolStarted('look1')), at(60, toolFinished('look1', undefined, ms))];
    then(...slow(9899)).toBe('call_model 1');
    then(...slow(9900)).toBe('call_model 1 last');
  });

  it('the time that people took does not count', () => {
    const asked = [at(0, started({ maxRunMs: 10_000 })), at(0, gathered()), at(0, requested()), at(1, called('which1')), at(1, opened(clarify('which1')))];
    then(...asked, at(500_000, resolved('i-which1', 'answered')), at(500_000, toolFinished('which1', undefined, 0))).toBe('call_model 1');
  });

  it('six failures of tools in a row fail the run, in words', () => {
    const failing = (count: number) => [...calling(...Array.from({ length: count }, (_, i) => `look${i}`)), ...Array.from({ length: count }, (_, i) => toolFinished(`look${i}`, failure('network', `no route ${i}`)))];
    then(...failing(5)).toBe('call_model 1');
    expect(nextOf(...failing(6))).toEqual({ do: 'append', steps: [{ type: 'run_failed', error: { code: 'tool_failures', message: '6 tool calls failed in a row; the last one said: no route 5' } }] });
  });

  it('a success between them starts the count anew', () => {
    const rows = [failure('network'), failure('network'), undefined, failure('network')];
    const turns = rows.flatMap((result, i) => [requested(), called(`look${i}`), toolFinished(`look${i}`, result)]);
    then(started({ maxToolFailures: 3 }), gathered(), ...turns).toBe('call_model 1');
  });
});

describe('retries of the model', () => {
  const failing = (times: number, own: { retryAfterMs?: number } = {}, retryable = true): Step[] => [
    started(),
    gathered(),
    ...Array.from({ length: times }, (_, index) => [requested(index + 1), failed({ code: 'overloaded', message: 'busy', ...own }, retryable)]).flat(),
  ];

  it.each([
    [1, 'call_model 2 after 1000'],
    [2, 'call_model 3 after 2000'],
    [3, 'call_model 4 after 4000'],
  ])('failure %i is followed by a wait', (times, expected) => {
    then(...failing(times)).toBe(expected);
  });

  it('after three retries the run fails with the last error', () => {
    expect(nextOf(...failing(4))).toEqual({ do: 'append', steps: [{ type: 'run_failed', error: { code: 'overloaded', message: 'busy' } }] });
  });

  it('an error that no retry can mend fails the run at once', () => {
    then(...failing(1, {}, false)).toBe('append run_failed');
  });

  it.each([
    [7000, 'call_model 2 after 7000'],
    [600_000, 'call_model 2 after 60000'],
    [10, 'call_model 2 after 1000'],
    [-5, 'call_model 2 after 1000'],
  ])('what the server asks for (%i ms) is kept, up to a minute', (retryAfterMs, expected) => {
    then(...failing(1, { retryAfterMs })).toBe(expected);
  });

  it('a reply forgets the failures before it', () => {
    then(...failing(3), requested(4), called('look1'), toolFinished('look1'), requested(1), failed({ code: 'network', message: '' })).toBe('call_model 2 after 1000');
  });
});

describe('a clarify without an answer', () => {
  it('is followed by one last call without tools, and what it says is the answer', () => {
    then(...calling('which1'), ...expired('which1')).toBe('call_model 1 last');
    expect(nextOf(...calling('which1'), ...expired('which1'), requested(1, true), replied('nothing was done'))).toEqual({ do: 'append', steps: [{ type: 'run_completed', text: 'nothing was done', stop: 'answered' }] });
  });

  it('lets nothing be changed on a guess, and nothing more be asked', () => {
    for (const id of ['save1', 'send1', 'which2']) {
      expect(nextOf(...calling('which1', id), ...expired('which1'))).toMatchObject({ do: 'append', steps: [{ callId: id, result: { ok: false, error: 'no_answer' } }] });
    }
  });

  it('does not let a call run that was approved before', () => {
    expect(nextOf(...calling('which1', 'send1'), ...approved('send1'), ...expired('which1'))).toMatchObject({ steps: [{ callId: 'send1', result: { error: 'no_answer' } }] });
  });

  it('still lets the run read', () => {
    then(...calling('which1', 'look1'), ...expired('which1')).toBe('run_tools look1');
  });

  it('an approval without an answer only refuses its call', () => {
    const lapsed: Step[] = [opened(approval('send1')), resolved('i-send1', 'expired'), toolFinished('send1', failure('declined'), 0)];
    then(...calling('send1'), ...lapsed).toBe('call_model 1');
  });
});
