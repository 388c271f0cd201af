/** A button pressed, or a decision in words: who may decide is asked at this moment, and every press is recorded, also the refused ones. */
import type { Language, OutboundMessage, PersonRef, Receipt } from '../adapters/types.ts';
import { writeAudit } from '../store/audit.ts';
import type { InteractionRow } from '../store/interactions.ts';
import { outboxOfInteraction } from '../store/outbox.ts';
import { requeue } from '../store/runs.ts';
import type { Reader } from '../store/schema.ts';
import { textsFor } from '../texts.ts';
import { mayAnswer } from '../tools/policy.ts';
import type { Doing, InboxDeps } from './inbox.ts';
import { settledCard, whoMayAnswer } from './messages.ts';
import { loadRun, record } from './recorder.ts';
import { decide } from './run.ts';
import type { Interaction, Outcome, Run, Step } from './types.ts';

export type Press = { readonly row: InteractionRow; readonly by: PersonRef; readonly choice?: string; readonly text?: string; readonly reason?: string };
export type PressDeps = Pick<InboxDeps, 'store' | 'languageFor'>;

export async function pressInteraction(deps: PressDeps, doing: Doing, press: Press): Promise<Receipt> {
  const { row, by } = press;
  const loaded = row.run_id === null ? undefined : await loadRun(doing.tx, row.run_id);
  if (!loaded) return { state: 'unknown' };
  const interaction = JSON.parse(row.body) as Interaction;
  const language = await cardLanguage(deps, doing.tx, row, loaded.run);
  const texts = textsFor(language);
  if (row.resolved_at !== null) return settledReceipt(deps, doing, { press, run: loaded.run, interaction, outcome: JSON.parse(row.outcome ?? '{}') as Outcome });
  const entitled = mayAnswer(interaction.mayAnswer, by, loaded.run.asker.id) || 'not entitled';
  const { choice, text, reason } = press;
  const steps = decide(loaded.run, {
    kind: 'resolve',
    at: doing.at,
    by,
    interactionId: row.id,
    entitled,
    ...(choice === undefined ? {} : { choice }),
    ...(text === undefined ? {} : { text }),
    ...(reason === undefined ? {} : { reason }),
    ...(row.expires_at === null ? {} : { expiresAt: row.expires_at }),
  });
  await record(doing.tx, deps.store.dialect, { run: loaded.run, conversationId: loaded.row.conversation_id, language, steps, at: doing.at });
  const outcome = steps.find((step) => step.type === 'interaction_resolved')?.outcome;
  if (outcome) {
    await requeue(doing.tx, loaded.run.id);
    doing.moved.push(loaded.run.id);
  }
  return receiptFor({ steps, outcome, run: loaded.run, interaction, language, texts });
}

/** The card speaks the language it was shown in. */
export async function cardLanguage(deps: Pick<InboxDeps, 'languageFor'>, db: Reader, row: InteractionRow, run: Run): Promise<Language> {
  const shown = await outboxOfInteraction(db, row.id);
  return shown ? (JSON.parse(shown.body) as OutboundMessage).language : deps.languageFor(run.place);
}

function receiptFor(facts: { steps: readonly Step[]; outcome: Outcome | undefined; run: Run; interaction: Interaction; language: Language; texts: ReturnType<typeof textsFor> }): Receipt {
  const { outcome, run, interaction, language, texts, steps } = facts;
  if (outcome) {
    const card = settledCard(run, interaction, outcome, language);
    return outcome.kind === 'expired' ? { state: 'expired', card, notice: texts.expired } : { state: 'accepted', card };
  }
  const pressed = steps.find((step) => step.type === 'interaction_pressed');
  if (pressed?.reason === 'not entitled') return { state: 'not_entitled', notice: texts.notEntitled(whoMayAnswer(interaction.mayAnswer, run.asker, language)) };
  if (pressed?.reason === 'already pressed') return { state: 'already_decided', notice: texts.alreadyDecided };
  return pressed?.counted ? { state: 'accepted' } : { state: 'unknown', notice: texts.notADecision };
}

/** A second press: the card shows the true state, nothing runs twice, and the press is on record. */
async function settledReceipt(deps: PressDeps, doing: Doing, facts: { press: Press; run: Run; interaction: Interaction; outcome: Outcome }): Promise<Receipt> {
  const { press, run, interaction, outcome } = facts;
  const language = await cardLanguage(deps, doing.tx, press.row, run);
  const texts = textsFor(language);
  const state = outcome.kind === 'expired' ? 'expired' : 'already_decided';
  await writeAudit(doing.tx, [{ at: doing.at, kind: 'press', actor: press.by.id, runId: run.id, conversationId: press.row.conversation_id, subject: press.row.id, data: { counted: false, reason: state } }], deps.store.dialect);
  return { state, card: settledCard(run, interaction, outcome, language), notice: state === 'expired' ? texts.expired : texts.alreadyDecided };
}
