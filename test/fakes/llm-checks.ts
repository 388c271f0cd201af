/** What strict providers refuse. Written from their behaviour, independent of the product's own code. */

export type FakeToolCall = { readonly id: string; readonly type: 'function'; readonly function: { readonly name: string; readonly arguments: string } };
export type FakePart = { readonly type: string; readonly text?: string; readonly image_url?: { readonly url: string } };
export type FakeMessage = {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly content?: string | null | readonly FakePart[];
  readonly tool_calls?: readonly FakeToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
};
export type FakeTool = {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: { readonly type: 'object'; readonly properties?: Readonly<Record<string, unknown>>; readonly required?: readonly string[] } };
};

/** A request body that passed the checks. */
export type ChatRequest = {
  readonly model: string;
  readonly messages: readonly FakeMessage[];
  readonly tools?: readonly FakeTool[];
  readonly tool_choice?: unknown;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
  readonly [extra: string]: unknown;
};

type Fields = Record<string, unknown>;
const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);

const roles = new Set(['system', 'developer', 'user', 'assistant', 'tool']);
const partFields: Readonly<Record<string, string>> = { text: 'text', image_url: 'image_url', input_audio: 'input_audio', file: 'file', refusal: 'refusal' };

/** What is wrong with a request body, in the words of a provider; undefined when nothing is. */
export function problemWith(body: unknown): string | undefined {
  if (!isObject(body)) return 'The request body must be a JSON object.';
  const illFormed = illFormedAt(body, 'body');
  if (illFormed) return `Invalid Unicode: a lone surrogate stands in '${illFormed}'.`;
  if (typeof body.model !== 'string' || body.model === '') return "Missing required parameter: 'model'.";
  if (!Array.isArray(body.messages) || body.messages.length === 0) return "Invalid 'messages': empty array. Expected an array with minimum length 1.";
  return messagesProblem(body.messages) ?? toolsProblem(body) ?? settingsProblem(body);
}

function illFormedAt(value: unknown, path: string): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : path;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const found = key.isWellFormed() ? illFormedAt(item, `${path}.${key}`) : `${path} (a key)`;
    if (found) return found;
  }
  return undefined;
}

function messagesProblem(messages: readonly unknown[]): string | undefined {
  const seen = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const at = `messages[${index}]`;
    if (!isObject(message) || !roles.has(String(message.role))) return `Invalid value for '${at}.role'. Supported values are: ${[...roles].join(', ')}.`;
    const problem = contentProblem(message, at) ?? callsProblem(message, at, seen);
    if (problem) return problem;
  }
  return orderProblem(messages as readonly FakeMessage[]);
}

function contentProblem(message: Fields, at: string): string | undefined {
  const { content, role } = message;
  if (typeof content === 'string') return undefined;
  if (Array.isArray(content) && content.length > 0) return content.map((part, index) => partProblem(part, role, `${at}.content[${index}]`)).find(Boolean);
  const mayBeEmpty = role === 'assistant' && Array.isArray(message.tool_calls) && (content === null || content === undefined);
  return mayBeEmpty ? undefined : `Invalid value for '${at}.content': expected a string or a non-empty array of content parts, got ${content === null ? 'null' : typeof content}.`;
}

function partProblem(part: unknown, role: unknown, at: string): string | undefined {
  const field = isObject(part) ? partFields[String(part.type)] : undefined;
  if (!isObject(part) || field === undefined) return `Invalid value for '${at}.type'.`;
  if (field === 'text' || field === 'refusal') return typeof part[field] === 'string' ? undefined : `Missing required parameter: '${at}.${field}'.`;
  if (role !== 'user') return `Invalid '${at}': only 'user' messages may hold parts of type '${field}'.`;
  if (!isObject(part[field])) return `Missing required parameter: '${at}.${field}'.`;
  return field === 'image_url' && typeof part.image_url === 'object' && !isUrl((part.image_url as Fields).url) ? `Invalid '${at}.image_url.url': expected a URL or a data URL.` : undefined;
}

const isUrl = (value: unknown): boolean => typeof value === 'string' && /^(https?:\/\/|data:image\/[a-z+.-]+;base64,)/.test(value);

function callsProblem(message: Fields, at: string, seen: Set<string>): string | undefined {
  const calls = message.tool_calls;
  if (message.role === 'tool' && typeof message.tool_call_id !== 'string') return `Missing required parameter: '${at}.tool_call_id'.`;
  if (calls === undefined) return undefined;
  if (message.role !== 'assistant') return `Invalid '${at}.tool_calls': only 'assistant' messages may call tools.`;
  if (!Array.isArray(calls) || calls.length === 0) return `Invalid '${at}.tool_calls': empty array. Expected an array with minimum length 1.`;
  return calls.map((call, index) => callProblem(call, `${at}.tool_calls[${index}]`, seen)).find(Boolean);
}

