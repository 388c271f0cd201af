/** Changes in the console's chat, as they happen (server-sent events). */
import type { Hono } from 'hono';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import { directUser } from '../adapters/console/parse-ids.ts';
import type { ConsoleChange } from '../adapters/console/types.ts';
import { sleep } from '../clock.ts';
import type { HttpDeps } from './deps.ts';

const pingMs = 15_000;

export function eventRoutes(app: Hono, { console, clock }: Pick<HttpDeps, 'console' | 'clock'>): void {
  app.get('/api/events', (c) => {
    const user = c.req.query('user');
    c.header('X-Accel-Buffering', 'no');
    return streamSSE(c, async (stream) => {
      const left = new AbortController();
      stream.onAbort(() => left.abort());
      const writer = createWriter(stream);
      const unsubscribe = console.subscribe((change) => {
        if ((directUser(change.channel) ?? user) === user) writer.write(change);
      });
      try {
        await stream.write(': connected\n\n');
        for (;;) {
          await sleep(clock, pingMs, left.signal);
          if (left.signal.aborted) return;
          await stream.write(': ping\n\n');
        }
      } finally {
        unsubscribe();
      }
    });
  });
}

/** A client that reads slowly is told of each thread once, however often it changed meanwhile. */
function createWriter(stream: SSEStreamingApi): { write(change: ConsoleChange): void } {
  const waiting = new Map<string, ConsoleChange>();
  let writing = false;
  const pump = async () => {
    writing = true;
    for (const [key, change] of waiting) {
      waiting.delete(key);
      await stream.writeSSE({ event: 'change', data: JSON.stringify({ channel: change.channel, thread: change.thread }) });
    }
    writing = false;
  };
  return {
    write(change) {
      waiting.set(`${change.channel}/${change.thread}`, change);
      if (!writing) void pump();
    },
  };
}
