// The list of all jobs: filtered, sorted, and only as many rows as are looked at.

const jobs = new Map();  // by uid
const rows = new Map();  // uid → {job, row}: a row is made again when its job has changed
const list = {search: '', namespace: '', phase: '', sort: 'created', descending: true, most: 100, selected: null, shown: []};

const columns = [
  {key: 'phase', title: 'State', cell: (job) => element('td', {}, stateBadge(job.deleting ? 'Deleting' : job.phase, job.stalled))},
  {key: 'name', title: 'Job', cell: nameCell},
  {key: 'percent', title: 'Progress', cell: progressCell},
  {key: 'etaSeconds', title: 'ETA', number: true, text: (job) => (job.phase === 'Running' ? duration(job.etaSeconds) : '')},
  {key: 'examplesPerSecond', title: 'Examples/s', number: true, text: (job) => (job.phase === 'Running' ? number(job.examplesPerSecond) : '')},
  {key: 'loss', title: 'Loss', number: true, text: (job) => number(job.loss)},
  {key: 'curve', title: '', cell: (job) => element('td', {}, spark(job.curve))},
  {key: 'ready', title: 'Ready', number: true, text: (job) => `${job.ready}/${job.desired}`},
  {key: 'restarts', title: 'Restarts', number: true, text: (job) => (job.restarts ? number(job.restarts) : '')},
  {key: 'created', title: 'Age', number: true, cell: (job) => element('td', {class: 'number', 'data-title': 'Age', 'data-age': job.created}, age(job.created))},
];

function nameCell(job) {
  const link = element('a', {class: 'name', href: jobAddress(job)}, job.name);
  const message = job.phase === 'Running' && !job.stalled ? null : job.message;
  return element('td', {class: 'wide'}, link, ' ', element('span', {class: 'quiet'}, job.namespace), message && element('small', {title: message}, message));
}

function progressCell(job) {
  if (!isNumber(job.step)) return element('td', {});
  const total = isNumber(job.totalSteps) ? ` / ${number(job.totalSteps)}` : '';
  return element('td', {}, isNumber(job.percent) ? element('progress', {max: 100, value: job.percent}) : null, element('small', {}, `${number(job.step)}${total} steps`));
}

const jobAddress = (job) => `#/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;

function rowOf(job) {
  const known = rows.get(job.uid);
  if (known && known.job === job) return known.row;
  const row = element('tr', {'data-uid': job.uid}, ...columns.map((column) => (column.cell ? column.cell(job) :
    element('td', {class: 'number', 'data-title': column.title}, column.text(job)))));
  row.addEventListener('click', () => { location.hash = jobAddress(job); });
  rows.set(job.uid, {job, row});
  return row;
}

const wanted = (job) => (!list.namespace || job.namespace === list.namespace) &&
  list.search.split(' ').every((word) => `${job.namespace}/${job.name} ${job.phase} ${job.stalled || ''} ${job.message || ''}`.toLowerCase().includes(word));

const byName = new Intl.Collator('en', {numeric: true});

// Jobs without a value come last, equal ones by age and name.
function order(a, b) {
  const [x, y] = [a[list.sort], b[list.sort]];
  const known = (x !== undefined) - (y !== undefined);
  if (known) return -known;
  const sign = list.descending ? -1 : 1;
  if (x !== y) return sign * (x < y ? -1 : 1);
  return a.created === b.created ? byName.compare(a.name, b.name) : (a.created < b.created ? 1 : -1);
}

function showFilters(found) {
  const names = [...new Set([...jobs.values()].map((job) => job.namespace))].sort();
  const select = byId('namespace');
  const known = ['', ...names].join(' ');
  if (select.dataset.known !== known) {
    select.dataset.known = known;
    select.replaceChildren(element('option', {value: ''}, 'all namespaces'), ...names.map((name) => element('option', {value: name}, name)));
    select.value = names.includes(list.namespace) ? list.namespace : '';
    list.namespace = select.value;
  }
  const counts = new Map();
  for (const job of found) counts.set(job.phase, (counts.get(job.phase) || 0) + 1);
  if (list.phase && !counts.has(list.phase)) counts.set(list.phase, 0);
  const text = JSON.stringify([list.phase, [...counts].sort()]);
  if (byId('phases').dataset.known === text) return;
  byId('phases').dataset.known = text;
  byId('phases').replaceChildren(...[...counts].sort().map(([phase, count]) => {
    const button = element('button', {type: 'button', 'aria-pressed': String(phase === list.phase)}, `${phase} ${number(count)}`);
    button.addEventListener('click', () => { list.phase = list.phase === phase ? '' : phase; showList(); });
    return button;
  }));
}

function showHeads() {
  byId('jobs').tHead.replaceChildren(element('tr', {}, ...columns.map((column) => {
    const sorted = list.sort === column.key ? (list.descending ? 'descending' : 'ascending') : null;
    if (!column.title) return element('th', {});
    const button = element('button', {type: 'button'}, column.title);
    button.addEventListener('click', () => {
      list.descending = list.sort === column.key ? !list.descending : column.key !== 'name' && column.key !== 'phase';
      list.sort = column.key;
      showHeads();
      showList();
    });
    return element('th', {class: column.number || column.key === 'created' ? 'number' : null, 'aria-sort': sorted}, button);
  })));
}

function showList() {
  const matching = [...jobs.values()].filter(wanted);
  showFilters(matching);
  const found = matching.filter((job) => !list.phase || job.phase === list.phase).sort(order);
  list.shown = found.slice(0, list.most);
  if (!list.shown.some((job) => job.uid === list.selected)) list.selected = null;
  byId('jobs').tBodies[0].replaceChildren(...list.shown.map(rowOf));
  markSelected();
  byId('jobs').hidden = !found.length;
  byId('none').textContent = found.length ? '' : jobs.size ? 'No job matches.' : 'No TrainingJob in the namespaces that the operator watches.';
  byId('more').hidden = found.length <= list.most;
  byId('more').textContent = `${number(found.length - list.most)} more`;
}

function markSelected() {
  for (const {job, row} of rows.values()) row.setAttribute('aria-selected', String(job.uid === list.selected));
}

// Moves the selection by so many rows.
function select(by) {
  if (!list.shown.length) return;
  const at = list.shown.findIndex((job) => job.uid === list.selected);
  const next = at < 0 ? 0 : Math.min(list.shown.length - 1, Math.max(0, at + by));
  list.selected = list.shown[next].uid;
  markSelected();
  rows.get(list.selected).row.scrollIntoView({block: 'nearest'});
}

function takeJobs(changed, gone) {
  for (const uid of gone) {
    jobs.delete(uid);
    rows.delete(uid);
  }
  for (const job of changed) jobs.set(job.uid, job);
  showList();
}

function takeAllJobs(all) {
  const present = new Set(all.map((job) => job.uid));
  takeJobs(all, [...jobs.keys()].filter((uid) => !present.has(uid)));
}
