/** From a person's words to what is wanted, by simple rules in Chinese and English. Pure. */
import { expressionsIn, plainSigns } from './expressions.ts';

export type Environment = 'test' | 'staging' | 'production';

/** `content` of a post: `results` stands for what the same message asked before it, undefined for nothing said. */
export type Wish =
  | { readonly kind: 'calculate'; readonly expression: string }
  | { readonly kind: 'time'; readonly timezone?: string }
  | { readonly kind: 'deploy'; readonly environment?: Environment }
  | { readonly kind: 'post'; readonly group: string; readonly content?: string | typeof results }
  | { readonly kind: 'greet' | 'thanks' | 'help' };

export const results = Symbol('results');

/** Everything one message asks for, in order; never empty. */
export function understand(message: string): Wish[] {
  const post = postIn(message);
  const wishes = post ? [...wishesIn(post.rest), post.wish] : wishesIn(message);
  return wishes.length > 0 ? wishes : [smallTalk(message)];
}

function smallTalk(message: string): Wish {
  const words = message.trim().replace(/[\s!！。.,，~～、]+$/u, '');
  if (/^(?:hi|hello|hey|good (?:morning|afternoon|evening)|你好|您好|嗨|哈喽|大家好|早上好|早|下午好|晚上好|在吗)(?:[\s,，!！]+(?:there|all|hermes|everyone))?[?？]?$/iu.test(words)) return { kind: 'greet' };
  return { kind: /^(?:thanks|thank you|thx|many thanks|thanks a lot|thank you very much|谢谢|多谢|感谢|谢谢你|谢了)$/iu.test(words) ? 'thanks' : 'help' };
}

type Found = { readonly at: number; readonly wish: Wish };

function wishesIn(text: string): Wish[] {
  const plain = plainSigns(text);
  const deploy = deployIn(plain);
  const calculations = expressionsIn(plain).map(({ at, expression }): Found => ({ at, wish: { kind: 'calculate', expression } }));
  return [...calculations, ...timeIn(plain), ...deploy].sort((a, b) => a.at - b.at).map(({ wish }) => wish);
}

// ---------------------------------------------------------------- time

const timeWords =
  /几点|几号|星期几|周几|礼拜几|(?:现在|当前|此刻)的?(?:北京)?(?:时间|日期)|今天(?:是)?(?:什么日子|的?日期)|什么时间|报时|\bwhat(?:'s| is) today\b|\bwhat(?:'s| is| are)?\s+(?:the\s+)?(?:current\s+|local\s+)?(?:time|date|day|weekday)\b|\bwhat time\b|\bwhat day\b|\bwhich day\b|\btime is it\b|\b(?:today's|current) (?:date|time|day)\b|\bdate and time\b|^\s*(?:the )?(?:date|time)\s*[?？]?\s*$/iu;

const cities: readonly (readonly [RegExp, string])[] = [
  [/北京|上海|beijing|shanghai/iu, 'Asia/Shanghai'],
  [/东京|tokyo/iu, 'Asia/Tokyo'],
  [/伦敦|london/iu, 'Europe/London'],
  [/柏林|berlin/iu, 'Europe/Berlin'],
  [/纽约|new york/iu, 'America/New_York'],
  [/旧金山|san francisco/iu, 'America/Los_Angeles'],
  [/\butc\b/iu, 'UTC'],
];

function timeIn(text: string): Found[] {
  const found = timeWords.exec(text);
  if (!found) return [];
  const named = /\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)\/[A-Za-z_/]+/.exec(text)?.[0];
  const timezone = named ?? cities.find(([pattern]) => pattern.test(text))?.[1];
  return [{ at: found.index, wish: { kind: 'time', ...(timezone === undefined ? {} : { timezone }) } }];
}

// ---------------------------------------------------------------- deploy

const deployWords = /部署|发布|发版|上线|\bdeploy(?:ing|ment|s)?\b|\brelease\b|\broll ?out\b|\bship it\b/iu;

const environments: readonly (readonly [Environment, RegExp])[] = [
  ['staging', /预发|预生产|灰度|\bstag(?:e|ing)\b|\bpre-?prod(?:uction)?\b/iu],
  ['production', /生产|线上|正式|\bprod(?:uction)?\b|\blive\b/iu],
  ['test', /测试|\btest(?:ing)?\b|\bqa\b/iu],
];

