/** Between the driver and the tools: what each call of a run means now, what the policy says of it, how it is asked about, posted or executed. */
import type { DeliveryReport } from '../adapters/outbox.ts';
import type { Adapter, ChannelRef, Language, OutboxDraft, Place } from '../adapters/types.ts';
import { type Clock, iso, sleep } from '../clock.ts';
import { HermesError, StoreError } from '../errors.ts';
import type { Redactor } from '../redact.ts';
import type { AuditEntry } from '../store/audit.ts';
import { readConversation } from '../store/conversations.ts';
import type { Store } from '../store/store.ts';
import { runTool } from '../tools/execute.ts';
import { consentSha, judgeCall } from '../tools/policy.ts';
import type { Registry } from '../tools/registry.ts';
import type { AnyTool, Level, Resolution, ToolContext, ToolResult } from '../tools/types.ts';
import { parseArguments } from './json.ts';
import { callKey } from './messages.ts';
import type { Offer } from './prompt.ts';
import { estimateTokens } from './tokens.ts';
import type { CallState, Interaction, Judge, Run, Step, ToolCall } from './types.ts';

/** Settings of one group. */
export type GroupSettings = { readonly language: Language; readonly timezone: string; readonly maySendTo: (channel: ChannelRef) => boolean };

export type CallsDeps = {
  readonly store: Store;
  readonly clock: Clock;
  readonly registry: Registry;
  readonly level2: readonly string[];
  readonly timeoutMs: number;
  readonly clarifyExpiryMs: number;
  readonly approvalExpiryMs: number;
  readonly approvalUseWithinMs: number;
  readonly adapterOf: (place: Pick<Place, 'platform' | 'tenant'>) => Adapter | undefined;
  readonly groupOf: (place: Place) => GroupSettings;
  /** Waits until the row with this key is settled, `ms` have passed, or the signal aborts. */
  readonly delivered: (key: string, ms: number, signal: AbortSignal) => Promise<DeliveryReport>;
  readonly redactor: Pick<Redactor, 'text' | 'holdsSecret'>;
};

export type PostedMessage = { readonly draft: OutboxDraft; readonly elsewhere: boolean };

/** The calls of a run as they stand at this moment. */
export type CallView = {
  readonly judge: Judge;
  interaction(state: CallState, id: string, code: string): Interaction;
  message(call: ToolCall, level: Level): PostedMessage | undefined;
  execute(call: ToolCall, signal: AbortSignal): Promise<{ result: ToolResult; ms: number }>;
  refusals(run: Run, steps: readonly Step[], conversationId: string, at: number): AuditEntry[];
};

export type ViewOptions = { readonly language: Language; readonly resolutions: Map<string, Resolution>; readonly signal: AbortSignal };

export type Calls = {
  view(run: Run, options: ViewOptions): Promise<CallView>;
  offer(run: Run): Offer;
  /** `argsText` when what was written may not be kept. */
  parse(name: string, argsText: string): { readonly args?: unknown; readonly problem?: string; readonly argsText?: string };
  languageOf(conversationId: string, place: Place): Promise<Language>;
};

const messageWaitMs = 20_000;
/** What arguments mean is looked up within this time. */
const resolveMs = 10_000;

export function createCalls(deps: CallsDeps): Calls {
  const offers = new Map<string, Offer>();
  return {
    view: (run, options) => viewOf(deps, run, options),
    offer(run) {
      const names = run.context?.tools ?? [];
      const key = names.join(' ');
      const offer = offers.get(key) ?? offerOf(deps.registry, names);
      offers.set(key, offer);
      return offer;
    },
    parse(name, argsText) {
      const tool = deps.registry.get(name);
      if (!tool) return { problem: `There is no tool called "${name}".` };
      const parsed = parseArguments(argsText, tool.args);
      // Escaped letter by letter, a secret shows only in the value.
      return deps.redactor.holdsSecret([argsText, parsed]) ? { argsText: '', problem: 'The arguments hold a secret of this installation. Leave it out.' } : parsed;
    },
    async languageOf(conversationId, place) {
      const stored = place.audience === 'direct' ? (await readConversation(deps.store.db, conversationId))?.language : undefined;
      return (stored as Language | null | undefined) ?? deps.groupOf(place).language;
    },
  };
}

