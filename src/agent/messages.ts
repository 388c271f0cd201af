/** What people read because of a step. Pure: the same step gives the same message under the same key, however often it is asked. */

import { hasInvisible, label, visible } from '../adapters/shared/visible.ts';
import type { Button, Language, OutboundMessage, OutboxDraft, PersonRef } from '../adapters/types.ts';
import { textsFor } from '../texts.ts';
import type { Interaction, MayAnswer, Outcome, RecordedStep, Run } from './types.ts';

const cardKey = (interactionId: string): string => `${interactionId}/card`;
const settledKey = (interactionId: string): string => `${interactionId}/settled`;
export const callKey = (runId: string, callId: string): string => `${runId}/call/${callId}`;

/** Messages that `step` leads to; `run` is the run before it. */
export function draftsFor(run: Run, step: RecordedStep, language: Language): OutboxDraft[] {
  const texts = textsFor(language);
  switch (step.type) {
    case 'model_requested':
      // The run goes on because a message joined; what was already answered is posted.
      return run.reply?.text ? [answer(run, `${run.id}/reply/${run.reply.seq}`, run.reply.text, language)] : [];
    case 'run_completed':
      return step.stop === 'silent' ? [] : [answer(run, `${run.id}/answer`, step.text || texts.emptyAnswer, language)];
    case 'run_failed':
      return [answer(run, `${run.id}/failed`, failureText(run, step.error.code, language), language)];
    case 'run_cancelled':
      return step.reason === 'asked' ? [{ kind: 'receipt', runId: run.id, message: message(run, `${run.id}/stopped`, texts.stopped(label(step.by)), language) }] : [];
    case 'interaction_opened':
      return [{ kind: 'question', runId: run.id, interactionId: step.interaction.id, message: card(run, step.interaction, language) }];
    case 'interaction_resolved': {
      const found = run.open.find((o) => o.interaction.id === step.interactionId);
      return found ? [{ kind: 'receipt', runId: run.id, interactionId: step.interactionId, message: settledCard(run, found.interaction, step.outcome, language) }] : [];
    }
    default:
      return [];
  }
}

function message(run: Run, key: string, markdown: string, language: Language): OutboundMessage {
  return { key, place: run.place, language, markdown };
}

function answer(run: Run, key: string, markdown: string, language: Language): OutboxDraft {
  return { kind: run.trigger.kind === 'schedule' ? 'report' : 'answer', runId: run.id, message: message(run, key, markdown, language) };
}

/** In plain words: what was done, what failed and how often, what a person can do; no internals. */
function failureText(run: Run, code: string, language: Language): string {
  const texts = textsFor(language);
  const results = run.transcript.flatMap((entry) => (entry.kind === 'model' ? entry.toolCalls : [])).map((call) => ({ name: call.name, result: run.results[call.id] }));
  const done = results.filter(({ result }) => result?.ok);
  const failed = results.filter(({ result }) => result && !result.ok && result.error !== 'declined' && result.error !== 'no_answer');
  // A new thread is what helps there; later is no better.
  const advice = code === 'context_length' ? '' : texts.tryAgain;
  return [texts.failed[code] ?? texts.failed.other, texts.failedAdvice({ done: counted(done), failed: counted(failed) }), advice].filter(Boolean).join('\n');
}

function counted(calls: readonly { readonly name: string }[]): string {
  const times = new Map<string, number>();
  for (const { name } of calls) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name)).join(', ');
}

// ---------------------------------------------------------------- cards

function card(run: Pick<Run, 'place' | 'asker'>, interaction: Interaction, language: Language): OutboundMessage {
  const base = { key: cardKey(interaction.id), place: run.place, language, markdown: cardText(interaction, run.asker, language) };
  const texts = textsFor(language);
  if (interaction.kind === 'approval') {
    const buttons: Button[] = [
      { interactionId: interaction.id, choice: 'approve', label: texts.approve, style: 'danger' },
      { interactionId: interaction.id, choice: 'deny', label: texts.deny },
    ];
    return { ...base, buttons };
  }
  const buttons = interaction.options.map((option): Button => ({ interactionId: interaction.id, choice: option, label: option }));
  return { ...base, ...(buttons.length > 0 ? { buttons } : {}), input: { interactionId: interaction.id, label: texts.answerLabel } };
}

/** Complete without buttons: it carries the options by number and the typed form. */
function cardText(interaction: Interaction, asker: PersonRef, language: Language): string {
  const texts = textsFor(language);
  if (interaction.kind === 'approval') return `${approvalText(interaction, asker, language)}\n\n${texts.approveHow(interaction.code)}`;
  const options = interaction.options.map((option, index) => `${index + 1}. ${visible(option)}`).join('\n');
  const question = texts.clarify(label(asker), visible(interaction.question));
  return [question, ...(options ? [options] : []), `${texts.clarifyHow(options !== '')} \`${interaction.code}\``].join('\n\n');
}

/** Exactly what will be done. What cannot be seen is named, and a warning says so. */
function approvalText(interaction: Interaction, asker: PersonRef, language: Language): string {
  const texts = textsFor(language);
  const args = argumentLines(interaction.args);
  const text = texts.approval({
    tool: interaction.tool ?? '',
    code: interaction.code,
    args: visible(args),
    meaning: visible(interaction.question),
    level2: true,
    who: whoMayAnswer(interaction.mayAnswer, asker, language),
    within: texts.duration(interaction.expiresInMs),
  });
  return hasInvisible(args + interaction.question) ? `${text}\n\n${texts.invisibleWarning}` : text;
}

function argumentLines(args: unknown): string {
  if (typeof args !== 'object' || args === null) return JSON.stringify(args);
  const lines = Object.entries(args).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return text.includes('\n') ? `- ${name}:\n${text.replace(/^/gm, '  > ')}` : `- ${name}: ${text}`;
  });
  return lines.length > 0 ? lines.join('\n') : '- –';
}

export function whoMayAnswer(mayAnswer: MayAnswer, asker: PersonRef, language: Language): string {
  const texts = textsFor(language);
  if (mayAnswer.kind === 'asker') return texts.asker(label(asker));
  if (mayAnswer.kind === 'members') return texts.anyMember;
  return mayAnswer.ids.map((id) => label({ id })).join(language === 'zh' ? '、' : ', ');
}

export function settledCard(run: Pick<Run, 'place' | 'asker'>, interaction: Interaction, outcome: Outcome, language: Language): OutboundMessage {
  const texts = textsFor(language);
  const facts = { by: outcome.by ? label(outcome.by) : '', value: visible(outcome.value ?? outcome.reason ?? '') };
  const above = interaction.kind === 'approval' ? approvalText(interaction, run.asker, language) : texts.clarify(label(run.asker), visible(interaction.question));
  return { key: settledKey(interaction.id), place: run.place, language, replacesKey: cardKey(interaction.id), markdown: `${above}\n\n${texts.settled[outcome.kind](facts)}` };
}
