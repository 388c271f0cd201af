/** The tools there are: what the model is offered, and what its calls mean. */
import { z } from 'zod';
import type { AnyTool } from './types.ts';

export type OfferedTool = { readonly type: 'function'; readonly function: { readonly name: string; readonly description: string; readonly parameters: Record<string, unknown> } };

export type Registry = {
  get(name: string): AnyTool | undefined;
  /** Sorted by name, the same bytes every time. Level 2 is offered only where it is enabled. */
  readonly offered: readonly OfferedTool[];
  readonly names: readonly string[];
};

export type RegistrySettings = { readonly enabled?: readonly string[] | undefined; readonly disabled: readonly string[]; readonly level2: readonly string[] };

export function createRegistry(tools: readonly AnyTool[], settings: RegistrySettings): Registry {
  const on = (tool: AnyTool) => (settings.enabled?.includes(tool.name) ?? true) && !settings.disabled.includes(tool.name) && (tool.level !== 2 || settings.level2.includes(tool.name));
  const chosen = tools.filter(on).sort((a, b) => (a.name < b.name ? -1 : 1));
  const byName = new Map(chosen.map((tool) => [tool.name, tool]));
  return { get: (name) => byName.get(name), offered: chosen.map(offer), names: chosen.map((tool) => tool.name) };
}

function offer(tool: AnyTool): OfferedTool {
  const { $schema: _, ...parameters } = z.toJSONSchema(tool.args, { io: 'input' }) as Record<string, unknown>;
  return { type: 'function', function: { name: tool.name, description: tool.description, parameters } };
}

/** Names in the settings that no tool has. */
export function unknownTools(tools: readonly AnyTool[], settings: RegistrySettings): string[] {
  const known = new Set(tools.map((tool) => tool.name));
  return [...(settings.enabled ?? []), ...settings.disabled, ...settings.level2].filter((name) => !known.has(name));
}
