// Holds every source file under 400 lines; past that, a file hides a second noun that wants a file of its own.
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const limit = 400;
const root = fileURLToPath(new URL('../', import.meta.url));
const checked = new Set(['.ts', '.js', '.css']);

const files = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && checked.has(extname(entry.name)))
  .map((entry) => join(entry.parentPath, entry.name));

const tooLong = files.map((path) => ({ path, lines: readFileSync(path, 'utf8').replace(/\n$/, '').split('\n').length })).filter(({ lines }) => lines > limit);

for (const { path, lines } of tooLong) console.error(`${path.slice(root.length)}: ${lines} lines, at most ${limit}. Look for the second noun and give it a file.`);
if (files.length === 0) console.error('No source file was found under src; this check would pass for the wrong reason.');
process.exitCode = tooLong.length > 0 || files.length === 0 ? 1 : 0;
