/** Requests as data: checked once, at the door, with errors that name the field. */
import type { Context } from 'hono';
import { z } from 'zod';
import { RequestError } from './errors.ts';

export const longestBody = 1024 * 1024;

export async function readBody<T>(c: Context, schema: z.ZodType<T>): Promise<T> {
  const text = await c.req.text();
  return checked(schema, text === '' ? {} : parse(text));
}

export function readQuery<T>(c: Context, schema: z.ZodType<T>): T {
  return checked(schema, c.req.query());
}

/** A number in a query, at most `most`. */
export const count = (most: number, fallback: number) =>
  z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'must be a positive number')
    .transform((text) => Math.min(Number(text), most))
    .prefault(String(fallback));

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new RequestError('invalid', `body: is not valid JSON`, { cause: error });
  }
}

function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new RequestError('invalid', parsed.error.issues.map(describe).join('; '));
}

function describe(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => `${[...issue.path, key].join('.')}: unknown field`).join('; ');
  return `${issue.path.join('.') || 'body'}: ${issue.message}`;
}
