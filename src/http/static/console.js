// The group chat in the browser. Whatever people or the bot wrote is shown as text and never as markup.
const boot = JSON.parse(document.body.dataset.boot);
const { texts } = boot;
const shownAtOnce = 400;

const $ = (id) => document.getElementById(id);
const memory = {
  get: (key) => {
    try {
      return localStorage.getItem(`hermes.${key}`) ?? undefined;
    } catch {
      return undefined;
    }
  },
  set: (key, value) => {
    try {
      localStorage.setItem(`hermes.${key}`, value);
    } catch {
      // A browser that keeps nothing still works; it only forgets who spoke last.
    }
  },
};

const state = { channels: boot.channels, channel: '', user: memory.get('user') ?? boot.people[0].id, loading: 0 };

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined));
  return node;
}

const isDirect = (channel) => channel.startsWith('@');
const nameOf = (user) => boot.people.find(({ id }) => id === user)?.name ?? user;
const fill = (sentence, name) => sentence.replace('{name}', () => name);

// ---------------------------------------------------------------- server

async function api(method, path, body) {
  const sent = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, { method, ...sent });
  } catch {
    throw new Error(texts.failed.network);
  }
  const data = await response.json().catch(() => undefined);
  if (response.ok) return data;
  if (response.status === 401) throw new Error(texts.failed.unauthorized);
  if (response.status === 503 && boot.language === 'zh') throw new Error(texts.failed.unavailable);
  throw new Error(data?.error?.message ?? texts.failed.other);
}

/** Shows what went wrong; true when nothing did. */
async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    notice(error.message, 'problem');
    return false;
  }
}

function notice(text, kind, only) {
  const close = el('button', { type: 'button', class: 'quiet', onclick: () => node.remove() }, texts.close);
  const node = el('div', { class: `notice ${kind}${text === texts.failed.network ? ' offline' : ''}` }, el('p', { dir: 'auto' }, only ? el('strong', {}, `${only} `) : '', text), close);
  $('notices').append(node);
  setTimeout(() => node.remove(), 12_000);
}

async function post(text, { thread, mention }) {
  const user = state.user;
  const { notice: only } = await api('POST', '/api/console/messages', { channel: state.channel, user: state.user, text, mention, ...(thread ? { thread } : {}) });
  if (only) notice(only, 'private', fill(texts.onlyFor, nameOf(user)));
  await load();
}

async function press(interactionId, answer) {
  const user = state.user;
  const receipt = await api('POST', `/api/interactions/${encodeURIComponent(interactionId)}`, { user, ...answer });
  if (receipt.notice) notice(receipt.notice, 'private', fill(texts.onlyFor, nameOf(user)));
  await load();
}

// ---------------------------------------------------------------- messages

/** Only the newest request counts; an answer that comes late would bring back old lines. */
async function load() {
  const asked = ++state.loading;
  const query = new URLSearchParams({ channel: state.channel, user: state.user, limit: String(shownAtOnce) });
  await attempt(async () => {
    const { messages } = await api('GET', `/api/console/messages?${query}`);
    if (asked === state.loading) render(messages);
  });
}

