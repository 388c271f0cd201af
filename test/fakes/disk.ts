/** Small and read-only file systems, where the machine lets a test mount them. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type Mounted = { unmount(): void };

const system = (command: string, args: readonly string[]) => execFileSync(command, args, { stdio: 'ignore' });

/** A file system of its own in `folder`; undefined when this user or machine may not mount. */
export function mountSmall(folder: string, megabytes: number): Mounted | undefined {
  return mounted(folder, ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'hermes-test', folder]);
}

/** The same folder once more over itself, in which not even root may write. */
export function mountReadOnly(folder: string): Mounted | undefined {
  const first = mounted(folder, ['--bind', folder, folder]);
  if (!first) return undefined;
  try {
    system('mount', ['-o', 'remount,ro,bind', folder]);
    return first;
  } catch {
    first.unmount();
    return undefined;
  }
}

function mounted(folder: string, args: readonly string[]): Mounted | undefined {
  mkdirSync(folder, { recursive: true });
  try {
    system('mount', args);
  } catch {
    return undefined;
  }
  return { unmount: () => system('umount', ['-l', folder]) };
}

/** Takes all space that is left in the folder; answers how to give it back. */
export function fillUp(folder: string): () => void {
  const path = join(folder, 'filler');
  for (const size of [1 << 20, 1 << 16, 1 << 12]) {
    for (let more = true; more; ) {
      try {
        writeFileSync(path, Buffer.alloc(size), { flag: 'a' });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        more = false;
      }
    }
  }
  return () => rmSync(path);
}
