import { z } from 'zod';
import { label } from '../adapters/shared/visible.ts';
import type { ChannelRef, Place } from '../adapters/types.ts';
import { textsFor } from '../texts.ts';
import type { Resolution, ToolContext, ToolDefinition } from './types.ts';

const args = z.object({
  group_name: z.string().min(1).max(100).describe('Name or id of the group as people write it, for example "ops" or "#all"'),
  content: z.string().min(1).max(20_000).describe('The complete message in Markdown, for example "Release 2.4 is out."'),
});

type Args = z.output<typeof args>;

/** Where it goes, and what people call the place it comes from. */
type Target = ChannelRef & { readonly from: string };

/** Own channel 1, another group 2. */
const levelFor = (place: Place, target: Target | undefined): 1 | 2 => (target?.id === place.channel ? 1 : 2);

export const sendGroupMessage: ToolDefinition<Args> = {
  name: 'send_group_message',
  description:
    'Posts one message to a group of this chat platform. Only for the final result, never while still collecting, and never for the answer to the person who asked: that is posted by itself. A post to another group is shown to a person first. Returns whether it was posted.',
  level: (_args, place, resolved) => levelFor(place, resolved as Target | undefined),
  args,
  // Running it again finds the row it left behind.
  retrySafe: true,
  trusted: true,
  resolve: ({ group_name }, context) => resolveTarget(group_name, context),
  message(values, resolved, context) {
    const target = resolved as Target;
    const place: Place = { ...context.place, channel: target.id, thread: '', audience: 'group' };
    const provenance = textsFor(context.language).provenance(label(context.asker), target.from);
    return { place, markdown: `${values.content}\n\n${provenance}` };
  },
};

/** The name is only looked up: a target refused here gets no post, and no other group's name is told. */
async function resolveTarget(name: string, context: ToolContext): Promise<Resolution> {
  const wanted = name.trim().replace(/^#/, '');
  const found = await context.findChannels(wanted);
  const allowed = found.filter((channel) => context.maySendTo(channel));
  const [target] = allowed;
  if (allowed.length === 1 && target) return { ok: true, value: { id: target.id, name: target.name, from: await originOf(context) } satisfies Target, shown: `#${target.name} (${target.id})` };
  if (allowed.length > 1) return refused('arguments', `More than one group is called "${wanted}". Ask the person which one is meant, and use its id.`);
  if (found.length === 0 && context.maySendTo({ id: wanted, name: wanted })) {
    return refused('not_found', `No group called "${wanted}" is known here, or the bot is not in it. Nothing was posted. Do not post anywhere else instead; ask the person for the exact name.`);
  }
  return refused('permission', `"${wanted}" is not among the groups that this group may post to. Nothing was posted. Do not try another name; an admin can add it to send_to.`);
}

async function originOf({ place, language, findChannels }: ToolContext): Promise<string> {
  if (place.audience === 'direct') return textsFor(language).directChat;
  const found = await findChannels(place.channel).catch(() => []);
  return `#${found.find((channel) => channel.id === place.channel)?.name ?? place.channel}`;
}

function refused(error: 'arguments' | 'not_found' | 'permission', content: string): Resolution {
  return { ok: false, result: { ok: false, error, content } };
}
