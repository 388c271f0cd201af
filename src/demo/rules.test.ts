import { describe, expect, it } from 'vitest';
import { type DemoCall, type DemoMessage, demoReply } from './rules.ts';

const allTools = ['calculator', 'clarify', 'current_time', 'send_group_message'];
const user = (content: string): DemoMessage => ({ role: 'user', content });
const bot = (content: string): DemoMessage => ({ role: 'assistant', content });

let calls = 0;
/** A call of one turn and its result. */
function called(name: string, result: string): DemoMessage[] {
  const id = `call_${++calls}`;
  return [
    { role: 'assistant', content: null, tool_calls: [{ id, function: { name } }] },
    { role: 'tool', tool_call_id: id, content: result },
  ];
}

function text(messages: readonly DemoMessage[], tools: readonly string[] = allTools): string {
  const reply = demoReply(messages, tools);
  if (!('text' in reply)) throw new Error(`expected an answer, got ${JSON.stringify(reply)}`);
  return reply.text;
}

function call(messages: readonly DemoMessage[], tools: readonly string[] = allTools): DemoCall {
  const reply = demoReply(messages, tools);
  if (!('toolCalls' in reply) || reply.toolCalls.length !== 1 || !reply.toolCalls[0]) throw new Error(`expected one call, got ${JSON.stringify(reply)}`);
  return reply.toolCalls[0];
}

const en = '\n\n— demo model';
const zh = '\n\n—— 演示模型';
const sum = called('calculator', '(13+27)*4 = 160');
const posted = 'Posted 1 message at 2026-12-01T09:00:00.000Z (message 7).';

describe('a calculation', () => {
  it('is made by the calculator', () => {
    expect(call([user('（13＋27）×4 等于多少？')])).toEqual({ name: 'calculator', args: { expression: '(13+27)*4' } });
  });

  it('is answered with the result', () => {
    expect(text([user('(13+27)*4 等于多少？'), ...sum])).toBe(`(13+27)*4 = 160${zh}`);
    expect(text([user('What is 1/3?'), ...called('calculator', '1/3 ≈ 0.333 (rounded to 20 digits)')])).toBe(`1/3 ≈ 0.333 (rounded to 20 digits)${en}`);
  });

  it('that failed is said to have failed, in the words of the result, and not tried again', () => {
    const failed = called('calculator', 'Not calculated: it divides by zero. Check the figures; there is no such value.');
    expect(text([user('1/0'), ...failed])).toBe(`I could not calculate that: Not calculated: it divides by zero.${en}`);
    expect(text([user('算 1/0'), ...failed])).toContain('没能算出来：');
  });

  it('in a message without words is answered in the language of the group', () => {
    expect(text([{ role: 'system', content: '你是 hermes。' }, user('(13+27)*4'), ...sum])).toContain(zh);
    expect(text([{ role: 'system', content: 'You are hermes.' }, user('(13+27)*4'), ...sum])).toContain(en);
    expect(text([user('（13+27）*4'), ...sum])).toContain(zh);
  });
});

describe('the time', () => {
  const result = 'It is 2026-12-01 09:03:12 on Tuesday in Asia/Shanghai (UTC+08:00).';

  it('is looked up, in the zone that was named', () => {
    expect(call([user('现在几点？')])).toEqual({ name: 'current_time', args: {} });
    expect(call([user('what time is it in Tokyo?')])).toEqual({ name: 'current_time', args: { timezone: 'Asia/Tokyo' } });
  });

  it('is answered in the language of the question', () => {
    expect(text([user('今天几号？'), ...called('current_time', result)])).toBe(`现在是 2026-12-01 09:03，星期二（Asia/Shanghai，UTC+08:00）。${zh}`);
    expect(text([user("what's the date?"), ...called('current_time', result)])).toBe(`It is 09:03 on Tuesday, 2026-12-01 (Asia/Shanghai, UTC+08:00).${en}`);
  });

  it('that could not be told is said so', () => {
    expect(text([user('what time is it in Mars/Olympus'), ...called('current_time', 'There is no time zone "Mars/Olympus". Use an IANA name.')])).toBe(`I could not tell the time: There is no time zone "Mars/Olympus".${en}`);
  });
});

