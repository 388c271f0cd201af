/** Two questions of machines: does the process live, and can it do its work. */
import type { Hono } from 'hono';
import { messageOf } from '../errors.ts';
import type { HttpDeps } from './deps.ts';

const databaseMs = 2000;

export function healthRoutes(app: Hono, deps: HttpDeps): void {
  // Asked of a process that is to be restarted when it does not answer: it must not depend on anything else.
  app.get('/healthz', (c) => c.json({ ok: true }));
  app.get('/ready', async (c) => {
    const { problems } = deps.ready();
    const database = await databaseProblem(deps);
    const all = database === undefined || problems.some((problem) => problem.startsWith('storage:')) ? problems : [...problems, database];
    return c.json({ ok: all.length === 0, problems: all, version: deps.version }, all.length === 0 ? 200 : 503);
  });
}

async function databaseProblem({ store, clock }: HttpDeps): Promise<string | undefined> {
  let cancel = () => {};
  const late = new Promise<string>((resolve) => {
    cancel = clock.setTimer(databaseMs, () => resolve(`storage: the database did not answer within ${databaseMs / 1000} s`));
  });
  const asked = store.db
    .selectFrom('console_channels')
    .select('id')
    .limit(1)
    .execute()
    .then(() => undefined)
    .catch((error: unknown) => `storage: ${messageOf(error)}`);
  try {
    return await Promise.race([asked, late]);
  } finally {
    cancel();
  }
}
