/** The group chat in the browser. The server gives the frame and the words; the script fills in messages, always as text. */
import type { Context, Hono } from 'hono';
import { html } from 'hono/html';
import type { ConsoleServer } from '../adapters/console/types.ts';
import type { ChannelRef, Language } from '../adapters/types.ts';
import type { Assets } from './assets.ts';
import type { HttpDeps } from './deps.ts';
import { pageTexts } from './page-texts.ts';

type Deps = Pick<HttpDeps, 'config' | 'version'> & { readonly console: ConsoleServer; readonly assets: Assets; readonly languageOf: (c: Context) => Language };

const people = [
  { id: 'lin', name: 'lin 林一' },
  { id: 'zhou', name: 'zhou 周周' },
];

export function pageRoutes(app: Hono, deps: Deps): void {
  app.get('/', async (c) => c.html(consolePage(deps, deps.languageOf(c), await deps.console.channels())));
}

function consolePage({ config, version, assets }: Deps, language: Language, channels: readonly ChannelRef[]) {
  const texts = pageTexts[language];
  const other = language === 'zh' ? 'en' : 'zh';
  const boot = JSON.stringify({ language, demo: config.demo, texts, people, channels });
  return html`<!doctype html>
<html lang="${tag(language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>hermes · ${texts.title}</title>
<link rel="icon" href="${assets.url('icon.svg')}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.url('console.css')}">
<script type="module" src="${assets.url('console.js')}"></script>
</head>
<body data-boot="${boot}">
<header class="top">
<h1><span class="mark" aria-hidden="true"></span>hermes</h1>
${config.demo ? html`<span class="badge" title="${texts.demoNote}">${texts.demo}</span>` : ''}
<span id="connection" class="connection" role="status">${texts.reconnecting}</span>
<form id="identity" class="identity">
<label for="user">${texts.speakAs}</label>
<select id="user">${people.map(({ id, name }) => html`<option value="${id}">${name}</option>`)}<option value="">${texts.somebodyElse}</option></select>
<span id="somebody" class="somebody" hidden>
<label for="name" class="unseen">${texts.theirName}</label>
<input id="name" maxlength="64" autocomplete="off" placeholder="${texts.theirName}" title="${texts.nameRule}">
<button type="submit">${texts.use}</button>
</span>
</form>
<a id="language" class="language" href="/?lang=${other}" hreflang="${tag(other)}" lang="${tag(other)}">${texts.otherLanguage}</a>
</header>
<nav class="channels" aria-label="${texts.groups}">
<h2>${texts.groups}</h2>
<ul id="channels">${channels.map(({ id, name }) => html`<li><a href="#${encodeURIComponent(id)}"><bdi>${name}</bdi></a></li>`)}</ul>
</nav>
<main>
<h2 id="channel" class="channel"></h2>
${config.demo ? html`<p class="note">${texts.demoNote}</p>` : ''}
<noscript><p class="note">${texts.noScript}</p></noscript>
<div id="threads" class="threads" role="log" aria-live="polite" aria-label="${texts.messages}" tabindex="0"></div>
<form id="composer" class="composer">
<label for="text" class="unseen">${texts.message}</label>
<textarea id="text" rows="2" maxlength="20000" placeholder="${texts.placeholder}" dir="auto"></textarea>
<div class="row">
<label class="check" title="${texts.mentionHint}"><input id="mention" type="checkbox" checked> ${texts.mention}</label>
<button type="submit" class="primary">${texts.send}</button>
</div>
</form>
</main>
<div id="notices" class="notices" role="status"></div>
<footer class="foot">hermes ${version}</footer>
</body>
</html>`;
}

const tag = (language: Language): string => (language === 'zh' ? 'zh-CN' : 'en');
