/** Arguments of a tool call: text of a model → a value of the tool's schema, or what is wrong with it in words the model can act on. Pure. */
import type { z } from 'zod';
import { clip } from '../adapters/shared/visible.ts';

export type ParsedArguments = { readonly args: unknown } | { readonly problem: string };

/** A call without arguments counts as `{}`; text that is not whole JSON never does. */
export function parseArguments(text: string, schema: z.ZodType): ParsedArguments {
  const value = parse(text);
  if (value === undefined) return { problem: `The arguments are not valid JSON: ${clip(text, 200)}. Send the whole call again with one JSON object.` };
  const result = schema.safeParse(value);
  if (result.success) return { args: result.data };
  const wrong = result.error.issues.map((issue) => `${issue.path.join('.') || 'arguments'}: ${issue.message}`).join('; ');
  return { problem: `The arguments do not fit: ${wrong}. Correct them and call again.` };
}

function parse(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
