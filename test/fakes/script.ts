/** Another process: a few lines of TypeScript, run by the same Node. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type Script = {
  readonly process: ChildProcess;
  /** Resolves when the script prints this line. */
  said(line: string): Promise<void>;
  readonly ended: Promise<{ readonly code: number | null; readonly output: string }>;
};

/** The script is written into `folder`, where it may be deleted with everything else. */
export function runScript(folder: string, source: string, args: readonly string[]): Script {
  const path = join(folder, `${randomUUID()}.ts`);
  writeFileSync(path, source);
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', path, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
      for (const look of waiting) look();
    });
  }
  const ended = new Promise<{ code: number | null; output: string }>((resolve) => child.on('close', (code) => resolve({ code, output })));
  const said = (line: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (output.split('\n').includes(line)) resolve();
      };
      waiting.add(look);
      look();
      ended.then(() => reject(new Error(`the script ended without saying "${line}": ${output}`)), reject);
    });
  return { process: child, said, ended };
}