function render(lines) {
  const box = $('threads');
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  const threads = Map.groupBy(lines, (line) => line.thread);
  const ids = [...threads.keys()].sort();
  box.querySelector('.empty')?.remove();
  for (const node of [...box.children]) if (!threads.has(node.dataset.thread)) node.remove();
  ids.forEach((id, index) => {
    const node = [...box.children].find((child) => child.dataset.thread === id) ?? threadNode(id);
    if (box.children[index] !== node) box.insertBefore(node, box.children[index] ?? null);
    renderLines(node, id, threads.get(id), lines);
  });
  if (ids.length === 0) box.append(emptyNode());
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function threadNode(id) {
  const lines = el('div', { class: 'lines' });
  const node = el('article', { class: 'thread', 'data-thread': id }, lines);
  if (id === '') return node;
  const open = el('button', { type: 'button', class: 'quiet', onclick: () => toggle(true) }, texts.reply);
  const form = textForm({ class: 'reply', label: texts.reply, placeholder: texts.replyPlaceholder, button: texts.send, mention: true, cancel: () => toggle(false), submit: (text, mention) => post(text, { thread: id, mention }) });
  const toggle = (shown) => {
    form.hidden = !shown;
    open.hidden = shown;
    (shown ? form.querySelector('textarea') : open).focus();
    if (shown) form.scrollIntoView({ block: 'nearest' });
  };
  form.hidden = true;
  node.append(el('div', { class: 'below' }, open, form));
  return node;
}

/** Lines that did not change keep their nodes, and with them focus and half-written answers. */
function renderLines(node, id, lines, all) {
  const box = node.querySelector('.lines');
  const rootKnown = id === '' || lines.some((line) => line.key.endsWith(`:${id}`));
  const wanted = lines.map((line) => {
    const signature = JSON.stringify(line);
    const known = [...box.children].find((child) => child.dataset.key === line.key);
    if (known?.signature === signature) return known;
    const fresh = lineNode(line, all);
    fresh.signature = signature;
    fresh.classList.toggle('root', line.key.endsWith(`:${id}`));
    return fresh;
  });
  if (!rootKnown) wanted.unshift(box.querySelector('.gone') ?? el('p', { class: 'gone' }, texts.rootGone));
  for (const child of [...box.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, index) => {
    if (box.children[index] !== child) box.insertBefore(child, box.children[index] ?? null);
  });
}

function lineNode(line, all) {
  const ours = line.user === 'hermes';
  const name = ours ? 'hermes' : nameOf(line.user);
  const tags = [ours ? texts.bot : undefined, ours && boot.demo ? texts.demoTag : undefined, line.settled ? texts.decided : undefined, line.edited ? texts.edited : undefined];
  const quoted = line.quote ? all.find(({ key }) => key.endsWith(`:${line.quote}`)) : undefined;
  const head = el('div', { class: 'head' }, el('bdi', { class: 'name' }, name), ...tags.filter(Boolean).map((word) => el('span', { class: 'tag' }, word)), timeNode(line.at));
  const text = el('div', { class: 'text', dir: 'auto' });
  if (line.mention && !/@hermes/i.test(line.text)) text.append(el('span', { class: 'chip' }, '@hermes'), ' ');
  text.append(...(ours ? marked(line.text) : [line.text]));
  const kinds = ['line', ours ? 'ours' : '', line.progress ? 'progress' : '', line.settled ? 'settled' : '', line.buttons || line.input ? 'card' : ''].filter(Boolean).join(' ');
  const node = el('div', { class: kinds, 'data-key': line.key, 'aria-live': line.progress ? 'off' : undefined }, el('span', { class: `face face${faceOf(line.user)}`, 'aria-hidden': 'true' }, [...name][0].toUpperCase()));
  const body = el('div', { class: 'body' }, head, quoted ? el('div', { class: 'quote' }, el('bdi', {}, fill(texts.inReplyTo, nameOf(quoted.user)))) : undefined, text);
  if (line.buttons) body.append(buttonsNode(line.buttons));
  if (line.input) body.append(answerForm(line));
  node.append(body);
  return node;
}

/** The little Markdown that our cards use; everything stays text, so nothing in it can become an element of its own. */
function marked(text) {
  return text.split(/(\*\*[^*\n]+\*\*|`[^`\n]+`)/).map((piece) => {
    if (/^\*\*.+\*\*$/.test(piece)) return el('strong', {}, piece.slice(2, -2));
    return /^`.+`$/.test(piece) ? el('code', {}, piece.slice(1, -1)) : piece;
  });
}

function buttonsNode(buttons) {
  const box = el('div', { class: 'buttons' });
  for (const { interactionId, choice, label, style } of buttons) {
    const button = el('button', { type: 'button', class: style ?? '', dir: 'auto' }, label);
    button.addEventListener('click', async () => {
      for (const each of box.children) each.disabled = true;
      await attempt(() => press(interactionId, { choice }));
      for (const each of box.children) each.disabled = false;
    });
    box.append(button);
  }
  return box;
}

/** An answer in words to exactly this question; a reply in the thread would do as well, where only one is open. */
function answerForm(line) {
  return textForm({ class: 'answer', label: line.input.label, placeholder: line.input.label, button: texts.answer, submit: (text) => press(line.input.interactionId, { text }) });
}

function textForm({ class: kind, label, placeholder, button, mention, cancel, submit }) {
  const area = el('textarea', { rows: '1', maxlength: '20000', placeholder, 'aria-label': label, dir: 'auto' });
  const check = mention ? el('input', { type: 'checkbox', checked: '' }) : undefined;
  const form = el('form', { class: kind }, area);
  const send = el('button', { type: 'submit', class: 'primary' }, button);
  const back = cancel ? el('button', { type: 'button', class: 'quiet', onclick: cancel }, texts.cancel) : undefined;
  form.append(el('div', { class: 'row' }, check ? el('label', { class: 'check', title: texts.mentionHint }, check, ` ${texts.mention}`) : undefined, back, send));
  onSubmit(form, area, async (text) => {
    const sent = await attempt(() => submit(text, check?.checked === true));
    if (sent) cancel?.();
    return sent;
  });
  return form;
}

/** Enter sends, Shift+Enter begins a line; while an input method is composing, Enter belongs to it. */
function onSubmit(form, area, submit) {
  let sending = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const text = area.value;
    if (sending || text.trim() === '') return area.focus();
    sending = true;
    area.value = '';
    if (!(await submit(text))) area.value = text;
    sending = false;
  });
  area.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
}

function emptyNode() {
  const node = el('div', { class: 'empty' }, el('h3', {}, texts.emptyTitle));
  node.append(el('p', {}, isDirect(state.channel) ? texts.emptyDirect : texts.emptyHint));
  if (isDirect(state.channel)) return node;
  for (const { title, text } of texts.examples) {
    const button = el('button', { type: 'button', class: 'example' }, el('span', {}, title), el('code', {}, text));
    button.addEventListener('click', async () => {
      button.disabled = true;
      await attempt(() => post(text, { mention: true }));
      button.disabled = false;
    });
    node.append(button);
  }
  return node;
}

function timeNode(at) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  const shown = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: 'short', ...(today ? {} : { dateStyle: 'medium' }) }).format(date);
  return el('time', { datetime: at, title: date.toLocaleString(document.documentElement.lang) }, shown);
}

const faceOf = (user) => (user === 'hermes' ? 0 : 1 + ([...user].reduce((sum, letter) => sum + letter.codePointAt(0), 0) % 5));

// ---------------------------------------------------------------- where and who

function renderChannels() {
  const direct = `@${state.user}`;
  const links = [...state.channels, { id: direct, name: texts.direct }].map(({ id, name }) =>
    el('li', {}, el('a', { href: `#${encodeURIComponent(id)}`, 'aria-current': id === state.channel ? 'page' : undefined, title: id }, el('bdi', {}, name))),
  );
  $('channels').replaceChildren(...links);
  $('channel').textContent = isDirect(state.channel) ? texts.direct : (state.channels.find(({ id }) => id === state.channel)?.name ?? state.channel);
  $('text').placeholder = isDirect(state.channel) ? texts.directPlaceholder : texts.placeholder;
  $('mention').parentElement.hidden = isDirect(state.channel);
  $('language').href = `/?lang=${boot.language === 'zh' ? 'en' : 'zh'}#${encodeURIComponent(state.channel)}`;
}

/** The address names the channel; the direct chat is always that of who speaks. */
async function goTo(channel) {
  const wanted = isDirect(channel) ? `@${state.user}` : channel;
  state.channel = wanted || (state.channels[0]?.id ?? 'ops');
  if (location.hash !== `#${encodeURIComponent(state.channel)}`) history.replaceState(null, '', `#${encodeURIComponent(state.channel)}`);
  renderChannels();
  $('threads').replaceChildren();
  await load();
  scrollToEnd();
}

function scrollToEnd() {
  $('threads').scrollTop = $('threads').scrollHeight;
}

const channelInAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
};