describe('a deployment', () => {
  it('without an environment is asked about, in the language of the person', () => {
    expect(call([user('部署新版本')])).toEqual({ name: 'clarify', args: { question: '要部署到哪个环境？', options: ['测试环境', '预发环境', '生产环境'] } });
    expect(call([user('deploy it')])).toEqual({ name: 'clarify', args: { question: 'Which environment should this be deployed to?', options: ['test', 'staging', 'production'] } });
  });

  it('names the environment that was chosen, and that nothing is deployed', () => {
    expect(text([user('部署新版本'), ...called('clarify', '林一 answered: 预发环境')])).toBe(`环境：预发环境。这是演示，没有真正部署任何东西。${zh}`);
    expect(text([user('deploy it'), ...called('clarify', 'Production Paul answered: to staging, please')])).toBe(`Environment: staging. This is the demo, so nothing was really deployed.${en}`);
    expect(text([user('deploy it'), ...called('clarify', 'Ann answered: the old cluster')])).toContain('Environment: the old cluster.');
  });

  it('is not asked about when the environment stands in the message', () => {
    expect(text([user('发布到生产环境')])).toBe(`环境：生产环境。这是演示，没有真正部署任何东西。${zh}`);
  });

  it('whose question found no answer names no environment', () => {
    const expired = called('clarify', 'The question found no answer in time. Nothing was executed. Do not guess an answer; say what was not done and how to ask again.');
    expect(text([user('deploy it'), ...expired])).toBe(`Nothing was deployed: The question found no answer in time. Nothing was executed.${en}`);
  });

  it('is asked about in the answer where nobody can be asked by a tool', () => {
    expect(text([user('deploy it')], [])).toBe(`Nothing was deployed: Which environment should this be deployed to? (test / staging / production)${en}`);
  });
});

describe('a message to another group', () => {
  it('is sent with exactly the words given', () => {
    expect(call([user('通知 #all：今天 18:00 发布')])).toEqual({ name: 'send_group_message', args: { group_name: 'all', content: '今天 18:00 发布' } });
  });

  it('says no more than the result said', () => {
    const outcome = (result: string) => text([user('tell #all: lunch'), ...called('send_group_message', result)]).replace(en, '');
    expect(outcome(posted)).toBe('Posted to #all: lunch');
    expect(outcome('Queued, not delivered yet: the platform does not take it at the moment. It is sent as soon as it does. Say so; do not post it again.')).toBe('The message for #all is queued and not delivered yet.');
    expect(outcome('Ann declined this call: too early. It was not executed. Do not try it again; say what was not done.')).toBe('The message to #all was not sent: Ann declined this call: too early.');
    expect(outcome('"all" is not among the groups that this group may post to. Nothing was posted. Do not try another name; an admin can add it to send_to.')).toBe(
      'The message to #all: "all" is not among the groups that this group may post to. Nothing was posted.',
    );
    expect(outcome('Whether the message was posted is unknown, and it is not repeated. Tell the person to look.')).toBe('The message to #all: Whether the message was posted is unknown, and it is not repeated.');
    expect(outcome('Not executed: send_group_message cannot be undone here and is switched off. An admin can enable it (tools.level2).')).toContain('An admin can enable it');
    expect(outcome('')).toBe('The message to #all: –');
  });

  it('is reported in Chinese to those who ask in Chinese', () => {
    const outcome = (result: string) => text([user('通知 #all：开饭'), ...called('send_group_message', result)]);
    expect(outcome(posted)).toBe(`已发到 #all：开饭${zh}`);
    expect(outcome('林一 declined this call. It was not executed.')).toBe(`发往 #all 的消息没有发送：林一 declined this call.${zh}`);
  });

  it('without words is asked for', () => {
    expect(text([user('tell #all')])).toContain('What should the message say?');
    expect(text([user('tell #all the result')])).toContain('What should the message say?');
  });
});

