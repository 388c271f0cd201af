/**
 * The small impure loop around `next`: do what it says, append what came of it together with the next intent, ask again.
 * One Drive drives one run in one process. It keeps the folded run and applies only what it appended; when somebody else
 * moved the run, it reads that and decides again.
 */
import type { Language } from '../adapters/types.ts';
import { type Clock, sleep } from '../clock.ts';
import { ModelError, messageOf, RunConflictError, StoreError } from '../errors.ts';
import type { Log } from '../log.ts';
import { readSteps } from '../store/steps.ts';
import { isUniqueViolation, type Store } from '../store/store.ts';
import type { Level, Resolution } from '../tools/types.ts';
import { type Calls, type CallView, newCode, type PostedMessage } from './calls.ts';
import type { Gatherer } from './context.ts';
import type { ModelPort, ModelReply } from './model.ts';
import { buildPrompt, type Prompt } from './prompt.ts';
import { loadRun, type Recording, record } from './recorder.ts';
import { adopt, evolve, isSuspended, next, withdrawals } from './run.ts';
import type { Effect, RecordedStep, Run, RunStatus, Step, ToolCall } from './types.ts';

export type DriverDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly model: ModelPort;
  readonly calls: Calls;
  readonly gather: Gatherer;
  readonly systemPrompt: (language: Language) => string;
  /** Secrets out, before anything is stored. */
  readonly clean: <T>(value: T) => T;
  readonly random: () => number;
  readonly maxRecoveries: number;
  readonly progress: (run: Run, where: { conversationId: string; language: Language }, work: 'model' | readonly string[] | undefined) => void;
  /** Told after each commit: messages may wait, questions may be due. */
  readonly committed: () => void;
  /** People are told once that nothing can be stored. */
  readonly storageFailed: (run: Run, language: Language) => void;
};

const outagePauseMs = 250;

/** A fact that arrived; it becomes a step under the seq it will get. */
type Fact = (seq: number) => Step;
type Plan = {
  readonly run: Run;
  readonly steps: readonly Step[];
  readonly launches: readonly (() => void)[];
  readonly messages: readonly PostedMessage[];
  readonly audit: NonNullable<Recording['audit']>;
  readonly end: 'wait' | 'suspended' | 'done';
};

export type Drive = {
  /** Ends when the run has ended, is suspended, or was abandoned. */
  readonly finished: Promise<void>;
  /** Somebody else may have moved the run. */
  nudge(): void;
  /** Stops at once; nothing more is appended. */
  abandon(): void;
};

export function startDrive(deps: DriverDeps, runId: string): Drive {
  const drive = new Driver(deps, runId);
  return { finished: drive.run(), nudge: () => drive.nudge(), abandon: () => drive.abandon() };
}

class Driver {
  private readonly deps: DriverDeps;
  private readonly runId: string;
  private readonly stop = new AbortController();
  /** What arguments mean, looked up once per call and once more after each approval. */
  private readonly resolutions = new Map<string, Resolution>();
  private run_: Run | undefined;
  private conversationId = '';
  private language: Language = 'en';
  private facts: Fact[] = [];
  private stale = false;
  private gathering = false;
  private wakeUp: () => void = () => {};

  constructor(deps: DriverDeps, runId: string) {
    this.deps = deps;
    this.runId = runId;
  }

  nudge(): void {
    this.stale = true;
    this.wakeUp();
  }

  abandon(): void {
    this.stop.abort(new Error('abandoned'));
    this.wakeUp();
  }

  async run(): Promise<void> {
    try {
      if (!(await this.loaded())) return;
      while (!this.stop.signal.aborted) {
        const end = await this.advance();
        if (end !== 'wait') return;
        if (this.facts.length === 0 && !this.stale && !this.stop.signal.aborted) await new Promise<void>((resolve) => (this.wakeUp = resolve));
      }
    } finally {
      this.stop.abort(new Error('ended'));
      this.showProgress(undefined);
    }
  }

  private showProgress(work: 'model' | readonly string[] | undefined): void {
    if (this.run_) this.deps.progress(this.run_, { conversationId: this.conversationId, language: this.language }, work);
  }

  /** Storage that does not work for a while is no crash of the run. */
  private async loaded(): Promise<boolean> {
    while (!this.stop.signal.aborted) {
      try {
        return await this.load();
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        await this.outage(error);
      }
    }
    return false;
  }

  private async load(): Promise<boolean> {
    const { store, calls, maxRecoveries } = this.deps;
    const loaded = await loadRun(store.db, this.runId);
    if (!loaded) return false;
    this.run_ = adopt(loaded.run);
    this.conversationId = loaded.row.conversation_id;
    this.language = await calls.languageOf(this.conversationId, loaded.run.place);
    if (loaded.row.recoveries > maxRecoveries && !loaded.run.ending) {
      const error = { code: 'crashed', message: `gave up after ${loaded.row.recoveries} crashes` };
      this.facts.push(() => ({ type: 'run_failed', error }));
    }
    return true;
  }

