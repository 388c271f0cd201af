/** The real process, started as users start it, spoken to over HTTP. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export type Line = {
  readonly key: string;
  readonly thread: string;
  readonly user: string;
  readonly text: string;
  readonly at: string;
  readonly buttons?: readonly { readonly interactionId: string; readonly choice: string; readonly label: string }[];
};

const root = fileURLToPath(new URL('../../', import.meta.url));

export function dataFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'hermes-process-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Whatever a failed test left behind would keep the test process waiting for ever. */
const alive = new Set<ChildProcess>();
export function killLeftovers(): void {
  for (const child of alive) child.kill('SIGKILL');
}

export class HermesProcess {
  readonly address: string;
  readonly child: ChildProcess;
  readonly output: string[];

  private constructor(child: ChildProcess, address: string, output: string[]) {
    this.child = child;
    this.address = address;
    this.output = output;
  }

  static async start(options: { data: string; port?: number; env?: Record<string, string>; args?: string[]; onOutput?: (all: string) => void }): Promise<HermesProcess> {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, ['--max-semi-space-size=8', join(root, 'bin/hermes.js'), 'start', '--port', String(options.port ?? 0), ...(options.args ?? [])], {
      cwd: options.data,
      env: { PATH, HOME, HERMES_DATA_DIR: options.data, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    alive.add(child);
    child.once('exit', () => alive.delete(child));
    const output: string[] = [];
    const address = await new Promise<string>((resolve, reject) => {
      const read = (chunk: Buffer) => {
        output.push(chunk.toString());
        options.onOutput?.(output.join(''));
        const found = /open (http:\/\/\S+) in a browser/.exec(output.join(''));
        if (found?.[1]) resolve(found[1]);
      };
      child.stdout?.on('data', read);
      child.stderr?.on('data', read);
      child.once('exit', (code) => reject(new Error(`ended with ${code} before it was ready:\n${output.join('')}`)));
    });
    return new HermesProcess(child, address, output);
  }

  get port(): number {
    return Number(new URL(this.address).port);
  }

  /** As `kill -9` does it. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await once(this.child, 'exit');
  }

  /** The exit code after SIGTERM. */
  async terminate(): Promise<number | null> {
    const ended = once(this.child, 'exit') as Promise<[number | null]>;
    this.child.kill('SIGTERM');
    return (await ended)[0];
  }

  async request(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
    const response = await fetch(`${this.address}${path}`, { method, ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }) });
    return { status: response.status, body: await response.json() };
  }

  async say(message: { channel: string; user: string; text: string; thread?: string; mention?: boolean }): Promise<{ key: string; thread: string }> {
    const { status, body } = await this.request('POST', '/api/console/messages', message);
    if (status !== 200 && status !== 201) throw new Error(`POST /api/console/messages answered ${status}: ${JSON.stringify(body)}`);
    return body as { key: string; thread: string };
  }

  async messages(channel: string, thread?: string): Promise<Line[]> {
    const query = new URLSearchParams({ channel, ...(thread === undefined ? {} : { thread }) });
    const { body } = await this.request('GET', `/api/console/messages?${query}`);
    return (body as { messages: Line[] }).messages;
  }

  /** What the bot says in this thread, once something fits. */
  async waitFor(channel: string, thread: string | undefined, fits: (line: Line) => boolean): Promise<Line> {
    for (const deadline = Date.now() + 20_000; ; ) {
      const lines = await this.messages(channel, thread);
      const found = lines.find((line) => line.user === 'hermes' && fits(line));
      if (found) return found;
      if (Date.now() > deadline) throw new Error(`waited in vain in ${channel}; there is: ${JSON.stringify(lines)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async press(line: Line, label: string | RegExp, user: string): Promise<{ state: string; notice?: string }> {
    const button = line.buttons?.find((b) => (typeof label === 'string' ? b.label === label : label.test(b.label)));
    if (!button) throw new Error(`no button ${label} on: ${JSON.stringify(line)}`);
    const { body } = await this.request('POST', `/api/interactions/${encodeURIComponent(button.interactionId)}`, { user, choice: button.choice });
    return body as { state: string; notice?: string };
  }
}
