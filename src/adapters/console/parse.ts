/** A stored message of a person as the agent reads it. Pure. */
import type { ContentPart, IncomingMessage, MessageChange, PersonRef } from '../types.ts';
import { botUser, ConsoleError, directUser, keyOf, personOf, placeIn } from './parse-ids.ts';
import type { ConsoleMessage } from './types.ts';

const longestText = 20_000;
/** Han letters may stand right beside a name, Latin ones make it another word (or a mail address). */
const botMention = /(?<![\p{Script=Latin}\p{N}_.@-])@hermes(?![\p{Script=Latin}\p{N}_-])[,，:：、]?/giu;
const otherMention = /(?<![\p{Script=Latin}\p{N}_.@-])@([\p{L}\p{N}_-]{1,64})/gu;
const everybody = /^(all|channel|here|everyone|group)$|^(所有人|全体成员|全员)/i;

/** The bot's own mention is taken out; a call to everybody is nobody's mention. */
export function readText(text: string): { text: string; namesBot: boolean; mentions: PersonRef[] } {
  const namesBot = text.search(botMention) >= 0;
  const rest = text.replace(new RegExp(`([ \\t]?)${botMention.source}([ \\t]?)`, 'giu'), (_, before: string, after: string) => (before && after ? before : '')).trim();
  const names = [...rest.matchAll(otherMention)].map((match) => match[1] ?? '').filter((word) => !everybody.test(word));
  return { text: rest, namesBot, mentions: [...new Set(names)].map(personOf) };
}

/** What people may write; NUL and torn surrogates, which no database keeps, are replaced. */
export function checkText(text: string, mayBeEmpty: boolean): string {
  if (text.length > longestText) throw new ConsoleError('invalid', `text: at most ${longestText} characters, got ${text.length}`);
  if (text.trim() === '' && !mayBeEmpty) throw new ConsoleError('invalid', 'text: must not be empty, unless the bot is mentioned');
  return text.toWellFormed().replaceAll('\0', '\ufffd');
}

export function incomingOf(message: ConsoleMessage, quoted?: ConsoleMessage): IncomingMessage {
  const { text, mentions } = readText(message.text);
  return {
    type: 'message',
    key: keyOf(message),
    place: placeIn(message.channel, message.thread),
    at: new Date(message.at).toISOString(),
    author: personOf(message.author),
    content: content(text),
    mentionsBot: mentionsBot(message),
    mentions,
    ...(quoted ? { quoted: { messageId: quoted.messageId, by: personOf(quoted.author), text: quoted.text } } : {}),
    raw: { text: message.text, mention: message.mention },
  };
}

export function changeOf(message: ConsoleMessage, change: { readonly id: string; readonly kind: 'edited' | 'deleted'; readonly at: number }): MessageChange {
  const of = keyOf(message);
  const base = { type: 'change', key: `${of}/${change.id}`, of, kind: change.kind, place: placeIn(message.channel, message.thread), at: new Date(change.at).toISOString(), by: personOf(message.author) } as const;
  return change.kind === 'deleted' ? base : { ...base, content: content(readText(message.text).text), mentionsBot: mentionsBot(message) };
}

/** In a direct chat every message is meant for the bot. */
export function mentionsBot(message: Pick<ConsoleMessage, 'channel' | 'text' | 'mention' | 'author'>): boolean {
  return message.author !== botUser && (message.mention || directUser(message.channel) !== undefined || readText(message.text).namesBot);
}

const content = (text: string): ContentPart[] => [{ type: 'text', text }];
