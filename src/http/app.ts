/** The web server put together: headers, guard, health, API, page. */
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { Language } from '../adapters/types.ts';
import { readAssets } from './assets.ts';
import { longestBody } from './body.ts';
import { consoleRoutes } from './console-api.ts';
import type { HttpDeps } from './deps.ts';
import { errorBody, RequestError, respondWithError } from './errors.ts';
import { eventRoutes } from './events.ts';
import { guard } from './guard.ts';
import { healthRoutes } from './health.ts';
import { loginRoutes } from './login.ts';
import { pageRoutes } from './page.ts';
import { recordRoutes } from './record-api.ts';

export function createApp(deps: HttpDeps): Hono {
  const app = new Hono();
  const assets = readAssets();
  const token = deps.config.server.adminToken;
  const languageOf = (c: Context): Language => {
    const wanted = c.req.query('lang');
    return wanted === 'zh' || wanted === 'en' ? wanted : deps.config.language;
  };
  app.use(safeHeaders, guard(token, deps.localToken), bodyLimit({ maxSize: longestBody, onError: tooLarge }));
  app.onError((error, c) => respondWithError(c, error, deps.log));
  app.notFound((c) => (c.req.path.startsWith('/api') ? c.json(errorBody('not_found', `There is no ${c.req.method} ${c.req.path}.`), 404) : c.text('There is nothing here.', 404)));
  healthRoutes(app, deps);
  consoleRoutes(app, deps);
  recordRoutes(app, deps);
  eventRoutes(app, deps);
  loginRoutes(app, { token, assets, languageOf });
  pageRoutes(app, { config: deps.config, console: deps.console, version: deps.version, assets, languageOf });
  assets.routes(app);
  return app;
}

const contentSecurity = ["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"].join('; ');

/** Nothing but our own files runs in a page, nobody frames it, and what is shown is kept in no cache. */
const safeHeaders: MiddlewareHandler = async (c, next) => {
  c.header('Content-Security-Policy', contentSecurity);
  c.header('X-Content-Type-Options', 'nosniff');
  c.header('Referrer-Policy', 'no-referrer');
  c.header('Cross-Origin-Resource-Policy', 'same-origin');
  c.header('Cross-Origin-Opener-Policy', 'same-origin');
  c.header('Cache-Control', 'no-store');
  await next();
};

function tooLarge(): never {
  throw new RequestError('too_large', `body: at most ${longestBody} bytes`);
}
