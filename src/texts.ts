/** Every sentence of ours that people in a group read, in both languages. Completeness is held by the type. */
import type { Language } from './adapters/types.ts';

export type Texts = {
  readonly progress: Readonly<Record<'thinking' | 'calculating' | 'looking' | 'asking' | 'sending' | 'working', string>>;
  readonly elapsed: (seconds: number) => string;
  readonly joined: string;
  readonly queued: (ahead: number) => string;
  readonly queueFull: (limit: number) => string;
  readonly stopped: (by: string) => string;
  readonly nothingToStop: string;
  readonly notYoursToStop: string;
  readonly changeTooLate: string;
  readonly help: string;
  readonly whichQuestion: (list: string) => string;
  readonly clarify: (asker: string, question: string) => string;
  readonly clarifyHow: (hasOptions: boolean) => string;
  readonly approval: (facts: { tool: string; code: string; args: string; meaning: string; level2: boolean; who: string; within: string }) => string;
  readonly invisibleWarning: string;
  readonly asker: (name: string) => string;
  readonly anyMember: string;
  readonly approve: string;
  readonly deny: string;
  readonly approveHow: (code: string) => string;
  readonly answerLabel: string;
  readonly settled: Readonly<Record<'answered' | 'approved' | 'declined' | 'expired' | 'withdrawn' | 'undeliverable', (facts: { by: string; value: string }) => string>>;
  readonly reminder: (question: string, within: string) => string;
  readonly notEntitled: (who: string) => string;
  readonly alreadyDecided: string;
  readonly expired: string;
  readonly noSuchRequest: (code: string) => string;
  readonly notADecision: string;
  readonly failed: Readonly<Record<string, string>> & { readonly other: string };
  readonly failedAdvice: (facts: { done: string; failed: string }) => string;
  readonly tryAgain: string;
  readonly emptyAnswer: string;
  readonly provenance: (asker: string, from: string) => string;
  readonly directChat: string;
  readonly maybeRepeated: string;
  readonly unknownDelivery: (where: string) => string;
  readonly deliveryFailed: (where: string, reason: string) => string;
  readonly storageDegraded: string;
  readonly duration: (ms: number) => string;
  readonly partOf: (n: number, total: number) => string;
};

