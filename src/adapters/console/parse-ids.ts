/** Names and ids as they arrive from a browser. Pure. */
import { HermesError } from '../../errors.ts';
import type { PersonRef, Place } from '../types.ts';

/** The request cannot be carried out as it stands. `message` is for the person who made it. */
export class ConsoleError extends HermesError {
  readonly code: 'invalid' | 'forbidden' | 'not_ready';
  readonly retryable: boolean;
  constructor(code: ConsoleError['code'], message: string) {
    super(message);
    this.code = code;
    this.retryable = code === 'not_ready';
  }
}

export const botUser = 'hermes';
const tenant = 'local';
const name = /^[\p{L}\p{N}_-]{1,64}$/u;
const rule = '1 to 64 letters, digits, _ or -';

/** A person of the console. Nobody speaks as the bot, or as a person of another platform. */
export function checkUser(user: string): string {
  refuseOtherPlatforms('user', user);
  if (!name.test(user)) throw new ConsoleError('invalid', `user: must be ${rule}, got ${quoted(user)}`);
  if (user.normalize('NFKC').toLowerCase() === botUser) throw new ConsoleError('invalid', `user: "${user}" is the bot itself; nobody can speak as it. Choose another name.`);
  return user;
}

/** A group, or `@user`: the direct chat of that person. */
export function checkChannel(channel: string): string {
  refuseOtherPlatforms('channel', channel);
  const person = directUser(channel);
  if (person === undefined && !name.test(channel)) throw new ConsoleError('invalid', `channel: must be ${rule}, or @user for a direct chat, got ${quoted(channel)}`);
  if (person !== undefined) checkUser(person);
  return channel;
}

/** Whose direct chat this is; undefined for groups. */
export function directUser(channel: string): string | undefined {
  return channel.startsWith('@') ? channel.slice(1) : undefined;
}

/** Only the person a direct chat belongs to reads it or writes in it. */
export function checkAccess(channel: string, user: string | undefined): void {
  const person = directUser(channel);
  if (person !== undefined && person !== user) throw new ConsoleError('forbidden', `channel: ${channel} is the direct chat of ${person}; only user ${person} can read it or write in it.`);
}

/** The id of a message, given as such or as its whole key. */
export function messageIdIn(field: string, value: string): string {
  refuseOtherPlatforms(field, value);
  return value.startsWith(`console:${tenant}:`) ? (value.split(':').at(-1) ?? '') : value;
}

export const keyOf = (message: { readonly channel: string; readonly messageId: string }): string => `console:${tenant}:${message.channel}:${message.messageId}`;

export function personOf(user: string): PersonRef {
  return { id: `console:${tenant}:${user}`, name: user, isBot: user === botUser, external: false };
}

/** The console's name for a person; undefined for people of other platforms. */
export function userOf(person: Pick<PersonRef, 'id'>): string | undefined {
  const prefix = `console:${tenant}:`;
  return person.id.startsWith(prefix) ? person.id.slice(prefix.length) : undefined;
}

export function placeIn(channel: string, thread: string): Place {
  return { platform: 'console', tenant, channel, thread, audience: directUser(channel) === undefined ? 'group' : 'direct' };
}

function refuseOtherPlatforms(field: string, value: string): void {
  if (!/^(slack|feishu|wecom|login|command_line):/i.test(value)) return;
  throw new ConsoleError('forbidden', `${field}: ${quoted(value)} belongs to another platform; here only people and channels of the console can be named.`);
}

const quoted = (value: string): string => JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
