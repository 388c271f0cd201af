/** The command line. Each command is one function; errors are sentences, exit code 1. */
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { systemClock } from './clock.ts';
import { type Config, loadConfig } from './config.ts';
import { ConfigError, HermesError } from './errors.ts';
import { runServer, versionOf } from './main.ts';
import { backup } from './store/files.ts';
import { takeLock } from './store/lock.ts';
import { openExisting, restore } from './store/restore.ts';

const program = new Command('hermes').description("The team's agent in group chat.").version(versionOf()).showHelpAfterError();

program
  .command('start')
  .description('run the bot with its console')
  .option('--config <file>', 'YAML configuration (default: hermes.yaml, if it is there)')
  .option('--port <number>', 'port of the console', portNumber)
  .option('--host <address>', 'address to listen on')
  .action(async ({ config, port, host }: { config?: string; port?: number; host?: string }) => {
    const overrides = { ...(port === undefined ? {} : { port }), ...(host === undefined ? {} : { host }) };
    process.exitCode = await runServer({ env: process.env, overrides, ...(config === undefined ? {} : { path: config }) });
  });

program
  .command('backup <file>')
  .description('write a consistent copy of the database, also while the bot runs')
  .option('--config <file>', 'YAML configuration')
  .action((file: string, options: { config?: string }) =>
    guarded(async () => {
      const handle = openExisting(databasePath(options));
      await backup(handle, resolve(file)).finally(() => handle.close());
      console.log(`Backup written: ${resolve(file)}`);
    }),
  );

program
  .command('restore <file>')
  .description('put a backup in the place of the database; the bot must not be running')
  .option('--config <file>', 'YAML configuration')
  .action((file: string, options: { config?: string }) =>
    guarded(async () => {
      const config = configOf(options);
      const path = databasePath(options);
      const busy = new AbortController();
      const lock = await takeLock(config.dataDir, { clock: systemClock, waiting: () => busy.abort(), signal: busy.signal });
      if (!lock) throw new ConfigError([`a hermes is running on ${config.dataDir}; stop it before a restore`]);
      try {
        const kept = restore(resolve(file), path, systemClock);
        console.log(`Restored ${path} from ${resolve(file)}.${kept ? ` The former database is kept as ${kept}.` : ''}`);
      } finally {
        lock.release();
      }
    }),
  );

function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new InvalidArgumentError(`a port is a number from 0 to 65535, not "${text}"`);
  return port;
}

function configOf({ config }: { config?: string }): Config {
  return loadConfig({ env: process.env, ...(config === undefined ? {} : { path: config }) });
}

function databasePath(options: { config?: string }): string {
  const { databaseUrl } = configOf(options);
  if (!databaseUrl.startsWith('sqlite:')) throw new ConfigError(['backup and restore work on SQLite; for PostgreSQL use pg_dump and pg_restore']);
  return databaseUrl.slice('sqlite:'.length);
}

async function guarded(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof HermesError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

const [, , ...words] = process.argv;
await program.parseAsync(words.length > 0 ? words : ['start'], { from: 'user' });