function showUsers() {
  const known = boot.people.some(({ id }) => id === state.user);
  if (!known) boot.people.push({ id: state.user, name: state.user });
  const options = boot.people.map(({ id, name }) => el('option', { value: id }, name));
  $('user').replaceChildren(...options, el('option', { value: '' }, texts.somebodyElse));
  $('user').value = state.user;
  $('somebody').hidden = true;
}

function speakAs(user) {
  state.user = user;
  memory.set('user', user);
  showUsers();
  listen();
  void goTo(state.channel);
}

$('user').addEventListener('change', () => {
  $('somebody').hidden = $('user').value !== '';
  if ($('user').value === '') $('name').focus();
  else speakAs($('user').value);
});
$('identity').addEventListener('submit', (event) => {
  event.preventDefault();
  const name = $('name').value.trim();
  if (!/^[\p{L}\p{N}_-]{1,64}$/u.test(name) || name.toLowerCase() === 'hermes') return notice(`${texts.theirName}: ${texts.nameRule}`, 'problem');
  speakAs(name);
});
onSubmit($('composer'), $('text'), async (text) => {
  const sent = await attempt(() => post(text, { mention: $('mention').checked || isDirect(state.channel) }));
  if (sent) scrollToEnd();
  return sent;
});
addEventListener('hashchange', () => void goTo(channelInAddress()));

// ---------------------------------------------------------------- live

let events;
let soon = 0;

function listen() {
  events?.close();
  events = new EventSource(`/api/events?user=${encodeURIComponent(state.user)}`);
  events.addEventListener('open', () => {
    connected(true);
    void load();
  });
  events.addEventListener('error', () => {
    connected(false);
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
  events.addEventListener('change', (event) => {
    const { channel } = JSON.parse(event.data);
    if (channel === state.channel) loadSoon();
    else if (!isDirect(channel) && !state.channels.some(({ id }) => id === channel)) void loadChannels();
  });
}

/** A run changes a thread several times in a row. */
function loadSoon() {
  if (soon) return;
  soon = setTimeout(() => {
    soon = 0;
    void load();
  }, 60);
}

function connected(yes) {
  $('connection').textContent = yes ? texts.live : texts.reconnecting;
  $('connection').classList.toggle('on', yes);
  if (yes) for (const node of document.querySelectorAll('.notice.offline')) node.remove();
}

async function loadChannels() {
  await attempt(async () => {
    state.channels = (await api('GET', '/api/console/channels')).channels;
    renderChannels();
  });
}

showUsers();
listen();
void goTo(channelInAddress());
