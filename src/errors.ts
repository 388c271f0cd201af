/** Errors as small documents: a code for programs, a sentence for people (what was tried, with what, what to do), never a secret. */

export abstract class HermesError extends Error {
  abstract readonly code: string;
  abstract readonly retryable: boolean;
  override get name(): string {
    return this.constructor.name;
  }
}

/** The configuration cannot be used. `problems` names every key at once. */
export class ConfigError extends HermesError {
  readonly code = 'config';
  readonly retryable = false;
  readonly problems: readonly string[];
  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options);
    this.problems = problems;
  }
}

/** A database operation that could not be done within its time; the run it belonged to stops, the process goes on. */
export class StoreError extends HermesError {
  readonly code: 'store_busy' | 'store_full' | 'store_failed' | 'store_closed';
  readonly retryable = true;
  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The database file cannot be used at all: damaged, unreadable, newer than this program. */
export class DatabaseFileError extends HermesError {
  readonly code = 'database_file';
  readonly retryable = false;
}

/** Somebody else appended to the run first. Reload and decide again. */
export class RunConflictError extends HermesError {
  readonly code = 'run_conflict';
  readonly retryable = true;
  readonly runId: string;
  readonly expectedVersion: number;
  constructor(runId: string, expectedVersion: number) {
    super(`run ${runId} is no longer at version ${expectedVersion}`);
    this.runId = runId;
    this.expectedVersion = expectedVersion;
  }
}

/**
 * A platform refused or did not answer. `outcome`: `refused` – it is certain that nothing was posted and trying again is useless;
 * `retry` – certain that nothing was posted, later may work; `unknown` – it may have been posted.
 */
export class PlatformError extends HermesError {
  readonly code: string;
  readonly outcome: 'refused' | 'retry' | 'unknown';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(code: string, message: string, facts: { outcome: PlatformError['outcome']; retryAfterMs?: number; cause?: unknown }) {
    super(message, { cause: facts.cause });
    this.code = code;
    this.outcome = facts.outcome;
    this.retryable = facts.outcome !== 'refused';
    this.retryAfterMs = facts.retryAfterMs;
  }
}

export type ModelErrorCode = 'network' | 'timeout' | 'stream_cut' | 'rate_limited' | 'quota' | 'overloaded' | 'unauthorized' | 'not_found' | 'bad_request' | 'context_length' | 'bad_response' | 'empty_reply';

/** The model server failed. `code` chooses the sentence people read; `message` stays in the record. */
export class ModelError extends HermesError {
  readonly code: ModelErrorCode;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(code: ModelErrorCode, message: string, facts: { retryable: boolean; retryAfterMs?: number | undefined; cause?: unknown }) {
    super(message, { cause: facts.cause });
    this.code = code;
    this.retryable = facts.retryable;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

/** What a person asked for does not exist, or is not theirs to see. */
export class NotFoundError extends HermesError {
  readonly code = 'not_found';
  readonly retryable = false;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
