/** Log lines as JSON, with secrets taken out of whatever is logged. */
import { pino } from 'pino';

export type Log = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

type Settings = { readonly level: string; readonly redact: (text: string) => string; readonly write?: (line: string) => void };

export function createLog({ level, redact, write = (line) => void process.stdout.write(line) }: Settings): Log {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, errorKey: 'error', formatters: { level: (label) => ({ level: label }) } }, { write: (line: string) => write(redact(line)) });
}
