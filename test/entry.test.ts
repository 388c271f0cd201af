/** The plain-JavaScript entry under a Node that is too old, in a copy of the tree, so that what is installed here decides nothing. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../', import.meta.url));
const name = process.platform === 'win32' ? 'node.exe' : 'node';
const tooOld = findTooOld();
const why = 'no Node between 14 and 23 is on the PATH';

type Started = { readonly child: ChildProcess; readonly said: () => string; readonly ended: Promise<{ code: number | null; signal: string | null }> };

describe('the entry under an old Node', () => {
  let folder = '';

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'hermes-entry-'));
    cpSync(join(root, 'bin'), join(folder, 'bin'), { recursive: true });
    cpSync(join(root, 'package.json'), join(folder, 'package.json'));
    mkdirSync(join(folder, 'src'));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('says in English and Chinese what was found, what is needed and what to do, and ends with 1', async ({ skip }) => {
    if (tooOld === undefined) return skip(why);
    write('src/cli.ts', "throw new Error('must not be loaded');");
    const { said, ended } = start(tooOld.path, ['start']);
    expect(await ended).toEqual({ code: 1, signal: null });
    const lines = said().trim().split('\n');
    expect(lines).toHaveLength(2);
    for (const line of lines) for (const fact of [tooOld.version, tooOld.path, 'Node.js 24', 'npm ci']) expect(line).toContain(fact);
    expect(lines[0]).toMatch(/needs .* or newer/);
    expect(lines[1]).toMatch(/需要.*请安装/);
  });

  test('goes on with the Node of the npm package "node", with the same arguments and its exit code', async ({ skip }) => {
    if (tooOld === undefined) return skip(why);
    installNode(process.versions.node);
    write('src/cli.ts', "const answer: number = 7;\nconsole.log('v' + process.versions.node, process.argv.slice(2).join(' '));\nprocess.exitCode = answer;");
    const { said, ended } = start(tooOld.path, ['run', 'two words']);
    expect(await ended).toEqual({ code: 7, signal: null });
    expect(said().trim()).toBe(`v${process.versions.node} run two words`);
  });

  test.for(['SIGTERM', 'SIGINT'] as const)('passes %s on and ends only when the other process has', async (signal, { skip }) => {
    if (tooOld === undefined) return skip(why);
    installNode(process.versions.node);
    write('src/cli.ts', `let n = 0;\nprocess.on('${signal}', () => setTimeout(() => { console.log('closed', ++n); process.exit(3); }, 200));\nsetInterval(() => {}, 1000);\nconsole.log('up');`);
    const { child, said, ended } = start(tooOld.path, ['start']);
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    child.kill(signal);
    expect(await ended).toEqual({ code: 3, signal: null });
    expect(said()).toBe('up\nclosed 1\n');
  });

  test('reports a process ended by a signal the way a shell does', async ({ skip }) => {
    if (tooOld === undefined) return skip(why);
    installNode(process.versions.node);
    write('src/cli.ts', "process.kill(process.pid, 'SIGKILL');\nsetInterval(() => {}, 1000);");
    expect(await start(tooOld.path, []).ended).toEqual({ code: 137, signal: null });
  });

  test('does not go round in circles when the installed Node is too old as well', async ({ skip }) => {
    if (tooOld === undefined) return skip(why);
    installNode(tooOld.version);
    expect((await start(tooOld.path, []).ended).code).toBe(1);
  });

  function write(path: string, text: string): void {
    writeFileSync(join(folder, path), `${text}\n`);
  }

  /** A stand-in for the npm package: its manifest, and a starter for the Node that runs this test. */
  function installNode(version: string): void {
    const at = join(folder, 'node_modules', 'node');
    rmSync(at, { recursive: true, force: true });
    mkdirSync(join(at, 'bin'), { recursive: true });
    writeFileSync(join(at, 'package.json'), JSON.stringify({ name: 'node', version }));
    writeFileSync(join(at, 'bin', name), `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, { mode: 0o755 });
  }

  function start(node: string, args: readonly string[]): Started {
    const child = spawn(node, [join(folder, 'bin', 'hermes.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += String(chunk)));
    return { child, said: () => output, ended: once(child, 'close').then(([code, signal]) => ({ code, signal })) };
  }
});

/** An older Node than the program needs, wherever the person who runs the tests has one. */
function findTooOld(): { readonly path: string; readonly version: string } | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '' && !folder.includes(`node_modules${sep}`) && folder !== dirname(process.execPath));
  for (const folder of folders) {
    try {
      const [version = '', path = ''] = execFileSync(join(folder, name), ['-p', 'process.versions.node + "\\n" + process.execPath'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
        .trim()
        .split('\n');
      const major = Number(version.split('.')[0]);
      if (major >= 14 && major < 24) return { path, version };
    } catch {
      // No Node in this folder.
    }
  }
  return undefined;
}
