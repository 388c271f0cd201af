import { z } from 'zod';
import type { ToolDefinition } from './types.ts';

const args = z.object({
  question: z.string().min(1).max(1000).describe('One question in the language of the person who asked, for example "Which environment?"'),
  options: z.array(z.string().min(1).max(75)).max(10).optional().describe('2 to 5 short answers to choose from, for example ["test", "production"]; leave out for a free answer'),
});

export const clarify: ToolDefinition<z.output<typeof args>> = {
  name: 'clarify',
  description:
    'Asks the person who made the request one question and waits for the answer, if need be for a day. Use it when the request can be understood in more than one way and the difference matters. Do not use it for what a tool can find out, nor for permission: that is asked by itself. Returns the answer in their words.',
  level: 0,
  args,
  retrySafe: true,
  trusted: true,
  asks: ({ question, options = [] }) => ({ question, options: [...new Set(options)] }),
};