function offerOf(registry: Registry, names: readonly string[]): Offer {
  const tools = registry.offered.filter((tool) => names.includes(tool.function.name));
  return { tools, tokens: estimateTokens(JSON.stringify(tools)) };
}

async function viewOf(deps: CallsDeps, run: Run, options: ViewOptions): Promise<CallView> {
  const found = new Map<string, Resolution>();
  for (const state of run.calls) {
    const resolution = await resolutionOf(deps, run, state, options);
    if (resolution) found.set(state.call.id, resolution);
  }
  const resolvedValue = (call: ToolCall) => {
    const resolution = found.get(call.id);
    return resolution?.ok ? resolution.value : undefined;
  };
  const judge: Judge = (state, current) =>
    judgeCall(state, current, { tool: deps.registry.get(state.call.name), resolution: found.get(state.call.id), now: deps.clock.now(), level2: deps.level2, approvalUseWithinMs: deps.approvalUseWithinMs, degraded: deps.store.degraded() });
  return {
    judge,
    interaction: (state, id, code) => interactionFor(deps, { state, id, code, resolution: found.get(state.call.id) }),
    message(call, level) {
      const posted = deps.registry.get(call.name)?.message?.(call.args, resolvedValue(call), { ...contextOf(deps, run, call, options.language), signal: options.signal });
      if (!posted) return undefined;
      const message = { key: callKey(run.id, call.id), language: options.language, ...posted };
      const sameChannel = posted.place.channel === run.place.channel && posted.place.thread === run.place.thread;
      return { elsewhere: !sameChannel, draft: { kind: 'group_message', runId: run.id, level, message } };
    },
    async execute(call, signal) {
      const tool = deps.registry.get(call.name);
      if (!tool) return { result: { ok: false, error: 'not_found', content: `There is no tool called "${call.name}".` }, ms: 0 };
      if (tool.message) return deliveredResult(deps, callKey(run.id, call.id), signal);
      const timeoutMs = tool.timeoutMs ?? deps.timeoutMs;
      return runTool({ tool, args: call.args, resolved: resolvedValue(call), context: contextOf(deps, run, call, options.language), signal, timeoutMs, clock: deps.clock, clean: deps.redactor.text });
    },
    refusals: (after, steps, conversationId, at) => refusalsIn(after, steps, { conversationId, at }),
  };
}

/** Looked up once per call, and again after each approval: what was approved must still mean the same. */
async function resolutionOf(deps: CallsDeps, run: Run, state: CallState, options: ViewOptions): Promise<Resolution | undefined> {
  const { call } = state;
  const tool = deps.registry.get(call.name);
  if (!tool?.resolve || call.problem !== undefined) return undefined;
  const key = `${call.id}:${state.approval?.interactionId ?? ''}`;
  const known = options.resolutions.get(key);
  if (known || state.state === 'finished') return known;
  const { resolve } = tool;
  const context = contextOf(deps, run, state.call, options.language);
  const resolution = await lookedUp(deps, call.name, options.signal, (signal) => resolve(call.args, { ...context, signal }));
  options.resolutions.set(key, resolution);
  return resolution;
}

/** A platform that hangs or fails must not take the run with it: the call is refused, and the model reads why. */
async function lookedUp(deps: CallsDeps, name: string, ended: AbortSignal, resolve: (signal: AbortSignal) => Promise<Resolution>): Promise<Resolution> {
  const enough = new AbortController();
  const signal = AbortSignal.any([ended, enough.signal]);
  const late = sleep(deps.clock, resolveMs, signal).then(() => notLookedUp(name, 'timeout', `within ${resolveMs / 1000} s`));
  try {
    return await Promise.race([resolve(signal), late]);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    return notLookedUp(name, 'network', error instanceof HermesError ? `at the moment (${error.code})` : 'at the moment');
  } finally {
    enough.abort('enough');
  }
}

