/** The console's chat over HTTP. `user` is always a person of the console, never one of another platform. */
import type { Hono } from 'hono';
import { z } from 'zod';
import { NotFoundError } from '../errors.ts';
import { readInteraction } from '../store/interactions.ts';
import { count, readBody, readQuery } from './body.ts';
import type { HttpDeps } from './deps.ts';
import { RequestError } from './errors.ts';

const optional = z
  .string()
  .nullish()
  .transform((value) => value ?? undefined);

const newMessage = z.strictObject({ channel: z.string(), user: z.string(), text: z.string().prefault(''), thread: optional, mention: z.boolean().optional(), quote: optional });
const changedMessage = z.strictObject({ user: optional, text: z.string() });
const deletedMessage = z.strictObject({ user: optional });
const answer = z.strictObject({ user: z.string(), choice: z.string().max(2000).optional(), text: z.string().optional() });
const reading = z.object({ channel: z.string(), thread: optional, user: optional, limit: count(5000, 2000) });

export function consoleRoutes(app: Hono, { console, store }: Pick<HttpDeps, 'console' | 'store'>): void {
  app.get('/api/console/channels', async (c) => c.json({ channels: await console.channels() }));
  app.get('/api/console/messages', async (c) => c.json({ messages: await console.messages(given(readQuery(c, reading))) }));
  app.post('/api/console/messages', async (c) => c.json(await console.postMessage(given(await readBody(c, newMessage)))));
  app.patch('/api/console/messages/:key', async (c) => {
    const { user, text } = await readBody(c, changedMessage);
    await console.editMessage(c.req.param('key'), user, text);
    return c.json({ key: c.req.param('key') });
  });
  app.delete('/api/console/messages/:key', async (c) => {
    const { user } = await readBody(c, deletedMessage);
    await console.deleteMessage(c.req.param('key'), user ?? c.req.query('user'));
    return c.json({ key: c.req.param('key') });
  });
  app.post('/api/interactions/:id', async (c) => {
    const request = await readBody(c, answer);
    const row = await readInteraction(store.db, c.req.param('id'));
    if (!row) throw new NotFoundError(`There is no interaction ${c.req.param('id')}.`);
    if (row.platform !== 'console') throw new RequestError('forbidden', `This question was asked on ${row.platform}; it can only be answered there.`);
    const { state, notice } = await console.press(row.id, given(request));
    return c.json({ state, ...(notice === undefined ? {} : { notice }) });
  });
}

type Given<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

/** Fields left out are absent, not undefined. */
function given<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Given<T>;
}
