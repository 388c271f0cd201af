import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import type { Hono } from 'hono';
import { ConfigError } from '../errors.ts';

export type Listening = { readonly port: number; close(): Promise<void> };

/** Throws ConfigError when the address cannot be had. `close` ends open event streams too; they would keep the server waiting for ever. */
export async function listen(app: Hono, { host, port }: { readonly host: string; readonly port: number }): Promise<Listening> {
  const server = createAdaptorServer({ fetch: app.fetch }) as Server;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(new ConfigError([sentenceFor(error, host, port)], { cause: error })));
    server.listen(port, host, () => resolve());
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function sentenceFor(error: NodeJS.ErrnoException, host: string, port: number): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `server.port: ${port} is taken by another program; stop that one, or choose another port with --port or PORT`;
    case 'EACCES':
      return `server.port: this user may not open port ${port}; choose one above 1023 with --port or PORT`;
    default:
      return `server.host: cannot listen on ${host}:${port} (${error.code ?? error.message})`;
  }
}
