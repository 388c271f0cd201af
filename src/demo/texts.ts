/** What the demo model says, in both languages. Completeness is held by the type. */
import type { Language } from '../adapters/types.ts';
import type { Environment } from './understand.ts';

export type DemoTexts = {
  /** The last line of every answer. */
  readonly label: string;
  readonly greeting: string;
  readonly welcome: string;
  readonly help: string;
  readonly notCalculated: (reason: string) => string;
  readonly time: (facts: { date: string; time: string; weekday: string; zone: string; offset: string }) => string;
  readonly noTime: (reason: string) => string;
  readonly whichEnvironment: string;
  readonly environments: Readonly<Record<Environment, string>>;
  readonly deployed: (environment: string) => string;
  readonly notDeployed: (reason: string) => string;
  readonly posted: (group: string, content: string) => string;
  readonly queued: (group: string) => string;
  readonly declined: (group: string, reason: string) => string;
  /** An outcome that is none of those: the result's own words and nothing more. */
  readonly outcome: (group: string, words: string) => string;
  readonly notPosted: (group: string) => string;
  readonly whatToPost: (group: string) => string;
  readonly unavailable: (tool: string) => string;
};

const en: DemoTexts = {
  label: '— demo model',
  greeting: 'Hello!',
  welcome: 'You are welcome.',
  help: [
    'I am the offline demo model: no language model is connected yet, and I know only a few things. Try one of these:',
    '- `What is (13+27)*4?`',
    '- `Deploy the new version`, which makes me ask back',
    '- `Tell #all: lunch is at noon`, which needs a confirmation',
    'I also tell the date and the time.',
  ].join('\n'),
  notCalculated: (reason) => `I could not calculate that: ${reason}`,
  time: ({ date, time, weekday, zone, offset }) => `It is ${time} on ${weekday}, ${date} (${zone}, ${offset}).`,
  noTime: (reason) => `I could not tell the time: ${reason}`,
  whichEnvironment: 'Which environment should this be deployed to?',
  environments: { test: 'test', staging: 'staging', production: 'production' },
  deployed: (environment) => `Environment: ${environment}. This is the demo, so nothing was really deployed.`,
  notDeployed: (reason) => `Nothing was deployed: ${reason}`,
  posted: (group, content) => `Posted to #${group}: ${content}`,
  queued: (group) => `The message for #${group} is queued and not delivered yet.`,
  declined: (group, reason) => `The message to #${group} was not sent: ${reason}`,
  outcome: (group, words) => `The message to #${group}: ${words}`,
  notPosted: (group) => `So nothing was sent to #${group}.`,
  whatToPost: (group) => `What should the message say? Write for example: tell #${group}: lunch is at noon.`,
  unavailable: (tool) => `the tool ${tool} is not available to me here.`,
};

const zh: DemoTexts = {
  label: '—— 演示模型',
  greeting: '你好！',
  welcome: '不客气。',
  help: ['我是离线演示模型：目前没有连接真正的大模型，只会几件事。可以试试：', '- `(13+27)*4 等于多少？`', '- `部署新版本`，我会反问', '- `通知 #all：中午十二点吃饭`，需要先确认', '我还能回答日期和时间。'].join('\n'),
  notCalculated: (reason) => `没能算出来：${reason}`,
  time: ({ date, time, weekday, zone, offset }) => `现在是 ${date} ${time}，${weekday}（${zone}，${offset}）。`,
  noTime: (reason) => `没能查到时间：${reason}`,
  whichEnvironment: '要部署到哪个环境？',
  environments: { test: '测试环境', staging: '预发环境', production: '生产环境' },
  deployed: (environment) => `环境：${environment}。这是演示，没有真正部署任何东西。`,
  notDeployed: (reason) => `没有部署任何东西：${reason}`,
  posted: (group, content) => `已发到 #${group}：${content}`,
  queued: (group) => `发往 #${group} 的消息已排队，尚未送达。`,
  declined: (group, reason) => `发往 #${group} 的消息没有发送：${reason}`,
  outcome: (group, words) => `发往 #${group} 的消息：${words}`,
  notPosted: (group) => `因此没有向 #${group} 发送任何内容。`,
  whatToPost: (group) => `消息要写什么？例如：通知 #${group}：中午十二点吃饭。`,
  unavailable: (tool) => `这里没有提供工具 ${tool}。`,
};

export const demoTexts: Readonly<Record<Language, DemoTexts>> = { en, zh };

const weekdays: Readonly<Record<string, string>> = { Monday: '星期一', Tuesday: '星期二', Wednesday: '星期三', Thursday: '星期四', Friday: '星期五', Saturday: '星期六', Sunday: '星期日' };

export function weekdayIn(language: Language, english: string): string {
  return language === 'zh' ? (weekdays[english] ?? english) : english;
}
