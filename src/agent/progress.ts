/** When people see that a run is at work: not for what is answered within a second, then the newest verb, now and then. */
import { progressKey, type RunProgress } from '../adapters/outbox.ts';
import type { Language } from '../adapters/types.ts';
import type { Clock } from '../clock.ts';
import { textsFor } from '../texts.ts';
import type { Run } from './types.ts';

const firstMs = 1000;
const everyMs = 3000;

type Shown = { run: Run; conversationId: string; language: Language; work: 'model' | readonly string[]; startedAt: number; visible: boolean; cancel: () => void };
type Deps = { readonly clock: Clock; readonly enabled: boolean; readonly show: (progress: RunProgress) => void; readonly close: (runId: string, conversationId: string) => void };

const verbs: Readonly<Record<string, 'calculating' | 'looking' | 'sending'>> = { calculator: 'calculating', current_time: 'looking', send_group_message: 'sending' };

/** `work` undefined: the run has ended or waits. */
export function createProgress(deps: Deps): (run: Run, where: { conversationId: string; language: Language }, work: 'model' | readonly string[] | undefined) => void {
  const shown = new Map<string, Shown>();
  const tick = (state: Shown) => {
    state.visible = true;
    deps.show(progressOf(state, deps.clock.now()));
    state.cancel = deps.clock.setTimer(everyMs, () => tick(state));
  };
  return (run, where, work) => {
    if (!deps.enabled) return;
    const known = shown.get(run.id);
    if (work === undefined) {
      if (!known) return;
      known.cancel();
      shown.delete(run.id);
      if (known.visible) deps.close(run.id, where.conversationId);
      return;
    }
    if (known) {
      known.work = work;
      return;
    }
    const state: Shown = { run, ...where, work, startedAt: deps.clock.now(), visible: false, cancel: () => {} };
    shown.set(run.id, state);
    state.cancel = deps.clock.setTimer(firstMs, () => tick(state));
  };
}

function progressOf(state: Shown, now: number): RunProgress {
  const texts = textsFor(state.language);
  const elapsedMs = now - state.startedAt;
  const verb = state.work === 'model' ? texts.progress.thinking : texts.progress[verbs[state.work[0] ?? ''] ?? 'working'];
  const text = `${verb}… ${texts.elapsed(Math.round(elapsedMs / 1000))}`;
  return { runId: state.run.id, conversationId: state.conversationId, place: state.run.place, state: { key: progressKey(state.run.id), language: state.language, text, elapsedMs } };
}
