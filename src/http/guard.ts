/**
 * Who may come in. With an admin token: whoever brings it. Without one: only this machine, and no page of another site
 * that runs in a browser on it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { getCookie } from 'hono/cookie';
import { errorBody } from './errors.ts';

export const sessionCookie = 'hermes_session';

/** Header names in lower case. */
export type Visit = { readonly method: string; readonly path: string; readonly headers: Readonly<Record<string, string>>; readonly session: string | undefined };
export type Verdict = { readonly to: 'pass' } | { readonly to: 'login' } | { readonly to: 'unauthorized' } | { readonly to: 'forbidden'; readonly why: string };

const pass: Verdict = { to: 'pass' };
const forbidden = (why: string): Verdict => ({ to: 'forbidden', why });

/** `localToken` is what the command line of this machine reads from the data folder. */
export function guard(token: string | undefined, localToken?: string): MiddlewareHandler {
  return async (c, next) => {
    if (localToken !== undefined && isToken(localToken, bearer(c.req.header('authorization')))) return next();
    const verdict = judge(token, { method: c.req.method, path: c.req.path, headers: c.req.header(), session: getCookie(c, sessionCookie) });
    const isApi = c.req.path.startsWith('/api');
    switch (verdict.to) {
      case 'pass':
        return next();
      case 'login':
        return c.redirect('/login');
      case 'unauthorized':
        return c.json(errorBody('unauthorized', 'Unauthorized.'), 401, { 'WWW-Authenticate': 'Bearer' });
      case 'forbidden':
        return isApi ? c.json(errorBody('forbidden', verdict.why), 403) : c.text(verdict.why, 403);
    }
  };
}

export function judge(token: string | undefined, visit: Visit): Verdict {
  return token === undefined ? judgeLocal(visit) : judgeWithToken(token, visit);
}

// ---------------------------------------------------------------- with a token

function judgeWithToken(token: string, visit: Visit): Verdict {
  if (isOpen(visit.path)) return pass;
  if (isToken(token, bearer(visit.headers.authorization))) return pass;
  if (isSession(token, visit.session)) return foreignPage(visit) ?? pass;
  const isPage = visit.method === 'GET' && (visit.path === '/' || (!visit.path.startsWith('/api') && visit.headers.accept?.includes('text/html') === true));
  return { to: isPage ? 'login' : 'unauthorized' };
}

/** Webhooks have their own signatures, the health check is for machines, and the way in cannot ask for the key. */
function isOpen(path: string): boolean {
  return path === '/healthz' || path.startsWith('/webhooks/') || path === '/login' || path.startsWith('/login/');
}

/** The cookie comes by itself, so what it may do is asked of pages of this server only. Behind a proxy the browser's own word counts before the Host. */
function foreignPage({ method, headers }: Visit): Verdict | undefined {
  if (isHarmless(method)) return undefined;
  const site = headers['sec-fetch-site'];
  const isOwn = site === undefined ? hasOwnOrigin(headers, ['http', 'https']) : site === 'same-origin' || site === 'none';
  return isOwn ? undefined : forbidden('This request came from another site, so it is refused.');
}

function bearer(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
}

/** In constant time, whatever the lengths. */
export function isToken(token: string, given: string | undefined): boolean {
  return given !== undefined && timingSafeEqual(sha256(given), sha256(token));
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

/** What the cookie holds: not the token, and nothing that outlives it. */
export function sessionFor(token: string): string {
  return createHmac('sha256', token).update('hermes console session').digest('base64url');
}

function isSession(token: string, session: string | undefined): boolean {
  return isToken(sessionFor(token), session);
}

// ---------------------------------------------------------------- without a token

const withToken = 'Set HERMES_ADMIN_TOKEN to allow it.';
const localHost = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;

function judgeLocal(visit: Visit): Verdict {
  const { headers, method } = visit;
  const host = headers.host ?? '';
  if (!localHost.test(host)) return forbidden(`Without an admin token this server answers only as localhost, 127.0.0.1 or [::1], not as "${host.slice(0, 100)}". ${withToken}`);
  const forwarded = Object.keys(headers).find(isForwarding);
  if (forwarded !== undefined) return forbidden(`Without an admin token this server answers nothing that a proxy passed on (header ${forwarded}). ${withToken}`);
  if (isHarmless(method)) return pass;
  if (!hasOwnOrigin(headers, ['http'])) return forbidden('This request came from a page of another site, so it is refused.');
  const site = headers['sec-fetch-site'];
  if (site === 'cross-site' || site === 'same-site') return forbidden('This request came from another site, so it is refused.');
  if (!isJson(visit)) return forbidden('Requests that change something must have the content type application/json.');
  return pass;
}

const isForwarding = (name: string): boolean => name === 'forwarded' || name === 'via' || name === 'x-real-ip' || name.startsWith('x-forwarded-');
const isHarmless = (method: string): boolean => method === 'GET' || method === 'HEAD' || method === 'OPTIONS';

/** None is fine: only browsers send one, and they always do where it matters. */
function hasOwnOrigin({ origin, host = '' }: Visit['headers'], schemes: readonly string[]): boolean {
  return origin === undefined || schemes.some((scheme) => origin.toLowerCase() === `${scheme}://${host.toLowerCase()}`);
}

/** A page of another site cannot send DELETE without being allowed to first, so one without a body needs no type. */
function isJson({ method, headers }: Visit): boolean {
  const type = headers['content-type'];
  const isEmpty = headers['content-length'] === undefined || headers['content-length'] === '0';
  if (type === undefined) return method === 'DELETE' && isEmpty && headers['transfer-encoding'] === undefined;
  return /^application\/json\s*(;|$)/i.test(type);
}
