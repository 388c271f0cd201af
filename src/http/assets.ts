/** The page's own files, read once. Their addresses carry a hash of what is in them, so that browsers may keep them for good. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Hono } from 'hono';

type Name = 'console.js' | 'console.css' | 'login.css' | 'icon.svg';
export type Assets = { url(name: Name): string; routes(app: Hono): void };

/** The login page's style is open to everybody, like the page itself. */
const files: Readonly<Record<Name, { readonly folder: string; readonly type: string; readonly parts?: readonly string[] }>> = {
  'console.js': { folder: '/static', type: 'text/javascript; charset=utf-8' },
  'console.css': { folder: '/static', type: 'text/css; charset=utf-8', parts: ['console.css', 'chat.css'] },
  'login.css': { folder: '/login', type: 'text/css; charset=utf-8' },
  'icon.svg': { folder: '/static', type: 'image/svg+xml' },
};

export function readAssets(): Assets {
  const assets = new Map<string, { readonly url: string; readonly type: string; readonly text: string }>();
  for (const [name, { folder, type, parts = [name] }] of Object.entries(files)) {
    const text = parts.map((part) => readFileSync(new URL(`./static/${part}`, import.meta.url), 'utf8')).join('\n');
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 12);
    assets.set(name, { url: `${folder}/${name.replace('.', `-${hash}.`)}`, type, text });
  }
  return {
    url: (name) => assets.get(name)?.url ?? '',
    routes(app) {
      for (const { url, type, text } of assets.values()) app.get(url, (c) => c.body(text, 200, { 'Content-Type': type, 'Cache-Control': 'public, max-age=31536000, immutable' }));
    },
  };
}
