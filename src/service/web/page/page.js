'use strict';
// Asks the service every two seconds what there is, and shows it. Names and reasons only ever become text, never markup.

const PAUSE = 2000;
const FAILURES_SHOWN = 200;
const FAILURES_PAUSE = 15000;

const byId = id => document.getElementById(id);
const number = new Intl.NumberFormat('en');

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A path is a text, or its bytes where it is not UTF-8. */
function pathText(path) {
  return typeof path === 'string' ? path : new TextDecoder().decode(new Uint8Array(path.bytes));
}

/** What is before a file's name: its folder, with a slash at the end. */
function folderText(name) {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

/** The same with places for line breaks behind its slashes, where a long one is broken best. */
function pathParts(name) {
  return name.split(/(?<=\/)/).flatMap((part, at) => at ? [document.createElement('wbr'), part] : [part]);
}

function pictureText(count) {
  return `${number.format(count)} ${count === 1 ? 'picture' : 'pictures'}`;
}

function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  while (bytes >= 1000 && unit + 1 < units.length) { bytes /= 1000; unit += 1; }
  return `${bytes.toFixed(bytes < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

function timeText(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function say(text) { byId('message').textContent = text; }

// ---- Changes

let mayChange = false;
let isPaused = false;

async function change(path, body) {
  const token = byId('token').value.trim();
  const headers = { 'Content-Type': 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    const answer = await fetch(path, { method: 'POST', headers, body });
    const text = await answer.text();
    if (answer.ok) return Number(text);
    say(text);
  } catch {
    say('The service does not answer.');
  }
  return null;
}

async function retry(patterns) {
  const count = await change('retry', JSON.stringify(patterns));
  if (count === null) return;
  say(`${pictureText(count)} will be retried.`);
  failuresDue = 0;
  await refresh();
}

byId('pause').addEventListener('click', async () => {
  const done = await change(isPaused ? 'resume' : 'pause', '');
  if (done !== null) { say(''); await refresh(); }
});
byId('retry-all').addEventListener('click', () => retry([]));
byId('token').value = sessionStorage.getItem('token') ?? '';
byId('token').addEventListener('change', event => {
  sessionStorage.setItem('token', event.target.value.trim());
  showControls();
});

function showControls() {
  const can = mayChange || byId('token').value.trim() !== '';
  byId('token-field').hidden = mayChange;
  byId('pause').hidden = !can;
  byId('pause').textContent = isPaused ? 'Resume' : 'Pause';
  byId('retry-all').hidden = !can;
  document.body.classList.toggle('may-change', can);
  for (const button of document.querySelectorAll('#failures button')) button.hidden = !can;
}

// ---- What is shown

function showState(status) {
  const service = status.daemon;
  const trouble = service.held ?? (service.missing.length ? `missing: ${service.missing.join(', ')}` : null);
  const device = service.devices.find(device => device.trouble);
  let [kind, text] = ['good', `running, process ${service.pid}`];
  if (trouble) [kind, text] = ['bad', `waits: ${trouble}`];
  else if (service.stopped) [kind, text] = ['warn', 'stopping'];
  else if (service.paused) [kind, text] = ['warn', 'paused; pictures wait for Resume'];
  else if (service.unusable.length) [kind, text] = ['warn', `running; pictures of a folder are held back: ${service.unusable.join('; ')}`];
  else if (device) [kind, text] = ['warn', `running; ${device.name}: ${device.trouble}`];
  else if (service.staying) [kind, text] = ['warn', service.staying];
  if (status.incomplete) text += ` (${status.incomplete})`;
  const state = byId('state');
  if (state.textContent !== text) state.textContent = text;
  state.className = kind;
  isPaused = service.paused;
}

function showSettings({ settings, file, folders }) {
  const own = folders ? '; folders may have their own (histeqd.toml)' : '';
  const text = `${settings}; configuration file ${file ?? 'none'}${own}`;
  if (byId('settings').textContent !== text) byId('settings').replaceChildren(...pathParts(text));
}

function showCounts(status) {
  const service = status.daemon;
  const counts = [
    ['Arriving', service.incomplete], ['Waiting', service.waiting], ['In progress', service.running],
    ['To be retried', status.retrying], ['Done', status.done], ['Failed', status.failed, status.failed > 0],
    ['Done in a minute', status.last_minute], ['Done in an hour', status.last_hour],
  ];
  byId('counts').replaceChildren(...counts.map(([name, count, isBad]) =>
    element('div', { className: isBad ? 'bad' : '' },
      element('dt', { textContent: name }), element('dd', { textContent: number.format(count) }))));
}

function showChart(id, buckets, span) {
  const most = Math.max(1, ...buckets.map(bucket => bucket.done + bucket.failed));
  const width = 240 / buckets.length;
  const bars = buckets.flatMap((bucket, at) => {
    const [done, failed] = [bucket.done, bucket.failed].map(count => 58 * count / most);
    const bar = (kind, y, height) => svg('rect', { class: kind, x: at * width, y, width: width * 0.8, height });
    return [bar('done', 60 - done, done), bar('failed', 60 - done - failed, failed)];
  });
  const sum = key => buckets.reduce((sum, bucket) => sum + bucket[key], 0);
  const text = `${number.format(sum('done'))} done, ${number.format(sum('failed'))} failed`;
  byId(id).replaceChildren(...bars);
  byId(id).setAttribute('aria-label', `Pictures in the last ${span}: ${text}`);
  byId(`${id}-sum`).textContent = text;
}

function meterRow(name, used, all, text, state, isBad) {
  const meter = element('meter', { min: 0, max: Math.max(all, 1), value: used });
  meter.setAttribute('aria-label', `${name}: ${text}`);
  return element('tr', {},
    element('th', { scope: 'row', textContent: name }),
    element('td', {}, meter, ` ${text}`),
    element('td', { textContent: state, className: isBad ? 'bad' : '' }));
}

let busyBefore = new Map();

/** The share of the time since the last look during which a device had pictures. */
function load(device, now) {
  if (device.busy_seconds === null) return '';
  const before = busyBefore.get(device.name);
  busyBefore.set(device.name, [now, device.busy_seconds]);
  if (!before || now <= before[0]) return '';
  const share = (device.busy_seconds - before[1]) / ((now - before[0]) / 1000);
  return `, busy ${Math.round(100 * Math.min(1, Math.max(0, share)))} %`;
}

function showMachine(page) {
  const now = performance.now();
  const rows = page.devices.map(device => {
    const text = `${device.slots_in_use} of ${pictureText(device.slots)}${load(device, now)}`;
    const times = device.failures === 1 ? 'once' : `${number.format(device.failures)} times`;
    const failed = device.failures ? ` (failed ${times})` : '';
    return meterRow(device.name, device.slots_in_use, device.slots, text, (device.trouble ?? (device.idle ? 'idle' : 'works')) + failed, !!device.trouble);
  });
  const use = (name, { used, all }, state) => meterRow(name, used, all, `${bytesText(used)} of ${bytesText(all)}`, state, true);
  rows.push(use('memory of pictures', page.memory, ''));
  if (page.disk) rows.push(use('disk', page.disk, page.disk.used > 0.95 * page.disk.all ? 'nearly full' : ''));
  byId('machine').replaceChildren(...rows);
}

const cards = new Map();

function showLatest(latest) {
  byId('no-latest').hidden = latest.length > 0;
  const numbers = new Set(latest.map(picture => picture.number));
  for (const [own, card] of cards) {
    if (!numbers.has(own)) { card.remove(); cards.delete(own); }
  }
  for (const picture of [...latest].reverse()) {
    if (!cards.has(picture.number)) {
      const card = cardOf(picture);
      cards.set(picture.number, card);
      byId('latest').prepend(card);
    }
    cards.get(picture.number).querySelector('.ago').textContent = `${timeText(picture.seconds_ago)} ago`;
  }
}

function cardOf(picture) {
  const name = pathText(picture.input);
  const base = `pictures/${picture.number}`;
  const compare = element('div', { className: 'compare' });
  const part = element('span', { className: 'part' });
  for (const side of ['before', 'after']) {
    const image = element('img', { className: side, alt: `${name}, ${side}`, loading: 'lazy', src: `${base}/${side}.png` });
    image.addEventListener('load', () => showPart(part, base, side), { once: true });
    image.addEventListener('error', async () => {
      image.remove();
      const why = await fetch(`${base}/${side}.png`).then(answer => answer.text()).catch(() => '');
      compare.append(element('p', { textContent: `no picture ${side}: ${why}` }));
    }, { once: true });
    compare.append(image);
  }
  const slider = element('input', { type: 'range', min: 0, max: 100, value: 50 });
  slider.setAttribute('aria-label', `${name}: divider between before and after`);
  slider.addEventListener('input', () => compare.style.setProperty('--at', `${slider.value}%`));
  const details = element('details', {}, element('summary', { textContent: 'Histograms and times' }));
  details.addEventListener('toggle', () => showDetails(details, picture, base), { once: true });
  const folder = folderText(name);
  const remarks = picture.remarks.map(remark => element('p', { className: 'remark', textContent: remark }));
  return element('figure', {},
    element('figcaption', {}, element('b', { textContent: name.slice(folder.length), title: name }),
      element('span', { className: 'folder' }, ...pathParts(folder)),
      `${(picture.pixels / 1e6).toFixed(picture.pixels < 1e6 ? 2 : 1)} MP, ${picture.device}, ${(picture.seconds * 1000).toFixed(0)} ms, `,
      element('span', { className: 'ago' }), part, ...remarks),
    compare, slider,
    element('div', { className: 'sides', ariaHidden: 'true' }, element('span', { textContent: 'before' }), element('span', { textContent: 'after' })),
    details);
}

/** Says which part of a file of several a preview shows. */
async function showPart(part, base, side) {
  const answer = await fetch(`${base}/${side}.json`).catch(() => null);
  if (!answer?.ok) return;
  const { pages, frames } = await answer.json();
  if (pages > 1) part.textContent = `; page 1 of ${number.format(pages)} is shown`;
  else if (frames > 1) part.textContent = `; frame 1 of ${number.format(frames)} is shown`;
}

async function showDetails(details, picture, base) {
  const stages = Object.entries(picture.stages).map(([stage, seconds]) => element('li', { textContent: `${stage} ${(1000 * seconds).toFixed(1)} ms` }));
  const sizes = element('li', { textContent: `${bytesText(picture.bytes_in)} read, ${bytesText(picture.bytes_out)} written` });
  const charts = await Promise.all(['before', 'after'].map(async side => {
    const answer = await fetch(`${base}/${side}.json`).catch(() => null);
    return answer?.ok ? histogram((await answer.json()).histogram, side) : '';
  }));
  details.append(...charts, element('ul', { className: 'stages' }, sizes, ...stages));
}

function histogram(bins, side) {
  // As square roots, so that rare levels can be seen.
  const heights = bins.map(Math.sqrt);
  const most = Math.max(1, ...heights);
  const bars = heights.map((height, at) => svg('rect', { class: side, x: at, y: 40 - 40 * height / most, width: 1, height: 40 * height / most }));
  return svg('svg', { class: 'histogram', role: 'img', 'aria-label': `Histogram ${side}, from dark to light`, viewBox: `0 0 ${bins.length} 40`, preserveAspectRatio: 'none' }, ...bars);
}

// ---- Pictures that take long

function showParts(pictures) {
  byId('begun').hidden = !pictures.length;
  byId('parts').replaceChildren(...pictures.map(({ input, share }) => {
    const bar = element('progress', { max: 1, value: share });
    const percent = ` ${Math.floor(100 * share)} %`;
    return element('li', {}, ...pathParts(pathText(input)), ' ', bar, percent);
  }));
}

// ---- Failures

let failuresDue = 0;
let failedBefore = null;

async function showFailures(failed) {
  byId('failed-count').textContent = number.format(failed);
  const now = performance.now();
  if (failed === failedBefore && now < failuresDue) return;
  [failedBefore, failuresDue] = [failed, now + FAILURES_PAUSE];
  const search = byId('search').value;
  const answer = await fetch(`failures?${new URLSearchParams({ search, limit: FAILURES_SHOWN })}`);
  if (search !== byId('search').value) return;
  if (!answer.ok) { byId('found').textContent = await answer.text(); return; }
  const { found, failures } = await answer.json();
  const shown = failures.length < found ? `, newest ${failures.length} shown; search for others` : '';
  const count = search ? `${number.format(found)} found` : pictureText(found);
  byId('found').textContent = found ? count + shown : search ? 'none found' : 'none';
  byId('failures').replaceChildren(...failures.map(failureRow));
  showControls();
}

function failureRow(failure) {
  const name = pathText(failure.input);
  const button = element('button', { type: 'button', textContent: 'Retry' });
  button.setAttribute('aria-label', `Retry ${name}`);
  // A name that is no text can only be given to `histeqd retry`, as a glob.
  button.disabled = typeof failure.input !== 'string';
  button.addEventListener('click', () => { button.disabled = true; return retry([failure.input]); });
  return pictureRow(failure, `${timeText(failure.seconds_ago)} ago`, button);
}

/** A row about a picture: its name, the reason, when, and what else there is. */
function pictureRow(picture, when, ...more) {
  const row = element('tr', { role: 'row' },
    element('th', { scope: 'row', role: 'rowheader' }, ...pathParts(pathText(picture.input))));
  row.append(...[picture.reason, element('span', { className: 'when', textContent: when }), ...more].map(cell =>
    element('td', { role: 'cell' }, cell)));
  return row;
}

// ---- What is tried again by itself

function showRetries(status) {
  byId('retried').hidden = !status.retries.length;
  byId('retries-count').textContent = number.format(status.retrying);
  byId('retries-shown').textContent = status.retries.length < status.retrying ? `The next ${status.retries.length}:` : '';
  byId('retries').replaceChildren(...status.retries.map(retry => pictureRow(retry, againText(retry.again_in_seconds))));
}

function againText(seconds) {
  if (seconds === null) return 'again by a later run';
  return seconds === 0 ? 'again soon' : `again in ${timeText(seconds)}`;
}

let searchTimer = 0;
byId('search').addEventListener('input', () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => { failuresDue = 0; void refresh(); }, 200);
});

// ---- The loop

async function refresh() {
  try {
    const answer = await fetch('activity');
    if (!answer.ok) throw new Error();
    const page = await answer.json();
    mayChange = page.may_change;
    byId('version').textContent = page.version;
    showSettings(page.in_force);
    if (page.status.daemon) { showState(page.status); showCounts(page.status); }
    showRetries(page.status);
    showChart('minute', page.recent.minute, 'minute');
    showChart('hour', page.recent.hour, 'hour');
    showMachine(page);
    showParts(page.recent.in_parts);
    showLatest(page.recent.latest);
    showControls();
    await showFailures(page.status.failed);
  } catch {
    byId('state').textContent = 'the service does not answer';
    byId('state').className = 'bad';
  }
}

async function run() {
  for (;;) {
    // A page that nobody sees asks for nothing.
    if (!document.hidden) await refresh();
    await new Promise(resolve => setTimeout(resolve, PAUSE));
  }
}

document.addEventListener('visibilitychange', () => { if (!document.hidden) void refresh(); });
void run();