  /** One commit: what arrived, what follows from it, and the next intents. */
  private async advance(): Promise<Plan['end']> {
    for (let clashes = 0; ; ) {
      const taken = this.facts.length;
      try {
        if (this.stale) await this.reload();
        const plan = await this.plan(this.facts.slice(0, taken));
        await this.commit(plan);
        this.facts = this.facts.slice(taken);
        // Handed back meanwhile: what was to begin now is left to whoever goes on with the run.
        if (!this.stop.signal.aborted) for (const launch of plan.launches) launch();
        this.deps.committed();
        return plan.end;
      } catch (error) {
        if (this.stop.signal.aborted) return 'done';
        if (error instanceof RunConflictError) this.stale = true;
        else if (error instanceof StoreError) await this.outage(error);
        else if (!isUniqueViolation(error) || ++clashes > 5) throw error;
      }
    }
  }

  /** What was computed is kept and stored as soon as storage works again. */
  private async outage(error: StoreError): Promise<void> {
    if (error.code === 'store_closed') throw error;
    if (this.run_) this.deps.storageFailed(this.run_, this.language);
    await sleep(this.deps.clock, outagePauseMs, this.stop.signal);
    await this.deps.store.whenWritable(this.stop.signal);
  }

  private async reload(): Promise<void> {
    this.stale = false;
    const run = this.current();
    const more = await readSteps(this.deps.store.db, this.runId, run.version);
    this.run_ = more.reduce(evolve, run);
    if (this.run_.ending) this.stop.abort(new Error('ended'));
  }

  private current(): Run {
    if (!this.run_) throw new Error('the run is not loaded');
    return this.run_;
  }

  private async commit(plan: Plan): Promise<void> {
    const { store, clock } = this.deps;
    const before = this.current();
    if (before.ending) return;
    const status: RunStatus | undefined = plan.end === 'suspended' ? 'suspended' : undefined;
    if (plan.steps.length === 0 && !status) return;
    const at = clock.now();
    const durable = plan.steps.some((step) => (step.type === 'tool_started' && step.level > 0) || step.type === 'interaction_resolved');
    const recording = { run: before, conversationId: this.conversationId, language: this.language, steps: plan.steps, at, messages: plan.messages, audit: plan.audit, ...(status ? { status } : {}) };
    this.run_ = await store.transact((tx) => record(tx, store.dialect, recording), { durable });
  }

  /** Facts first, then `next` until it has to wait for something. */
  private async plan(facts: readonly Fact[]): Promise<Plan> {
    const plan = new Planner(this.current(), this.deps.clock.now());
    for (const fact of facts) plan.add(fact(plan.nextSeq()));
    for (;;) {
      const view = await this.deps.calls.view(plan.run, { language: this.language, resolutions: this.resolutions, signal: this.stop.signal });
      const effect = next(plan.run, view.judge);
      const end = await this.perform(effect, plan, view);
      if (end) return { steps: plan.steps, run: plan.run, launches: plan.launches, messages: plan.messages, audit: plan.audit, end };
    }
  }

  private async perform(effect: Effect, plan: Planner, view: CallView): Promise<Plan['end'] | undefined> {
    switch (effect.do) {
      case 'done':
        return 'done';
      case 'wait':
        return isSuspended(plan.run) && !this.gathering ? 'suspended' : 'wait';
      case 'gather':
        if (!this.gathering) plan.launches.push(() => this.gather());
        this.gathering = true;
        return 'wait';
      case 'append':
        for (const step of effect.steps) plan.add(step);
        plan.audit.push(...view.refusals(plan.run, effect.steps, this.conversationId, plan.at));
        return undefined;
      case 'ask':
        for (const state of effect.calls) plan.add({ type: 'interaction_opened', interaction: view.interaction(state, `${this.runId}-${plan.nextSeq()}`, newCode(this.deps.random)) });
        return undefined;
      case 'run_tools':
        for (const { state, level } of effect.calls) this.planCall(plan, view, state.call, state.attempt + 1, level);
        return undefined;
      case 'call_model':
        this.planModel(plan, effect);
        return undefined;
    }
  }

  private planCall(plan: Planner, view: CallView, call: ToolCall, attempt: number, level: Level): void {
    plan.add({ type: 'tool_started', callId: call.id, attempt, level });
    const posted = view.message(call, level);
    if (posted) plan.messages.push(posted);
    plan.launches.push(() => void this.execute(call, view));
  }

