import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { approval, begun, call, clarify, failed, failure, gathered, judge, lin, opened, replied, requested, said, started, toolFinished, toolStarted, type Undated, wei } from '../../test/fakes/runs.ts';
import { adopt, decide, emptyRun, evolve, fold, next } from './run.ts';
import type { Command, RecordedStep, Run, Step } from './types.ts';

const names = ['look', 'save', 'send', 'which', 'nope'] as const;
const anyCallId = fc.constantFrom('look1', 'save2', 'send3', 'which4', '__proto__');
const anyResult = fc.constantFrom({ ok: true as const, content: 'found' }, { ok: true as const, content: 'page', tainted: true }, failure('network'), failure('no_answer'), failure('declined'));

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.constant(started()),
  fc.boolean().map(gathered),
  fc.tuple(fc.nat(4), fc.boolean()).map(([attempt, last]) => requested(attempt, last)),
  fc.tuple(fc.string(), fc.array(anyCallId, { maxLength: 3 }), fc.integer()).map(([text, ids, ms]) => replied(text, ids.map(call), ms)),
  fc.tuple(fc.boolean(), fc.integer()).map(([retryable, ms]) => failed({ code: 'network', message: '', retryAfterMs: ms }, retryable)),
  fc.tuple(anyCallId, fc.nat(4)).map(([id, attempt]) => toolStarted(id, attempt)),
  fc.tuple(anyCallId, anyResult, fc.integer()).map(([id, result, ms]) => toolFinished(id, result, ms)),
  anyCallId.map((id) => opened(clarify(id))),
  anyCallId.map((id) => opened(approval(id))),
  fc.tuple(anyCallId, fc.boolean()).map(([id, counted]): Step => ({ type: 'interaction_pressed', interactionId: `i-${id}`, by: lin, choice: 'approve', counted })),
  fc.tuple(anyCallId, fc.constantFrom('approved' as const, 'expired' as const)).map(([id, kind]): Step => ({ type: 'interaction_resolved', interactionId: `i-${id}`, outcome: { kind, at: '' } })),
  fc.constantFrom('m1', 'm2').map((key) => said(key, 'words')),
  fc.constant<Step>({ type: 'plan_updated', plan: [], reason: '' }),
  fc.constant<Step>({ type: 'run_completed', text: '', stop: 'answered' }),
  fc.constant<Step>({ type: 'run_failed', error: { code: '', message: '' } }),
);

const anySteps: fc.Arbitrary<RecordedStep[]> = fc.array(fc.tuple(anyStep, fc.integer()), { maxLength: 30 }).map((steps) => steps.map(([step, at], index) => ({ ...step, seq: index + 1, at })));

describe('any steps in any order', () => {
  it('fold without an error, and the run knows what to do next', () => {
    fc.assert(
      fc.property(anySteps, (steps) => {
        const run = fold('r1', steps);
        expect(run.version).toBe(steps.length);
        expect(run.workingMs).toBeGreaterThanOrEqual(0);
        // Steps in a senseless order may leave calls in states that the strict judge of the other tests refuses.
        expect(next(run, () => ({ do: 'run', level: 0, retrySafe: true }))).toBeDefined();
        expect(next(adopt(run), () => ({ do: 'run', level: 1, retrySafe: false }))).toBeDefined();
      }),
      { numRuns: 500 },
    );
  });

  it('folding in pieces equals folding whole', () => {
    fc.assert(
      fc.property(anySteps, fc.nat(30), (steps, cut) => {
        const inPieces = steps.slice(cut).reduce(evolve, fold('r1', steps.slice(0, cut)));
        expect(inPieces).toEqual(fold('r1', steps));
      }),
    );
  });

  it('a command never throws, and what it leads to folds', () => {
    const commands: Command[] = [
      { kind: 'resolve', at: begun, by: wei, interactionId: 'i-send3', choice: 'approve', entitled: true },
      { kind: 'resolve', at: begun, by: lin, interactionId: 'i-which4', text: '1', entitled: true, expiresAt: begun },
      { kind: 'close_interaction', at: begun, by: lin, interactionId: 'i-look1', outcome: 'expired' },
      { kind: 'edit', at: begun, by: lin, messageKey: 'm1', content: [] },
      { kind: 'add_message', at: begun, by: lin, messageKey: 'm3', content: [] },
      { kind: 'cancel', at: begun, by: lin, reason: 'asked' },
    ];
    fc.assert(
      fc.property(anySteps, fc.constantFrom(...commands), (steps, command) => {
        const run = fold('r1', steps);
        const after = decide(run, command).reduce((r, step, index) => evolve(r, { ...step, seq: run.version + index + 1, at: begun }), run);
        if (command.kind === 'cancel' && run.version > 0) expect(after.ending).toBeDefined();
      }),
    );
  });
});

// ---------------------------------------------------------------- a run that is played

/** Plays a whole run: does what `next` says and lets the given numbers decide everything that comes from outside. */
class Play {
  run: Run = emptyRun('r1');
  readonly steps: RecordedStep[] = [];
  crashes = 0;
  private readonly numbers: number[];
  private at = begun;

  constructor(numbers: readonly number[]) {
    this.numbers = [...numbers];
    this.append([started({ maxTurns: 4 })]);
  }

  /** Below `limit`; 0 when the numbers are used up, which is always the choice that leads to the end. */
  choose(limit: number): number {
    return (this.numbers.shift() ?? 0) % limit;
  }

