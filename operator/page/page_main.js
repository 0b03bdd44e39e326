// What is shown, by the address's fragment; the stream that feeds it; keys and the theme.

const stream = {source: null, timer: null};

function say(text) { byId('news').textContent = text; }

function stopStream() {
  if (stream.source) stream.source.close();
  clearTimeout(stream.timer);
  stream.source = stream.timer = null;
}

// Every tab in front has one stream. Where the server has none left, or its connection is lost, the page asks again every few seconds.
function follow(path, events) {
  stopStream();
  if (document.hidden) return;
  const source = new EventSource(`${path}?watch=true`);
  stream.source = source;
  for (const [name, take] of Object.entries({clock: setClock, ...events})) source.addEventListener(name, (event) => take(JSON.parse(event.data)));
  source.addEventListener('open', () => { clearTimeout(stream.timer); say(''); });
  source.addEventListener('error', async () => {
    clearTimeout(stream.timer);
    if (source.readyState !== EventSource.CLOSED) {  // it opens again by itself, in seconds where the stream had come to its end
      stream.timer = setTimeout(say, 5000, 'The connection is lost; this is the last that was known.');
      return;
    }
    stream.timer = setTimeout(() => follow(path, events), 10000);
    try {
      const answer = await fetch(path);
      if (answer.status === 404) return events.gone && events.gone();
      if (!answer.ok) throw new Error(answer.statusText);
      const [whole] = Object.values(events);
      whole(await answer.json());
      say('All live streams are in use: this is renewed every 10 s.');
    } catch {
      say('The operator does not answer; this is the last that was known.');
    }
  });
}

function partsOf(hash) {
  try { return hash.split('/').map(decodeURIComponent); } catch { return []; }
}

function show() {
  const [, namespace, name] = partsOf(location.hash);
  const one = Boolean(namespace && name);
  byId('list').hidden = one;
  byId('job').hidden = !one;
  document.title = one ? `${name} · Trainyard` : 'Trainyard';
  if (!one) {
    return follow('api/v1/jobs', {
      jobs: (all) => { setClock(all.now); takeAllJobs(all.jobs); },
      changed: (news) => takeJobs(news.jobs, news.gone),
    });
  }
  if (byId('job').dataset.key !== location.hash) {
    byId('job').dataset.key = location.hash;
    showNoJob('…');
  }
  follow(`api/v1/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, {
    job: showJob,
    gone: () => showNoJob(`There is no job ${namespace}/${name} any more.`),
  });
}

function setTheme(theme) {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  document.documentElement.dataset.theme = theme || system;
}

function readTheme() {
  try { return localStorage.getItem('theme') || ''; } catch { return ''; }
}

function nextTheme() {
  const next = {'': 'dark', dark: 'light', light: ''}[readTheme()];
  try { localStorage.setItem('theme', next); } catch { /* without storage the system's theme stays */ }
  setTheme(next);
}

const openSelected = () => { if (list.selected) location.hash = jobAddress(jobs.get(list.selected)); };
const search = () => { byId('search').focus(); byId('search').select(); };

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.matches('input, select');
  if (event.key === 'Escape') {
    if (!byId('job').hidden) location.hash = '#/';
    else if (typing || list.search) {
      byId('search').value = '';
      list.search = '';
      event.target.blur();
      showList();
    }
    return;
  }
  if (typing && event.key === 'Enter') {
    event.target.blur();
    if (!list.selected) select(0);
    return;
  }
  const keys = byId('job').hidden ? {'/': search, j: () => select(1), k: () => select(-1), ArrowDown: () => select(1), ArrowUp: () => select(-1), Enter: openSelected, t: nextTheme} :
    {t: nextTheme};
  if (typing || !keys[event.key] || (event.key === 'Enter' && event.target.matches('a, button'))) return;
  event.preventDefault();
  keys[event.key]();
}

{
  setTheme(readTheme());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTheme(readTheme()));
  byId('theme').addEventListener('click', nextTheme);
  byId('search').addEventListener('input', () => { list.search = byId('search').value.trim().toLowerCase(); list.most = 100; showList(); });
  byId('namespace').addEventListener('change', () => { list.namespace = byId('namespace').value; showList(); });
  const more = () => { list.most += 200; showList(); };
  byId('more').addEventListener('click', more);
  new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) more(); }).observe(byId('more'));
  addEventListener('keydown', onKey);
  addEventListener('hashchange', show);
  document.addEventListener('visibilitychange', () => (document.hidden ? stopStream() : show()));
  setInterval(() => { for (const each of document.querySelectorAll('[data-age]')) each.textContent = age(each.dataset.age); }, 1000);
  showHeads();
  show();
}