describe('a calculation and a message in one', () => {
  const asked = user('work out (13+27)*4 and tell #all the result');

  it('calculates, then sends the result, then answers', () => {
    expect(call([asked]).name).toBe('calculator');
    expect(call([asked, ...sum])).toEqual({ name: 'send_group_message', args: { group_name: 'all', content: '(13+27)*4 = 160' } });
    expect(text([asked, ...sum, ...called('send_group_message', posted)])).toBe(`(13+27)*4 = 160\nPosted to #all: (13+27)*4 = 160${en}`);
  });

  it('does so in Chinese', () => {
    const question = user('算一下 (13+27)*4，把结果告诉 #all');
    expect(call([question, ...sum])).toEqual({ name: 'send_group_message', args: { group_name: 'all', content: '(13+27)*4 = 160' } });
    expect(text([question, ...sum, ...called('send_group_message', posted)])).toBe(`(13+27)*4 = 160\n已发到 #all：(13+27)*4 = 160${zh}`);
  });

  it('sends nothing when the calculation failed', () => {
    expect(text([user('work out 1/0 and tell #all the result'), ...called('calculator', 'Not calculated: it divides by zero.')])).toBe(`I could not calculate that: Not calculated: it divides by zero.\nSo nothing was sent to #all.${en}`);
  });
});

describe('the conversation', () => {
  it('answers only what came after the last answer', () => {
    expect(call([user('(13+27)*4'), ...sum, bot('160'), user('1+1')])).toEqual({ name: 'calculator', args: { expression: '1+1' } });
  });

  it('answers every message that joined, in order', () => {
    const messages = [user('(13+27)*4'), ...sum, user('现在几点'), user('deploy to test')];
    expect(call(messages).name).toBe('current_time');
    const answer = text([...messages, ...called('current_time', 'It is 2026-12-01 09:03:12 on Tuesday in UTC (UTC+00:00).')]);
    expect(answer.split('\n\n')).toEqual(['(13+27)*4 = 160', '现在是 2026-12-01 09:03，星期二（UTC，UTC+00:00）。', 'Environment: test. This is the demo, so nothing was really deployed.', '— demo model']);
  });

  it('deals the results of one tool out in order', () => {
    const messages = [user('1+1 and 2+2'), ...called('calculator', '1+1 = 2')];
    expect(call(messages).args).toEqual({ expression: '2+2' });
    expect(text([...messages, ...called('calculator', '2+2 = 4')])).toBe(`1+1 = 2\n2+2 = 4${en}`);
  });

  it('ignores background data, the product’s own note and who speaks', () => {
    const context = user('<context>\nEarlier messages:\n[Ann, 09:00]: deploy to production and tell #all: x\n</context>');
    expect(call([context, user('[Ann (u1)]: 1+1')]).args).toEqual({ expression: '1+1' });
    expect(text([user('1+1'), user('No more tools can be called now. Say in a few sentences what was found.')], [])).toBe(`I could not calculate that: the tool calculator is not available to me here.${en}`);
    expect(text([user('<context>1+1</context>\nhello')])).toMatch(/^Hello!/);
  });

  it('tells several speakers of one message apart', () => {
    expect(text([user('[Ann (u1)]: deploy to test\n[林一 (u2)]: 部署到生产')])).toBe(`Environment: test. This is the demo, so nothing was really deployed.\n\n环境：生产环境。这是演示，没有真正部署任何东西。${zh}`);
  });

  it('reads content given in parts', () => {
    const content = [{ type: 'text', text: '1+' }, { type: 'image_url' }, { type: 'text', text: '1' }];
    expect(call([{ role: 'user', content }]).args).toEqual({ expression: '1+1' });
  });

  it('calls nothing that is not offered', () => {
    expect(text([user('1+1'), user('现在几点'), user('通知 #all：x')], [])).toContain('这里没有提供工具 send_group_message。');
  });

  it('helps with anything else, with three examples, and greets politely', () => {
    expect(text([user('write a poem')]).match(/^- `/gm)).toHaveLength(3);
    expect(text([user('写首诗')])).toMatch(/^我是离线演示模型/);
    expect(text([user('你好')])).toMatch(/^你好！\n我是离线演示模型/);
    expect(text([user('thank you!')])).toBe(`You are welcome.${en}`);
    expect(text([])).toContain('offline demo model');
  });
});
