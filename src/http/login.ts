/** The way in for browsers: the token becomes a cookie that no script can read and no other site can send. */
import type { Context, Hono } from 'hono';
import { setCookie } from 'hono/cookie';
import { html } from 'hono/html';
import type { Language } from '../adapters/types.ts';
import type { Assets } from './assets.ts';
import { isToken, sessionCookie, sessionFor } from './guard.ts';
import { pageTexts } from './page-texts.ts';

type Deps = { readonly token: string | undefined; readonly assets: Assets; readonly languageOf: (c: Context) => Language };

const month = 30 * 24 * 3600;

export function loginRoutes(app: Hono, deps: Deps): void {
  app.get('/login', (c) => {
    const given = c.req.query('token');
    return given === undefined && deps.token !== undefined ? form(c, deps, 200) : enter(c, deps, given);
  });
  app.post('/login', async (c) => {
    const body = await c.req.parseBody();
    return enter(c, deps, typeof body.token === 'string' ? body.token : undefined);
  });
}

function enter(c: Context, deps: Deps, given: string | undefined): Response | Promise<Response> {
  if (deps.token === undefined) return c.redirect('/');
  if (!isToken(deps.token, given?.trim())) return form(c, deps, 401);
  // Behind a proxy only its header tells that the browser came over TLS.
  const secure = c.req.header('x-forwarded-proto') === 'https';
  setCookie(c, sessionCookie, sessionFor(deps.token), { httpOnly: true, sameSite: 'Strict', path: '/', maxAge: month, secure });
  return c.redirect('/');
}

function form(c: Context, { assets, languageOf }: Deps, status: 200 | 401): Response | Promise<Response> {
  const language = languageOf(c);
  const texts = pageTexts[language];
  return c.html(
    html`<!doctype html>
<html lang="${language === 'zh' ? 'zh-CN' : 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${texts.login.title} · hermes</title>
<link rel="stylesheet" href="${assets.url('login.css')}">
</head>
<body class="login">
<main>
<h1>${texts.login.title}</h1>
<form method="post" action="/login">
<label for="token">${texts.login.label}</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus aria-describedby="hint">
<p id="hint">${texts.login.hint}</p>
${status === 401 ? html`<p class="problem" role="alert">${texts.login.wrong}</p>` : ''}
<button type="submit">${texts.login.enter}</button>
</form>
</main>
</body>
</html>`,
    status,
  );
}