  append(steps: readonly Step[]): void {
    for (const step of steps) {
      this.at += 1 + this.choose(5000);
      const recorded = { ...step, seq: this.steps.length + 1, at: this.at };
      this.steps.push(recorded);
      this.run = evolve(this.run, recorded);
    }
  }

  command(command: Undated): void {
    this.append(decide(this.run, { at: this.at, by: this.choose(4) === 3 ? wei : lin, ...command } as Command));
  }

  move(): void {
    const event = this.choose(12);
    if (event === 10) return this.command({ kind: 'add_message', messageKey: `m${this.steps.length}`, content: [] });
    if (event === 11 && this.crashes < 3) {
      this.crashes += 1;
      this.run = adopt(this.run);
      return;
    }
    const effect = next(this.run, judge);
    if (effect.do === 'call_model') checkTranscript(this.run);
    switch (effect.do) {
      case 'done':
        return;
      case 'gather':
        return this.append([gathered()]);
      case 'append':
        return this.append(effect.steps);
      case 'ask':
        return this.append(effect.calls.map((state) => opened(state.call.name === 'send' ? approval(state.call.id, { id: `i-${state.call.id}-${this.steps.length}` }) : clarify(state.call.id))));
      case 'run_tools': {
        for (const { state, level } of effect.calls) {
          expect(level === 2 ? state.approval : true, 'a call of level 2 never starts unapproved').toBeTruthy();
          const earlier = this.run.calls.slice(0, this.run.calls.indexOf(state));
          if (level > 0) expect(earlier.filter((e) => e.state === 'running' || effect.calls.some((c) => c.state === e))).toEqual([]);
        }
        return this.append(effect.calls.map(({ state, level }) => toolStarted(state.call.id, state.attempt + 1, level)));
      }
      case 'call_model':
        return this.append([requested(effect.attempt, effect.last)]);
      case 'wait':
        return this.fromOutside();
    }
  }

  /** Whatever is in flight or open comes to something. */
  private fromOutside(): void {
    const running = this.run.calls.filter((state) => state.state === 'running');
    const { open, request } = this.run;
    expect(running.length + open.length + (request ? 1 : 0), 'a run never waits for nothing').toBeGreaterThan(0);
    if (request) return this.append([this.reply()]);
    const pick = this.choose(running.length + open.length);
    const state = running[pick];
    if (state) return this.append([toolFinished(state.call.id, this.choose(3) === 2 ? failure('network') : undefined, this.choose(9000))]);
    const interactionId = open[pick - running.length]?.interaction.id ?? '';
    const how = this.choose(4);
    if (how === 1) return this.command({ kind: 'resolve', interactionId, choice: 'deny', entitled: true });
    if (how === 2) return this.command({ kind: 'close_interaction', interactionId, outcome: 'expired' });
    if (how === 3) return this.command({ kind: 'resolve', interactionId, choice: 'approve', entitled: 'not you' });
    return this.command({ kind: 'resolve', interactionId, choice: 'approve', entitled: true });
  }

  private reply(): Step {
    if (this.choose(5) === 4) return failed({ code: 'overloaded', message: '' }, this.choose(4) > 0);
    const seq = this.steps.length + 1;
    const ids = Array.from({ length: this.choose(4) }, (_, index) => `${names[this.choose(names.length)]}${seq}.${index}`);
    return replied(`reply ${seq}`, ids.map(call), this.choose(4000));
  }
}

/** Every call of every reply has its result, and so the next request is complete. */
function checkTranscript(run: Run): void {
  expect(run.calls.filter((state) => state.state !== 'finished')).toEqual([]);
  const ids = run.transcript.flatMap((entry) => (entry.kind === 'model' ? entry.toolCalls.map((c) => c.id) : []));
  expect(ids.filter((id) => !(id in run.results))).toEqual([]);
}

const anyPlay = fc.array(fc.nat(1000), { maxLength: 250 }).map((numbers) => {
  const play = new Play(numbers);
  for (let moves = 0; !play.run.ending && moves < 1000; moves++) play.move();
  return play;
});

describe('a run played to its end', () => {
  it('comes to exactly one ending, with every call answered before each request', () => {
    fc.assert(
      fc.property(anyPlay, ({ run, steps }) => {
        expect(run.ending).toBeDefined();
        expect(steps.filter((step) => step.type.startsWith('run_') && step.type !== 'run_started')).toEqual([expect.objectContaining(run.ending)]);
        expect(run.open).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it('needs no more turns than allowed, one last call and one more for each message that joined', () => {
    fc.assert(
      fc.property(anyPlay, ({ run, steps }) => {
        expect(run.turns).toBeLessThanOrEqual(4 + 1 + steps.filter((step) => step.type === 'message_added').length);
      }),
      { numRuns: 300 },
    );
  });

  it('begins a call of level 1 or 2 once, and finishes each call once', () => {
    fc.assert(
      fc.property(anyPlay, ({ steps }) => {
        const begunCalls = steps.flatMap((step) => (step.type === 'tool_started' && step.level > 0 ? [step.callId] : []));
        const finishedCalls = steps.flatMap((step) => (step.type === 'tool_finished' ? [step.callId] : []));
        expect(new Set(begunCalls).size).toBe(begunCalls.length);
        expect(new Set(finishedCalls).size).toBe(finishedCalls.length);
      }),
      { numRuns: 300 },
    );
  });

  it('folds to the same run from its record', () => {
    fc.assert(
      fc.property(anyPlay, (play) => {
        if (play.crashes === 0) expect(fold('r1', play.steps)).toEqual(play.run);
      }),
    );
  });
});
