// One job: what holds or failed it, its curves, replicas, conditions and hosts.

const card = (title, value) => (value === '' || value === null || value === undefined ? null : element('div', {class: 'card'}, element('b', {}, value), element('span', {}, title)));

// Heads and lines of cells; a cell is a text or an element. Nothing without lines.
function table(heads, lines) {
  if (!lines.length) return null;
  const cell = (content) => (content instanceof Node && content.tagName === 'TD' ? content : element('td', {}, content));
  return element('div', {class: 'scroll'}, element('table', {}, element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {}, head)))),
    element('tbody', {}, ...lines.map((line) => element('tr', {}, ...line.map(cell))))));
}

const section = (title, ...children) => (children.some(Boolean) ? element('section', {}, element('h2', {}, title), ...children) : null);
const endOf = (end) => (end ? [end.reason, `exit ${end.exitCode}`, end.signal && `signal ${end.signal}`, end.message].filter(Boolean).join(', ') : '');
const at = (time) => element('td', {title: time || '', 'data-age': time || ''}, age(time));

function heldOrFailed(detail) {
  const {status} = detail;
  const found = [];
  const held = (status.conditions || []).find((condition) => condition.type === 'Stalled' && condition.status === 'True');
  if (held) found.push(element('div', {class: 'card held'}, element('b', {}, held.reason), held.message));
  if (status.failure) {
    const {replica, node, exitCode, signal, reason, message} = status.failure;
    const facts = [`replica ${replica}`, node && `node ${node}`, isNumber(exitCode) && `exit code ${exitCode}`, isNumber(signal) && `signal ${signal}`, reason];
    found.push(element('div', {class: 'card failed'}, element('b', {}, 'First failure'), facts.filter(Boolean).join(' · '), message ? element('pre', {}, message) : null));
  }
  return found;
}

function tiles(detail) {
  const {summary, status} = detail;
  const progress = status.progress || {};
  const running = summary.phase === 'Running';
  const total = isNumber(progress.totalSteps) ? ` of ${number(progress.totalSteps)}` : '';
  return element('div', {class: 'cards'},
    card(`step${total}`, number(progress.step)), card('done', isNumber(progress.percent) ? `${number(progress.percent)} %` : ''),
    card('loss', number(progress.loss)), ...Object.entries(progress.metrics || {}).map(([name, value]) => card(`evaluation ${name}`, number(value))),
    card('examples/s', running ? number(progress.examplesPerSecond) : ''), card('ETA', running ? duration(progress.etaSeconds) : ''),
    card('latest checkpoint, step', number(progress.lastCheckpointStep)), card('best checkpoint, step', number(progress.bestCheckpointStep)),
    card('replicas ready', `${summary.ready} / ${summary.desired}`), card('restarts', number(status.restarts)), card('disruptions', status.disruptions ? number(status.disruptions) : ''),
    running && progress.updatedTime ? element('div', {class: 'card'}, element('b', {'data-age': progress.updatedTime}, age(progress.updatedTime)), element('span', {}, 'since the last news of the chief')) : null,
    card('stopped early', progress.stoppedEarly));
}

function replicaTable(detail) {
  const slow = new Set(detail.status.stragglers || []);
  const lines = detail.replicas.map((row) => {
    const state = row.deleting ? 'Terminating' : row.state;
    const news = row.waiting ? `${row.waiting.reason}: ${row.waiting.message || ''}` : endOf(row.ended) || (row.endedBefore ? `before: ${endOf(row.endedBefore)}` : '');
    return [row.replica, stateBadge(state, row.state === 'Running' && !row.ready ? 'not ready' : null), slow.has(row.replica) ? element('span', {class: 'warm'}, 'straggler') : '',
      row.node || '', row.ip || '', row.restarts ? number(row.restarts) : '', at(row.since), element('td', {class: 'text'}, news)];
  });
  return section('Replicas', table(['replica', 'state', '', 'node', 'address', 'restarts', 'runs for', 'last news'], lines),
    detail.more ? element('p', {class: 'quiet'}, `and ${number(detail.more)} more`) : null);
}

function hostsOf(detail) {
  const hosts = Object.entries(detail.hosts || {});
  return section('Hosts', ...hosts.map(([role, addresses]) => element('div', {}, element('small', {}, role), element('pre', {}, addresses.join('\n')))));
}

function servingOf({status}) {
  const {serving} = status;
  if (!serving) return null;
  const version = isNumber(serving.version) ? `version ${serving.version}, ` : '';
  return section('Serving', element('p', {}, `${version}${number(serving.readyReplicas)} ready`), serving.url ? element('pre', {}, serving.url) : null);
}

function showJob(detail) {
  const {summary, status} = detail;
  const points = detail.curve || [];
  const stalled = summary.stalled;
  byId('job').replaceChildren(...[
    element('p', {}, element('a', {class: 'quiet', href: '#/'}, '← all jobs')),
    element('h1', {}, `${summary.namespace}/${summary.name}`),
    element('p', {}, stateBadge(summary.deleting ? 'Deleting' : summary.phase, stalled), ' ', element('span', {class: 'quiet'}, [detail.framework, detail.image].filter(Boolean).join(' · '))),
    summary.message ? element('p', {}, summary.message) : null,
    isNumber(summary.percent) ? element('progress', {max: 100, value: summary.percent}) : null,
    ...heldOrFailed(detail), tiles(detail),
    element('div', {class: 'curves'}, curve('Training loss', points), curve('Examples/s', points.map(([step, , speed]) => [step, speed]), true)),
    (status.stragglers || []).length ? element('p', {class: 'warm'}, `Slow replicas: ${status.stragglers.join(', ')}`) : null,
    replicaTable(detail),
    section('Conditions', table(['condition', 'status', 'reason', 'message', 'since'], (status.conditions || []).map((each) =>
      [each.type, each.status, each.reason, element('td', {class: 'text'}, each.message), at(each.lastTransitionTime)]))),
    servingOf(detail), hostsOf(detail),
    section('Events and logs', element('p', {class: 'quiet'}, 'The operator has no right to read events or logs. Your own rights read them:'),
      element('pre', {}, `kubectl events -n ${summary.namespace} --for trainingjob/${summary.name}\nkubectl trainyard why ${summary.name} -n ${summary.namespace}\nkubectl trainyard logs --all ${summary.name} -n ${summary.namespace}`)),
  ].filter(Boolean));
}

function showNoJob(text) {
  byId('job').replaceChildren(element('p', {}, element('a', {class: 'quiet', href: '#/'}, '← all jobs')), element('p', {}, text));
}
