/** The tools that come with the product. */
import { calculator } from './calculator.ts';
import { clarify } from './clarify.ts';
import { currentTime } from './current-time.ts';
import { sendGroupMessage } from './send-group-message.ts';
import type { AnyTool } from './types.ts';

export const builtInTools: readonly AnyTool[] = [calculator, clarify, currentTime, sendGroupMessage];