function notLookedUp(name: string, error: 'timeout' | 'network', when: string): Resolution {
  return { ok: false, result: { ok: false, error, content: `Not executed: what the arguments of ${name} mean could not be looked up ${when}. Try it once more, or say what was not done.` } };
}

function contextOf(deps: CallsDeps, run: Run, call: ToolCall, language: Language): Omit<ToolContext, 'signal'> {
  const group = deps.groupOf(run.place);
  const adapter = deps.adapterOf(run.place);
  return {
    runId: run.id,
    callId: call.id,
    place: run.place,
    asker: run.asker,
    language,
    timezone: group.timezone,
    clock: deps.clock,
    findChannels: async (nameOrId) => (await adapter?.findChannels?.(nameOrId)) ?? [],
    maySendTo: (channel) => channel.id === run.place.channel || group.maySendTo(channel),
  };
}

function interactionFor(deps: CallsDeps, facts: { state: CallState; id: string; code: string; resolution: Resolution | undefined }): Interaction {
  const { state, id, code, resolution } = facts;
  const { call } = state;
  const tool = deps.registry.get(call.name) as AnyTool;
  const sha = consentSha(call.name, call.args, resolution);
  const base = { id, callId: call.id, code, tool: call.name, sha, mayAnswer: { kind: 'asker' } as const, needed: 1 };
  const asked = tool.asks?.(call.args);
  if (asked) return { ...base, kind: 'clarify', question: asked.question, options: asked.options, expiresInMs: deps.clarifyExpiryMs };
  const resolved = resolution?.ok ? resolution : undefined;
  return { ...base, kind: 'approval', question: resolved?.shown ?? '', options: [], args: call.args, resolved: resolved?.value ?? null, expiresInMs: deps.approvalExpiryMs };
}

/** The delivery of its row is the result of a call that posts. */
async function deliveredResult(deps: CallsDeps, key: string, signal: AbortSignal): Promise<{ result: ToolResult; ms: number }> {
  const startedAt = deps.clock.now();
  const outcome = await deps.delivered(key, messageWaitMs, signal);
  return { result: resultOf(outcome, deps.clock.now()), ms: Math.max(0, deps.clock.now() - startedAt) };
}

function resultOf(outcome: DeliveryReport, now: number): ToolResult {
  switch (outcome.state) {
    case 'sent':
      return { ok: true, content: `Posted 1 message at ${iso(now)}${outcome.platformMessageId ? ` (message ${outcome.platformMessageId})` : ''}.` };
    case 'waiting':
      return { ok: true, content: 'Queued, not delivered yet: the platform does not take it at the moment. It is sent as soon as it does. Say so; do not post it again.' };
    case 'unknown':
      return { ok: false, error: 'outcome_unknown', content: 'Whether the message was posted is unknown, and it is not repeated. Tell the person to look.' };
    case 'withdrawn':
      return { ok: false, error: 'business', content: 'The message was withdrawn before it was posted.' };
    case 'failed':
      return { ok: false, error: 'business', content: `The message could not be posted: ${outcome.error ?? 'the platform refused it'}. Nothing was posted elsewhere instead.` };
  }
}

/** Calls that the policy refused, for the audit. */
function refusalsIn(run: Run, steps: readonly Step[], where: { conversationId: string; at: number }): AuditEntry[] {
  return steps.flatMap((step): AuditEntry[] => {
    if (step.type !== 'tool_finished' || step.result.ok || step.result.error === 'outcome_unknown') return [];
    const name = run.calls.find((state) => state.call.id === step.callId)?.call.name ?? '';
    return [{ ...where, kind: 'refusal', actor: 'hermes', runId: run.id, subject: step.callId, data: { tool: name, error: step.result.error } }];
  });
}

/** Without look-alikes: no 0, 1, I, L, O. */
const codeLetters = '23456789ABCDEFGHJKMNPQRSTUVWXYZ';

export function newCode(random: () => number): string {
  return Array.from({ length: 4 }, () => codeLetters[Math.floor(random() * codeLetters.length)] ?? 'A').join('');
}
