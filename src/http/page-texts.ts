/** Every sentence of the console's page, in both languages. Completeness is held by the type. The script gets them as they stand, so they are plain text. */
import type { Language } from '../adapters/types.ts';

type Example = { readonly title: string; readonly text: string };

export type PageTexts = {
  readonly title: string;
  readonly groups: string;
  readonly direct: string;
  readonly speakAs: string;
  readonly somebodyElse: string;
  readonly theirName: string;
  readonly nameRule: string;
  readonly use: string;
  readonly otherLanguage: string;
  readonly demo: string;
  readonly demoNote: string;
  readonly demoTag: string;
  readonly bot: string;
  readonly messages: string;
  readonly message: string;
  readonly placeholder: string;
  readonly directPlaceholder: string;
  readonly mention: string;
  readonly mentionHint: string;
  readonly send: string;
  readonly reply: string;
  readonly replyPlaceholder: string;
  readonly cancel: string;
  readonly answer: string;
  readonly decided: string;
  readonly edited: string;
  readonly inReplyTo: string;
  readonly rootGone: string;
  readonly emptyTitle: string;
  readonly emptyHint: string;
  readonly emptyDirect: string;
  readonly examples: readonly Example[];
  readonly onlyFor: string;
  readonly close: string;
  readonly live: string;
  readonly reconnecting: string;
  readonly failed: Readonly<Record<'network' | 'unavailable' | 'unauthorized' | 'other', string>>;
  readonly noScript: string;
  readonly login: Readonly<Record<'title' | 'label' | 'hint' | 'wrong' | 'enter', string>>;
};

const en: PageTexts = {
  title: 'Console',
  groups: 'Groups',
  direct: 'Chat with hermes',
  speakAs: 'Speak as',
  somebodyElse: 'Somebody else…',
  theirName: 'Name',
  nameRule: '1 to 64 letters, digits, _ or -',
  use: 'Use',
  otherLanguage: '中文',
  demo: 'Demo model',
  demoNote: 'No model server is configured: a small offline demo model answers. It follows rules, knows only the examples and can do little more.',
  demoTag: 'demo',
  bot: 'bot',
  messages: 'Messages',
  message: 'Message',
  placeholder: 'Write to the group…',
  directPlaceholder: 'Write to hermes…',
  mention: 'Mention @hermes',
  mentionHint: 'Without a mention, hermes reads along only where it was asked before.',
  send: 'Send',
  reply: 'Reply in thread',
  replyPlaceholder: 'Reply in this thread…',
  cancel: 'Cancel',
  answer: 'Answer',
  decided: 'settled',
  edited: 'edited',
  inReplyTo: 'In reply to {name}',
  rootGone: 'The first message of this thread is no longer shown.',
  emptyTitle: 'Nothing here yet',
  emptyHint: 'Write a message, or try one of these:',
  emptyDirect: 'Whatever you write here is between you and hermes.',
  examples: [
    { title: 'Have something calculated', text: '@hermes (13+27)*4' },
    { title: 'Ask for something unclear: hermes asks back', text: '@hermes deploy the new version' },
    { title: 'Post to another group: hermes asks first', text: '@hermes tell #all: lunch at noon' },
  ],
  onlyFor: 'Only {name} sees this:',
  close: 'Close',
  live: 'Live',
  reconnecting: 'Reconnecting…',
  failed: {
    network: 'The server cannot be reached. Is hermes running?',
    unavailable: 'Hermes cannot store anything at the moment. Please try again in a minute.',
    unauthorized: 'Your login has ended. Load the page again.',
    other: 'That did not work.',
  },
  noScript: 'This page needs JavaScript, all of it from this server.',
  login: { title: 'Log in', label: 'Admin token', hint: 'The value of HERMES_ADMIN_TOKEN, or server.admin_token in the configuration.', wrong: 'That is not the token.', enter: 'Log in' },
};

const zh: PageTexts = {
  title: '控制台',
  groups: '群组',
  direct: '与 hermes 私聊',
  speakAs: '发言身份',
  somebodyElse: '其他人…',
  theirName: '名字',
  nameRule: '1 到 64 个字母、汉字、数字、_ 或 -',
  use: '使用',
  otherLanguage: 'English',
  demo: '演示模型',
  demoNote: '尚未配置模型服务，由离线演示模型回答。它按规则工作，只懂示例中的内容，能力有限。',
  demoTag: '演示',
  bot: '机器人',
  messages: '消息',
  message: '消息',
  placeholder: '在群里发言…',
  directPlaceholder: '写给 hermes…',
  mention: '提及 @hermes',
  mentionHint: '不提及时，hermes 只在此前被问过的话题里继续听。',
  send: '发送',
  reply: '在话题中回复',
  replyPlaceholder: '回复此话题…',
  cancel: '取消',
  answer: '回答',
  decided: '已处理',
  edited: '已编辑',
  inReplyTo: '回复 {name}',
  rootGone: '此话题的第一条消息已不再显示。',
  emptyTitle: '这里还没有消息',
  emptyHint: '写一条消息，或试试下面的例子：',
  emptyDirect: '这里的内容只有你和 hermes 能看到。',
  examples: [
    { title: '请它计算', text: '@hermes (13+27)*4' },
    { title: '提一个含糊的要求：hermes 会反问', text: '@hermes 部署新版本' },
    { title: '发到另一个群：hermes 会先请人确认', text: '@hermes 通知 #all：中午聚餐' },
  ],
  onlyFor: '仅 {name} 可见：',
  close: '关闭',
  live: '实时',
  reconnecting: '正在重新连接…',
  failed: {
    network: '无法连接服务器，hermes 是否在运行？',
    unavailable: 'hermes 目前无法保存任何内容，请稍后再试。',
    unauthorized: '登录已失效，请重新加载页面。',
    other: '操作没有成功。',
  },
  noScript: '此页面需要 JavaScript，全部由本服务器提供。',
  login: { title: '登录', label: '管理员令牌', hint: '即 HERMES_ADMIN_TOKEN，或配置中的 server.admin_token。', wrong: '令牌不正确。', enter: '登录' },
};

export const pageTexts: Readonly<Record<Language, PageTexts>> = { en, zh };
