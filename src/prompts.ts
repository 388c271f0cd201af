/** Every text sent to a model, read from `config/prompts`, known by the hash of its content. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Language } from './adapters/types.ts';

export type Prompts = { readonly system: Readonly<Record<Language, string>>; readonly shas: Readonly<Record<string, string>> };

const folder = new URL('../config/prompts/', import.meta.url);

export async function loadPrompts(): Promise<Prompts> {
  const [en, zh] = await Promise.all([read('system.en.md'), read('system.zh.md')]);
  return { system: { en, zh }, shas: { 'system.en': shaOf(en), 'system.zh': shaOf(zh) } };
}

/** White space at line ends and around the text does not count. */
async function read(name: string): Promise<string> {
  const text = await readFile(new URL(name, folder), 'utf8');
  return text
    .replace(/[ \t]+$/gm, '')
    .replace(/\r\n/g, '\n')
    .trim();
}

const shaOf = (text: string): string => createHash('sha256').update(text).digest('hex');
