/** Errors as people and programs at the other end read them: a status, a code, a sentence; never a stack. */
import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { HermesError, StoreError } from '../errors.ts';
import type { Log } from '../log.ts';

/** The request itself is wrong. */
export class RequestError extends HermesError {
  readonly code: 'invalid' | 'forbidden' | 'too_large';
  readonly retryable = false;
  constructor(code: RequestError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const statuses: Readonly<Record<string, ContentfulStatusCode>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  too_large: 413,
  not_ready: 503,
  run_conflict: 503,
};

export function errorBody(code: string, message: string): { error: { code: string; message: string } } {
  return { error: { code, message } };
}

export function respondWithError(c: Context, error: unknown, log: Log): Response {
  const code = error instanceof HermesError ? error.code : 'internal';
  const status = error instanceof StoreError ? 503 : statuses[code];
  if (status !== undefined && error instanceof HermesError) return c.json(errorBody(code, error.message), status);
  log.error({ error, method: c.req.method, path: c.req.path }, 'a request failed');
  return c.json(errorBody('internal', 'Something went wrong on this side; the log has the details.'), 500);
}