function deployIn(text: string): Found[] {
  const found = deployWords.exec(text);
  if (!found) return [];
  const environment = environmentIn(text);
  return [{ at: found.index, wish: { kind: 'deploy', ...(environment ? { environment } : {}) } }];
}

export function environmentIn(text: string): Environment | undefined {
  return environments.find(([, pattern]) => pattern.test(text))?.[0];
}

// ---------------------------------------------------------------- post

/** A name ends at a colon or a space; between Latin and Chinese letters the message begins. */
const named = String.raw`[^\s:：,，。;；!！?？、“”"'()（）<>]+`;
const group = String.raw`[#＃](?<group>${named}(?=\s*[:：])|[\p{Script=Latin}\d_](?:[\p{Script=Latin}\d_.-]*[\p{Script=Latin}\d_])?|${named})`;
const tellEnglish = new RegExp(String.raw`\b(?:tell|notify|inform|message|let)\s+(?:(?:everyone|everybody|people|all)\s+in\s+)?(?:the\s+)?(?:group\s+|channel\s+)?${group}(?:\s+know\b)?`, 'iu');
const sendEnglish = new RegExp(String.raw`\b(?:send|post|forward|share|announce|write|publish)\b\s*(?<moved>[^\n]*?)\s*\b(?:to|in|into|with)\s+(?:the\s+)?(?:group\s+|channel\s+)?${group}`, 'iu');
const tellChinese = new RegExp(
  String.raw`(?:(?:把|将)\s*(?<moved>[^\n]*?)\s*)?(?:通知|告诉|告知|转告|提醒|同步(?:到|给)|分享(?:到|给)|转发(?:到|给)|发(?:送|布|消息)?(?:到|给|至|在)?)(?:给|一下)?\s*(?:群|频道)?\s*${group}(?:\s*(?:群|频道)(?=[\s:：,，]|$))?`,
  'iu',
);
const sayChinese = new RegExp(String.raw`(?:给|向|在|对)\s*${group}\s*(?:群|频道)?(?:里|中|上)?\s*(?:发(?:送|布|出)?(?:一条|条|个)?(?:消息|通知|公告)?|说|宣布)(?:一下)?`, 'iu');

const courtesy = /^(?:please|thanks|thank you|thx|now|吧|谢谢|一下|好吗)?[\s.!！。?？]*$/iu;
const resultWords = /^(?:(?:the|its|that|this)\s+)?(?:result|answer|outcome|total|value|it|this|that)s?(?:\s+(?:of|for|from)\s+.+)?(?:\s+please)?$|^(?:.*的)?(?:(?:计算|最终|最后|这个|该)的?)?(?:结果|答案|得数)$|^(?:它|这个)$/iu;

type Post = { readonly wish: Extract<Wish, { kind: 'post' }>; readonly rest: string };

/** The group message a text asks for, and the text without it. */
function postIn(text: string): Post | undefined {
  const [found] = [tellEnglish, sendEnglish, tellChinese, sayChinese]
    .map((pattern) => pattern.exec(text))
    .filter((match) => match !== null)
    .sort((a, b) => a.index - b.index);
  const name = found?.groups?.group;
  if (!found || name === undefined) return undefined;
  const before = text.slice(0, found.index);
  const said = bare(text.slice(found.index + found[0].length)) || bare(found.groups?.moved ?? '');
  if (said === '') return { wish: { kind: 'post', group: name }, rest: before };
  if (resultWords.test(said.replace(/[.!。！?？]+$/u, ''))) return { wish: { kind: 'post', group: name, content: results }, rest: `${before} ${said}` };
  return { wish: { kind: 'post', group: name, content: said }, rest: before };
}

/** The message itself: without the words that lead to it, courtesies or quotation marks around it. */
function bare(text: string): string {
  const said = text
    .trim()
    .replace(/^[\s:：,，\-–—]+/u, '')
    .replace(/^(?:that\s+|说[:：,，]?\s*)/iu, '')
    .trim();
  if (courtesy.test(said)) return '';
  return /^(["“「『'])[^"”」』']*(["”」』'])$/u.test(said) ? said.slice(1, -1).trim() : said;
}
