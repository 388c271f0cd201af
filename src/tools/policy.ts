/** Who may do what, at this moment. Pure: it is asked again right before each call and each press. */
import { createHash } from 'node:crypto';
import type { PersonRef, Place } from '../adapters/types.ts';
import type { CallState, MayAnswer, Run, Verdict } from '../agent/types.ts';
import type { AnyTool, Level, Resolution, ToolResult } from './types.ts';

export type PolicyFacts = {
  readonly tool: AnyTool | undefined;
  /** What the arguments mean now; undefined for tools that have nothing to look up. */
  readonly resolution: Resolution | undefined;
  readonly now: number;
  readonly level2: readonly string[];
  readonly approvalUseWithinMs: number;
  /** Why storage cannot be trusted at the moment. */
  readonly degraded: string | undefined;
};

/** The verdict on one call; the rule that decided stands in a refusal. */
export function judgeCall(state: CallState, run: Run, facts: PolicyFacts): Verdict {
  const { call } = state;
  const { tool, resolution } = facts;
  const others = (run.context?.tools ?? []).filter((name) => name !== call.name);
  if (!tool || !run.context?.tools.includes(call.name)) return refuse(0, 'unknown_tool', 'not_found', `There is no tool called "${call.name}" here. Available: ${others.join(', ') || 'none'}.`);
  if (call.problem !== undefined) return refuse(0, 'arguments', 'arguments', call.problem);
  if (resolution && !resolution.ok) return { do: 'refuse', level: 0, rule: 'target', result: resolution.result };
  if (tool.asks) return run.trigger.kind === 'command_line' ? refuse(0, 'nobody_to_ask', 'no_answer', 'Nobody can be asked here. Go on with what is known, or say what is missing.') : { do: 'ask', kind: 'clarify', level: 0 };
  const level = levelOf(tool, call.args, run.place, resolution);
  if (level >= 1 && facts.degraded !== undefined) return refuse(level, 'storage', 'business', 'Not executed: nothing can be recorded at the moment, so nothing may be changed. Try again later.');
  if (level < 2) return { do: 'run', level, retrySafe: tool.retrySafe };
  if (!facts.level2.includes(tool.name)) return refuse(2, 'level2_off', 'permission', `Not executed: ${tool.name} cannot be undone here and is switched off. An admin can enable it (tools.level2).`);
  if (run.trigger.kind === 'command_line') return refuse(2, 'no_chat', 'permission', 'Not executed: this cannot be undone, and nobody can confirm it here.');
  return isApproved(state, tool, facts) ? { do: 'run', level, retrySafe: tool.retrySafe } : { do: 'ask', kind: 'approval', level };
}

function refuse(level: Level, rule: string, error: Extract<ToolResult, { ok: false }>['error'], content: string): Verdict {
  return { do: 'refuse', level, rule, result: { ok: false, error, content } };
}

function levelOf(tool: AnyTool, args: unknown, place: Place, resolution: Resolution | undefined): Level {
  return typeof tool.level === 'function' ? tool.level(args, place, resolution?.ok ? resolution.value : undefined) : tool.level;
}

/** Given for exactly this call and what it means now, and recently. A call already begun has used its approval. */
function isApproved(state: CallState, tool: AnyTool, facts: PolicyFacts): boolean {
  const { approval } = state;
  if (!approval) return false;
  if (state.state === 'orphan') return true;
  const fresh = facts.now - approval.at <= facts.approvalUseWithinMs;
  return fresh && approval.sha === consentSha(tool.name, state.call.args, facts.resolution);
}

/** What a consent is bound to: the tool, the exact arguments, and what they mean. */
export function consentSha(tool: string, args: unknown, resolution: Resolution | undefined): string {
  const meaning = resolution?.ok ? resolution.value : null;
  return createHash('sha256')
    .update(canonical([tool, args, meaning]))
    .digest('hex');
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(',')}}`;
}

/** Bots and externals neither ask nor press. */
export function mayAsk(person: PersonRef): boolean {
  return !person.isBot && !person.external;
}

export function mayAnswer(rule: MayAnswer, person: PersonRef, asker: string): boolean {
  if (!mayAsk(person)) return false;
  switch (rule.kind) {
    case 'asker':
      return person.id === asker;
    case 'people':
      return rule.ids.includes(person.id);
    case 'members':
      return true;
  }
}