const en: Texts = {
  progress: { thinking: 'Thinking', calculating: 'Calculating', looking: 'Looking it up', asking: 'Preparing a question', sending: 'Sending a message', working: 'Working' },
  elapsed: (seconds) => `${seconds} s`,
  joined: 'Noted, I am taking this into account.',
  queued: (ahead) => `Noted, this is next after ${ahead === 1 ? 'one other request' : `${ahead} other requests`} in this thread.`,
  queueFull: (limit) => `Not taken: ${limit} of your requests already wait here. Please ask again when one of them is done, or say \`stop\`.`,
  stopped: (by) => `Stopped by ${by}. Nothing more will be done for this request.`,
  nothingToStop: 'There is nothing of yours at work here.',
  notYoursToStop: 'Only the person who asked, or an operator, can stop this.',
  changeTooLate: 'I had already begun when this message was changed; I go on with what I read first. Write again to correct it.',
  help: 'Mention me with a question or a task, and I answer in the thread. I ask back when something is unclear, and I ask for confirmation before anything that cannot be undone. `stop` ends what I am doing for you here.',
  whichQuestion: (list) => `More than one question is open here. Please start your answer with the code of the one you mean:\n${list}`,
  clarify: (asker, question) => `**Question for ${asker}**\n\n${question}`,
  clarifyHow: (hasOptions) => (hasOptions ? 'Press a button, or answer in words in this thread.' : 'Please answer in words in this thread.'),
  approval: (f) =>
    [
      `**Confirmation needed** · code \`${f.code}\``,
      '',
      `Tool: \`${f.tool}\``,
      `Arguments:\n${f.args}`,
      ...(f.meaning ? [`Meaning: ${f.meaning}`] : []),
      `Consequence: ${f.level2 ? '**this cannot be undone.**' : 'this changes something, and can be reverted.'}`,
      `May decide: ${f.who} · open for ${f.within}`,
    ].join('\n'),
  invisibleWarning: '⚠ The text contains invisible or direction-changing characters; they are shown as [U+…]. Read it closely.',
  asker: (name) => `${name}, who asked`,
  anyMember: 'any member',
  approve: 'Approve',
  deny: 'Deny',
  approveHow: (code) => `Or write \`approve ${code}\`, or \`deny ${code} reason\`.`,
  answerLabel: 'Your answer',
  settled: {
    answered: ({ by, value }) => `✔ ${by} answered: **${value}**`,
    approved: ({ by }) => `✔ Approved by ${by}`,
    declined: ({ by, value }) => `✘ Denied by ${by}${value ? `: ${value}` : ''}. Nothing was executed.`,
    expired: () => '⌛ Expired: nobody answered in time. Nothing was executed. Ask again if it is still needed.',
    withdrawn: () => '– Withdrawn: the request has ended. Nothing was executed.',
    undeliverable: () => '– This could not be shown to anybody. Nothing was executed.',
  },
  reminder: (question, within) => `Still open, for another ${within}: ${question}`,
  notEntitled: (who) => `Recorded, and nothing was changed: this can be decided only by ${who}.`,
  alreadyDecided: 'This was decided already; nothing was done a second time.',
  expired: 'This has expired; nothing was executed. Please ask again.',
  noSuchRequest: (code) => `No open request has the code ${code}.`,
  notADecision: 'Please press Approve or Deny, or use the typed form with the code.',
  failed: {
    rate_limited: 'The model service is overloaded at the moment.',
    overloaded: 'The model service is overloaded at the moment.',
    quota: 'The quota of the model service is used up; an admin has to look at it.',
    unauthorized: 'The model service refused our key; an admin has to look at it.',
    not_found: 'The configured model does not exist at the model service; an admin has to look at it.',
    context_length: 'This conversation has become too long for the model. Please start a new thread.',
    timeout: 'The model service did not answer in time.',
    network: 'The model service cannot be reached.',
    stream_cut: 'The model service broke off in the middle of its reply.',
    empty_reply: 'The model service gave no usable reply.',
    bad_response: 'The model service gave no usable reply.',
    bad_request: 'The model service did not accept the request; an admin has to look at it.',
    tool_failures: 'Too many steps failed one after the other, so I stopped.',
    crashed: 'I was interrupted several times while working on this, and gave up.',
    other: 'Something went wrong on my side.',
  },
  failedAdvice: ({ done, failed }) => [done ? `Done until then: ${done}.` : '', failed ? `Did not work: ${failed}.` : ''].filter(Boolean).join(' '),
  tryAgain: 'Please try again later, or ask an admin.',
  emptyAnswer: 'I have no answer to this.',
  provenance: (asker, from) => `_Sent by the bot for ${asker}, from ${from}._`,
  directChat: 'a direct chat',
  maybeRepeated: '_(possibly a repeat: I could not tell whether the first attempt arrived)_',
  unknownDelivery: (where) => `I could not tell whether my message to ${where} arrived, and did not repeat it. Please look there.`,
  deliveryFailed: (where, reason) => `My message for ${where} could not be delivered (${reason}). It is kept in the record.`,
  storageDegraded: 'I cannot store anything at the moment, so nothing new is accepted and nothing is changed. Please write again in a few minutes.',
  duration: (ms) => (ms >= 3_600_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.max(1, Math.round(ms / 60_000))} min`),
  partOf: (n, total) => `(${n}/${total})`,
};

const zh: Texts = {
  progress: { thinking: '正在思考', calculating: '正在计算', looking: '正在查询', asking: '正在准备提问', sending: '正在发送消息', working: '正在处理' },
  elapsed: (seconds) => `${seconds} 秒`,
  joined: '收到，我会一并处理。',
  queued: (ahead) => `收到，本话题中前面还有 ${ahead} 个请求，随后处理。`,
  queueFull: (limit) => `未接收：你在这里已有 ${limit} 个请求在等待。请等其中一个完成后再提，或发送 \`停\`。`,
  stopped: (by) => `已由 ${by} 停止，这个请求不会再有任何动作。`,
  nothingToStop: '这里没有你正在进行的请求。',
  notYoursToStop: '只有提问者本人或操作员可以停止。',
  changeTooLate: '消息被修改时我已经开始处理，仍按原文继续。如需更正请再发一条。',
  help: '在群里 @我 并写下问题或任务，我会在话题里回答。不清楚时我会反问；不可撤销的操作会先请人确认。发送 `停` 可结束我正在为你做的事。',
  whichQuestion: (list) => `这里有不止一个待回答的问题，请在回答开头写上对应的编号：\n${list}`,
  clarify: (asker, question) => `**请 ${asker} 回答**\n\n${question}`,
  clarifyHow: (hasOptions) => (hasOptions ? '请点按钮，或直接在本话题中用文字回答。' : '请直接在本话题中用文字回答。'),
  approval: (f) =>
    [
      `**需要确认** · 编号 \`${f.code}\``,
      '',
      `工具：\`${f.tool}\``,
      `参数：\n${f.args}`,
      ...(f.meaning ? [`含义：${f.meaning}`] : []),
      `后果：${f.level2 ? '**不可撤销。**' : '会产生改动，可以恢复。'}`,
      `可决定的人：${f.who} · 有效期 ${f.within}`,
    ].join('\n'),
  invisibleWarning: '⚠ 文字中含有不可见或改变书写方向的字符，已显示为 [U+…]，请仔细核对。',
  asker: (name) => `提问者 ${name}`,
  anyMember: '任何成员',
  approve: '批准',
  deny: '拒绝',
  approveHow: (code) => `也可以发送 \`批准 ${code}\`，或 \`拒绝 ${code} 理由\`。`,
  answerLabel: '你的回答',
  settled: {
    answered: ({ by, value }) => `✔ ${by} 已回答：**${value}**`,
    approved: ({ by }) => `✔ 已由 ${by} 批准`,
    declined: ({ by, value }) => `✘ 已被 ${by} 拒绝${value ? `：${value}` : ''}。没有执行任何操作。`,
    expired: () => '⌛ 已过期：没有人及时回答，没有执行任何操作。如仍需要请重新提出。',
    withdrawn: () => '– 已撤回：请求已结束，没有执行任何操作。',
    undeliverable: () => '– 无法展示给任何人，没有执行任何操作。',
  },
  reminder: (question, within) => `仍在等待回答，还剩 ${within}：${question}`,
  notEntitled: (who) => `已记录，没有产生任何变化：这只能由${who}来决定。`,
  alreadyDecided: '这件事已经决定过了，没有重复执行。',
  expired: '已过期，没有执行任何操作。请重新提出。',
  noSuchRequest: (code) => `没有编号为 ${code} 的待确认请求。`,
  notADecision: '请点“批准”或“拒绝”，或使用带编号的文字形式。',
  failed: {
    rate_limited: '模型服务目前过载。',
    overloaded: '模型服务目前过载。',
    quota: '模型服务的额度已用完，需要管理员处理。',
    unauthorized: '模型服务拒绝了我们的密钥，需要管理员处理。',
    not_found: '配置的模型在模型服务上不存在，需要管理员处理。',
    context_length: '这段对话对模型来说太长了，请另起一个话题。',
    timeout: '模型服务没有及时响应。',
    network: '无法连接模型服务。',
    stream_cut: '模型服务的回复中途断开。',
    empty_reply: '模型服务没有给出可用的回复。',
    bad_response: '模型服务没有给出可用的回复。',
    bad_request: '模型服务不接受这个请求，需要管理员处理。',
    tool_failures: '连续多个步骤失败，我已停止。',
    crashed: '处理过程中多次被中断，我已放弃。',
    other: '我这边出了问题。',
  },
  failedAdvice: ({ done, failed }) => `${done ? `此前已完成：${done}。` : ''}${failed ? `未成功：${failed}。` : ''}`,
  tryAgain: '请稍后再试，或联系管理员。',
  emptyAnswer: '对此我没有答案。',
  provenance: (asker, from) => `_由机器人代 ${asker} 发送，来自 ${from}。_`,
  directChat: '私聊',
  maybeRepeated: '_（可能是重复消息：无法确认上一次是否送达）_',
  unknownDelivery: (where) => `无法确认发往 ${where} 的消息是否送达，我没有重发，请到那里查看。`,
  deliveryFailed: (where, reason) => `发往 ${where} 的消息未能送达（${reason}），内容已保存在记录中。`,
  storageDegraded: '目前无法保存任何内容，因此暂不接收新请求，也不做任何改动。请几分钟后再发。',
  duration: (ms) => (ms >= 3_600_000 ? `${Math.round(ms / 3_600_000)} 小时` : `${Math.max(1, Math.round(ms / 60_000))} 分钟`),
  partOf: (n, total) => `（${n}/${total}）`,
};

export function textsFor(language: Language): Texts {
  return language === 'zh' ? zh : en;
}

/** Chinese when any Han character stands in it. */
export function languageOf(text: string): Language {
  return /\p{Script=Han}/u.test(text) ? 'zh' : 'en';
}
