/**
 * The demo model's decisions. Pure and stateless: all it knows is the conversation. What the newest messages ask for is worked out
 * anew each time, and the tool results since then are dealt out to it in the order in which they were asked for.
 */
import type { Language } from '../adapters/types.ts';
import { languageOf } from '../texts.ts';
import { demoTexts, weekdayIn } from './texts.ts';
import { type Environment, environmentIn, results, understand, type Wish } from './understand.ts';

export type DemoMessage = {
  readonly role: string;
  readonly content?: string | null | readonly { readonly type: string; readonly text?: string | undefined }[] | undefined;
  readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly name: string } }[] | undefined;
  readonly tool_call_id?: string | undefined;
};
export type DemoCall = { readonly name: string; readonly args: Readonly<Record<string, unknown>> };
export type DemoReply = { readonly text: string } | { readonly toolCalls: readonly DemoCall[] };

/** `tools` are the names that may be called now; none when tools are absent or switched off. */
export function demoReply(messages: readonly DemoMessage[], tools: readonly string[]): DemoReply {
  const since = messages.slice(messages.findLastIndex(isAnswer) + 1);
  const results = dealer(since, tools);
  const answers: string[] = [];
  let language: Language = 'en';
  for (const asked of questionsIn(since)) {
    language = spoken(asked, messages);
    const answer = answerTo(asked, language, results);
    if (typeof answer !== 'string') return { toolCalls: [answer] };
    answers.push(answer);
  }
  const texts = demoTexts[language];
  return { text: `${answers.join('\n\n') || texts.help}\n\n${texts.label}` };
}

const isAnswer = (message: DemoMessage): boolean => message.role === 'assistant' && (message.tool_calls ?? []).length === 0;

// ---------------------------------------------------------------- the conversation

/** The product's own word before a last call, which nobody asked. */
const lastCallNote = /^(?:No more tools can be called now\.|现在不能再调用工具。)/;
const backgroundData = /<context>[\s\S]*?<\/context>/g;
const speaker = /^\[[^\]\n]{1,100}\]:[ \t]?/gm;

/** What people asked, one entry for each of them who wrote. */
function questionsIn(messages: readonly DemoMessage[]): string[] {
  return messages
    .filter((message) => message.role === 'user')
    .map((message) => textOf(message).replace(backgroundData, ''))
    .filter((text) => !lastCallNote.test(text))
    .flatMap((text) => text.split(speaker))
    .map((text) => text.trim())
    .filter((text) => text !== '');
}

function textOf({ content }: DemoMessage): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join('');
}

/** A bare calculation has no language; then the product's own instructions tell that of the group. */
function spoken(asked: string, messages: readonly DemoMessage[]): Language {
  const words = asked.replace(/[#＃]\S+/gu, '');
  if (/\p{L}/u.test(words)) return languageOf(words);
  const system = messages.find((message) => message.role === 'system');
  return /[\uff01-\uff5e]/.test(words) ? 'zh' : languageOf(system ? textOf(system) : '');
}

/** Gives the result of a call: made already, to be made now (undefined), or impossible. */
type Dealer = (name: string) => { readonly result: string } | 'unavailable' | undefined;

/** Calls are made one at a time and in order, so the next result of that name belongs to whoever asks next. */
function dealer(messages: readonly DemoMessage[], tools: readonly string[]): Dealer {
  const made = messages.flatMap((message) => message.tool_calls ?? []);
  const resultOf = (id: string) => messages.find((message) => message.role === 'tool' && message.tool_call_id === id);
  let from = 0;
  return (name) => {
    const index = made.findIndex((call, i) => i >= from && call.function.name === name);
    const call = made[index];
    if (!call) return tools.includes(name) ? undefined : 'unavailable';
    from = index + 1;
    const message = resultOf(call.id);
    return { result: message ? textOf(message).trim() : '' };
  };
}

// ---------------------------------------------------------------- answers

/** `value` is what can be passed on to a group; a wish that failed has none. */
type Said = { readonly text: string; readonly value?: string };
const passedOn = (text: string): Said => ({ text, value: text });

/** The answer to one message, or the call it still needs. */
function answerTo(asked: string, language: Language, deal: Dealer): string | DemoCall {
  const said: Said[] = [];
  for (const wish of understand(asked)) {
    const next = fulfil(wish, { language, deal, said });
    if ('name' in next) return next;
    said.push(next);
  }
  return said.map(({ text }) => text).join('\n');
}

type Situation = { readonly language: Language; readonly deal: Dealer; readonly said: readonly Said[] };

function fulfil(wish: Wish, situation: Situation): Said | DemoCall {
  const texts = demoTexts[situation.language];
  switch (wish.kind) {
    case 'calculate':
      return calculate(wish.expression, situation);
    case 'time':
      return tellTime(wish.timezone, situation);
    case 'deploy':
      return deploy(wish.environment, situation);
    case 'post':
      return post(wish, situation);
    case 'greet':
      return { text: `${texts.greeting}\n${texts.help}` };
    case 'thanks':
      return { text: texts.welcome };
    case 'help':
      return { text: texts.help };
  }
}

function calculate(expression: string, { language, deal }: Situation): Said | DemoCall {
  const texts = demoTexts[language];
  const dealt = deal('calculator');
  if (dealt === undefined) return { name: 'calculator', args: { expression } };
  if (dealt === 'unavailable') return { text: texts.notCalculated(texts.unavailable('calculator')) };
  const value = /^.* [=≈] .+$/m.exec(dealt.result)?.[0];
  return value === undefined ? { text: texts.notCalculated(ownWords(dealt.result)) } : passedOn(value);
}

function tellTime(timezone: string | undefined, { language, deal }: Situation): Said | DemoCall {
  const texts = demoTexts[language];
  const dealt = deal('current_time');
  if (dealt === undefined) return { name: 'current_time', args: timezone === undefined ? {} : { timezone } };
  if (dealt === 'unavailable') return { text: texts.noTime(texts.unavailable('current_time')) };
  const [, date, time, weekday, zone, offset] = /(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}):\d{2} on (\w+) in (\S+) \(([^)]+)\)/.exec(dealt.result) ?? [];
  if (!date || !time || !weekday || !zone || !offset) return { text: texts.noTime(ownWords(dealt.result)) };
  return passedOn(texts.time({ date, time, weekday: weekdayIn(language, weekday), zone, offset }));
}