function callProblem(call: unknown, at: string, seen: Set<string>): string | undefined {
  if (!isObject(call) || call.type !== 'function' || !isObject(call.function)) return `Invalid value for '${at}': expected a function call.`;
  if (typeof call.id !== 'string' || call.id === '') return `Missing required parameter: '${at}.id'.`;
  if (seen.has(call.id)) return `Duplicate value for '${at}.id': '${call.id}'.`;
  seen.add(call.id);
  if (!isName(call.function.name)) return `Invalid '${at}.function.name': string does not match pattern '^[a-zA-Z0-9_-]{1,64}$'.`;
  return typeof call.function.arguments === 'string' ? undefined : `Invalid type for '${at}.function.arguments': expected a string.`;
}

const isName = (value: unknown): boolean => typeof value === 'string' && /^[a-zA-Z0-9_-]{1,64}$/.test(value);

/** Each call is answered by exactly one tool message, directly after the message that calls. */
function orderProblem(messages: readonly FakeMessage[]): string | undefined {
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!open.includes(message.tool_call_id ?? '')) return `Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' (messages[${index}]: '${message.tool_call_id}').`;
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    if (open.length > 0) return unansweredCalls(open);
    open = (message.tool_calls ?? []).map((call) => call.id);
  }
  return open.length > 0 ? unansweredCalls(open) : undefined;
}

function unansweredCalls(ids: readonly string[]): string {
  return `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${ids.join(', ')}`;
}

function toolsProblem(body: Fields): string | undefined {
  const { tools } = body;
  if (tools === undefined) return ['tool_choice', 'parallel_tool_calls'].filter((name) => body[name] !== undefined).map((name) => `Invalid value for '${name}': '${name}' is only allowed when 'tools' are specified.`)[0];
  if (!Array.isArray(tools) || tools.length === 0) return "Invalid 'tools': empty array. Expected an array with minimum length 1.";
  const names = tools.map((tool: unknown) => (isObject(tool) && isObject(tool.function) ? tool.function.name : undefined));
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  return tools.map((tool, index) => toolProblem(tool, `tools[${index}]`)).find(Boolean) ?? (repeated === undefined ? undefined : `Tool names must be unique: '${String(repeated)}'.`) ?? choiceProblem(body.tool_choice, names);
}

function toolProblem(tool: unknown, at: string): string | undefined {
  if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function)) return `Invalid value for '${at}.type'. Supported values are: 'function'.`;
  const { name, description, parameters } = tool.function;
  if (!isName(name)) return `Invalid '${at}.function.name': string does not match pattern '^[a-zA-Z0-9_-]{1,64}$'.`;
  if (description !== undefined && typeof description !== 'string') return `Invalid type for '${at}.function.description': expected a string.`;
  return parameters === undefined ? undefined : schemaProblem(parameters, String(name));
}

function schemaProblem(schema: unknown, name: string): string | undefined {
  const invalid = (reason: string) => `Invalid schema for function '${name}': ${reason}`;
  if (!isObject(schema) || schema.type !== 'object') return invalid(`schema must be a JSON Schema of 'type: "object"', got 'type: ${JSON.stringify(isObject(schema) ? schema.type : schema)}'.`);
  const { properties = {}, required = [] } = schema;
  if (!isObject(properties) || Object.values(properties).some((property) => !isObject(property))) return invalid("'properties' must be an object of schemas.");
  if (!Array.isArray(required)) return invalid("'required' must be an array.");
  const missing = required.find((key) => !Object.hasOwn(properties, String(key)));
  return missing === undefined ? undefined : invalid(`'required' names '${String(missing)}', which is not in 'properties'.`);
}

function choiceProblem(choice: unknown, names: readonly unknown[]): string | undefined {
  if (choice === undefined || choice === 'none' || choice === 'auto' || choice === 'required') return undefined;
  const named = isObject(choice) && choice.type === 'function' && isObject(choice.function) ? choice.function.name : undefined;
  return names.includes(named) && named !== undefined ? undefined : "Invalid value for 'tool_choice'.";
}

const ranges: readonly (readonly [string, number, number])[] = [
  ['temperature', 0, 2],
  ['top_p', 0, 1],
  ['max_tokens', 1, 1_000_000],
  ['max_completion_tokens', 1, 1_000_000],
];

function settingsProblem(body: Fields): string | undefined {
  if (body.stream_options !== undefined && body.stream !== true) return "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
  const wrong = ranges.find(([name, low, high]) => body[name] !== undefined && body[name] !== null && !(typeof body[name] === 'number' && body[name] >= low && body[name] <= high));
  return wrong && `Invalid value for '${wrong[0]}': expected a number from ${wrong[1]} to ${wrong[2]}.`;
}