  private planModel(plan: Planner, effect: Extract<Effect, { do: 'call_model' }>): void {
    const { calls } = this.deps;
    const prompt = buildPrompt(plan.run, { system: this.deps.systemPrompt(this.language), offer: calls.offer(plan.run), last: effect.last, language: this.language });
    plan.add({ type: 'model_requested', attempt: effect.attempt, promptSha: prompt.sha, parts: prompt.parts, ...(effect.last ? { last: true } : {}) });
    plan.launches.push(() => void this.ask(prompt, effect.waitMs));
  }

  // ---------------------------------------------------------------- effects

  private arrive(fact: Fact): void {
    if (this.stop.signal.aborted) return;
    this.facts.push(fact);
    this.wakeUp();
  }

  private gather(): void {
    const { gather, clean } = this.deps;
    void gather({ run: this.current(), conversationId: this.conversationId, signal: this.stop.signal }).then(
      (step) => {
        this.gathering = false;
        this.arrive(() => clean(step));
      },
      (error: unknown) => (error instanceof StoreError ? void this.gatherAgain(error) : this.broken(error)),
    );
  }

  private async gatherAgain(error: StoreError): Promise<void> {
    try {
      await this.outage(error);
    } catch {
      return; // closed: the next process goes on
    }
    if (!this.stop.signal.aborted) this.gather();
  }

  private async ask(prompt: Prompt, waitMs: number): Promise<void> {
    const { clock, model, random } = this.deps;
    if (waitMs > 0) await sleep(clock, Math.round(waitMs * (1 + random() * 0.25)), this.stop.signal);
    if (this.stop.signal.aborted) return;
    this.showProgress('model');
    const startedAt = clock.now();
    try {
      const reply = await model.complete(prompt.request, this.stop.signal);
      this.arrive((seq) => this.responded(reply, seq, prompt, clock.now() - startedAt));
    } catch (error) {
      if (this.stop.signal.aborted) return;
      if (!(error instanceof ModelError)) return this.broken(error);
      this.deps.log.warn({ run: this.runId, code: error.code, error: this.deps.clean(error.message) }, 'model call failed');
      const facts = error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs };
      this.arrive(() => ({ type: 'model_failed', error: { code: error.code, message: this.deps.clean(error.message), ...facts }, retryable: error.retryable, ms: clock.now() - startedAt }));
    }
  }

  /** Arguments are judged as the model wrote them: a call with a secret in it is refused, not run with the secret taken out. */
  private responded(reply: ModelReply, seq: number, prompt: Prompt, ms: number): Step {
    const toolCalls = reply.calls.map((call, index): ToolCall => ({ id: `${seq}.${index}`, ...call, ...this.deps.calls.parse(call.name, call.argsText) }));
    const { text, finish, usage, model, reasoning } = reply;
    const contextTokens = Object.values(prompt.parts).reduce((sum, n) => sum + n, 0);
    return this.deps.clean({ type: 'model_responded', text, toolCalls, finish, usage, contextTokens, model, ms, ...(reasoning ? { reasoning } : {}) });
  }

  private async execute(call: ToolCall, view: CallView): Promise<void> {
    this.showProgress([call.name]);
    try {
      const { result, ms } = await view.execute(call, this.stop.signal);
      if (this.stop.signal.aborted) return;
      const cleaned = this.deps.clean(result);
      this.arrive(() => ({ type: 'tool_finished', callId: call.id, result: cleaned, ms }));
    } catch (error) {
      this.broken(error);
    }
  }

  /** A fault of ours: the run ends with a plain sentence, the record has the reason. */
  private broken(error: unknown): void {
    if (this.stop.signal.aborted) return;
    this.deps.log.error({ run: this.runId, error }, 'a run broke');
    this.arrive(() => ({ type: 'run_failed', error: { code: 'internal', message: this.deps.clean(messageOf(error)) } }));
  }
}

/** The steps of one commit in the making, folded as they come. */
class Planner {
  run: Run;
  readonly at: number;
  readonly steps: Step[] = [];
  readonly launches: (() => void)[] = [];
  readonly messages: Plan['messages'][number][] = [];
  readonly audit: Plan['audit'][number][] = [];

  constructor(run: Run, at: number) {
    this.run = run;
    this.at = at;
  }

  nextSeq(): number {
    return this.run.version + 1;
  }

  add(step: Step): void {
    if (this.run.ending) return;
    if (step.type === 'run_failed') for (const withdrawn of withdrawals(this.run, this.at)) this.append(withdrawn);
    this.append(step);
  }

  private append(step: Step): void {
    const recorded: RecordedStep = { ...step, seq: this.nextSeq(), at: this.at };
    this.steps.push(step);
    this.run = evolve(this.run, recorded);
  }
}