function deploy(environment: Environment | undefined, { language, deal }: Situation): Said | DemoCall {
  const texts = demoTexts[language];
  if (environment) return passedOn(texts.deployed(texts.environments[environment]));
  const dealt = deal('clarify');
  if (dealt === undefined) return { name: 'clarify', args: { question: texts.whichEnvironment, options: Object.values(texts.environments) } };
  if (dealt === 'unavailable') return { text: texts.notDeployed(`${texts.whichEnvironment} (${Object.values(texts.environments).join(' / ')})`) };
  const answer = /\banswered: *([\s\S]+)$/.exec(dealt.result)?.[1]?.trim();
  if (answer === undefined) return { text: texts.notDeployed(ownWords(dealt.result)) };
  const chosen = environmentIn(answer);
  return passedOn(texts.deployed(chosen ? texts.environments[chosen] : answer));
}

function post(wish: Extract<Wish, { kind: 'post' }>, situation: Situation): Said | DemoCall {
  const { language, deal, said } = situation;
  const texts = demoTexts[language];
  const content = wish.content === results ? said.flatMap(({ value }) => value ?? []).join('\n') : (wish.content ?? '');
  const failed = wish.content === results && said.some(({ value }) => value === undefined);
  if (failed) return { text: texts.notPosted(wish.group) };
  if (content === '') return { text: texts.whatToPost(wish.group) };
  const dealt = deal('send_group_message');
  if (dealt === undefined) return { name: 'send_group_message', args: { group_name: wish.group, content } };
  if (dealt === 'unavailable') return { text: texts.declined(wish.group, texts.unavailable('send_group_message')) };
  return { text: postOutcome(dealt.result, { group: wish.group, content, language }) };
}

const declinedWords = /\bdeclined\b|\bdenied\b|已?被?拒绝/i;
const doubtWords = /\bnot\b|n't\b|\bnever\b|\bfail|\brefus|\bunknown\b|\bunable\b|\bcannot\b|\bwithdrawn\b|\bexpired\b|\bnothing\b|没有|未能|失败/i;
const postedWords = /^(?:\S+ )?(?:posted|sent|delivered)\b|已发送|已送达/i;

/** Never more than the result said: where it is not one of the known sentences, its own words are quoted. */
function postOutcome(result: string, { group, content, language }: { group: string; content: string; language: Language }): string {
  const texts = demoTexts[language];
  const first = firstSentence(result);
  if (declinedWords.test(first)) return texts.declined(group, first);
  if (/^queued\b/i.test(first)) return texts.queued(group);
  if (postedWords.test(first) && !doubtWords.test(first)) return texts.posted(group, content);
  return texts.outcome(group, ownWords(result));
}

// ---------------------------------------------------------------- words of a result

const sentenceEnd = /(?<=[.!?。！？])\s+|(?<=[。！？])|\n+/u;
/** Sentences that tell the model what to do are not for people. */
const advice = /^(?:do not|don't|say|tell|try|take|ask|use|write|give|go on|retry|repeat|wait|change|check|put|split|leave)\b/i;

const sentencesOf = (text: string): string[] =>
  text
    .split(sentenceEnd)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== '');

const firstSentence = (text: string): string => sentencesOf(text)[0] ?? '';

/** What a failed result says happened, in at most two sentences. */
function ownWords(result: string): string {
  const facts = sentencesOf(result).filter((sentence) => !advice.test(sentence));
  return facts.slice(0, 2).join(' ') || result || '–';
}
