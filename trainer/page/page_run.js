// The sections of one run.

const kindOf = (run, kind) => list((run.curves || {})[kind]);
const lastStep = (run) => Math.max((run.report || {}).steps || 0, (run.progress || {}).totalSteps || 0) || undefined;

// The lines of a measured curve: thin as recorded, thick smoothed.
function measured(curves) {
  return curves.flatMap(({name, points}, at) => [
    {name: `${name}, as recorded`, points, color: at, faint: true, silent: true},
    {name, points: smoothed(points), color: at},
  ]);
}

const evaluated = (run, metric) => list(run.evaluations).filter(({metrics}) => metrics && metric in metrics).map(({step, metrics}) => [step, metrics[metric]]);

// Of many workers the page has the curves of some.
function someOf(curves, {report}) {
  const workers = (report || {}).workers || 0;
  return curves.length && curves.length < workers ? `, ${curves.length} of ${number(workers)} workers` : '';
}

function drawCurves(run) {
  const end = lastStep(run);
  const recorded = kindOf(run, 'loss');
  const epochs = list((run.report || {}).history).map(({step, loss}) => [step, loss]);
  const training = recorded.some(({points}) => points.length > 1) || !epochs.length ? measured(recorded) : [{name: 'mean of the epoch', points: epochs, color: 0}];
  const behind = Math.max(0, ...recorded.map(({points}) => (points.length ? points[points.length - 1][0] : 0)));
  const live = list(run.live).filter(([step]) => step >= behind).map(([step, loss]) => [step, loss]);
  draw('curves', 'loss', {title: `Loss${someOf(recorded, run)}`, canLog: true, end, lines: [...training, {name: 'now', points: live, color: 0, dashed: true, silent: true},
    {name: 'evaluation', points: evaluated(run, 'loss'), color: 7, dots: true}]});
  draw('curves', 'accuracy', {title: 'Accuracy of the evaluation', format: percent, end, lines: [{name: 'accuracy', points: evaluated(run, 'accuracy'), color: 2, dots: true}]});
  draw('curves', 'perplexity', {title: 'Perplexity', canLog: true, end, lines: [...measured(kindOf(run, 'perplexity')), {name: 'evaluation', points: evaluated(run, 'perplexity'), color: 7, dots: true}]});
  draw('curves', 'rate', {title: 'Learning rate', fromZero: true, end, lines: kindOf(run, 'learningRate').map((curve) => ({...curve, color: 4}))});
  const unit = (run.report || run.progress || {}).unit || 'examples';
  draw('curves', 'speed', {title: `Speed of each worker, ${unit}/s, mean of the last 10 s${someOf(kindOf(run, 'speed'), run)}`, fromZero: true, end, lines: kindOf(run, 'speed').map((curve, at) => ({...curve, color: at}))});
}

function showHead(run) {
  const report = run.report;
  const state = report ? report.state : run.unfinished ? 'Unfinished' : 'Running';
  const tone = {Succeeded: 'good', Failed: 'bad', Running: 'live'}[state] || '';
  byId('name').replaceChildren(run.name, element('span', {class: `state ${tone}`}, state));
  const parts = report ? [report.model, report.strategy, plural(report.workers, 'worker'), report.ps ? plural(report.ps, 'server') : '',
    report.devices > 1 ? `${number(report.devices)} devices a worker` : ''] : [run.dir];
  byId('about').textContent = parts.filter(Boolean).join(' · ');
}

const score = (name, value) => (name === 'accuracy' ? `${(100 * value).toFixed(2)} %` : number(value));
const tile = (title, value, more) => element('div', {class: 'tile'}, element('span', {}, title), element('b', {}, value), more ? element('span', {}, more) : null);

// The steps that took the time: a launch that went on did not do those before it.
function stepsOf({firstStep, steps, plannedSteps}) {
  const whole = steps < plannedSteps ? ` of ${number(plannedSteps)}` : '';
  if (firstStep > 0 && steps > firstStep) return `steps ${number(firstStep)} to ${number(steps)}${whole}`;
  return whole ? `${number(steps)}${whole} steps` : plural(steps, 'step');
}

function showResults(run) {
  const {report, progress} = run;
  const tiles = [];
  const scores = report ? report.eval || {} : (list(run.evaluations).at(-1) || {}).metrics || {};
  for (const [name, value] of Object.entries(scores)) tiles.push(tile(name, score(name, value), 'of the evaluation'));
  if (report) {
    if ('lastLoss' in report) tiles.push(tile('training loss', number(report.lastLoss), 'firstLoss' in report ? `${number(report.firstLoss)} at the start` : ''));
    tiles.push(tile('speed', `${number(report.unitsPerSecond)}`, `${report.unit}/s, ${number(report.batchesPerSecond)} batches/s`));
    tiles.push(tile('time', duration(report.seconds), stepsOf(report)));
    if (report.best) tiles.push(tile(`best ${report.best.metric}`, score(report.best.metric, report.best.value), `at step ${number(report.best.step)}`));
    if (/async$/.test(report.strategy)) tiles.push(tile('staleness', number(report.staleness.mean), `mean; at most ${number(report.staleness.max)} steps`));
  } else if (progress) {
    tiles.push(tile('training loss', number(progress.loss)));
    tiles.push(tile('speed', number(progress.examplesPerSecond * (progress.unitsPerExample || 1)), `${progress.unit}/s`));
    tiles.push(tile('step', number(progress.step), `of ${number(progress.totalSteps)}`));
    tiles.push(tile('time left', duration(progress.etaSeconds)));
  }
  fill('results', tiles.length ? element('div', {class: 'tiles'}, ...tiles) : null,
    run.unfinished ? note('The run has left no report. Its launch was killed, or it still trains.') : null);
}

function showIncidents(run) {
  const report = run.report || {};
  const {leftOut = {}} = report;
  const items = [];
  if (report.warning) items.push(report.warning);
  if (report.stoppedEarly) items.push(`Stopped early at step ${number(report.stoppedEarly.step)}: ${report.stoppedEarly.reason}`);
  for (const {replica, reason} of list(report.failures)) items.push(`${replica} failed: ${reason}`);
  for (const {replica, reason, step, lostSteps} of list(report.restarts)) {
    items.push(`${replica} went on${step >= 0 ? ` at step ${number(step)}` : ''} after: ${reason}${lostSteps > 0 ? `; ${plural(lostSteps, 'step')} lost` : ''}`);
  }
  for (const {from, to, reason} of list(report.redone)) items.push(`Steps ${number(from)} to ${number(to)} were done again: ${reason}`);
  for (const {replica, node, from, to, stepSeconds, medianSeconds} of list(report.stragglers)) {
    items.push(`${replica} on ${node} was slow from step ${number(from)}${to === undefined ? ' on' : ` to ${number(to)}`}: ${duration(stepSeconds)} a step, the median is ${duration(medianSeconds)}`);
  }
  fill('incidents', items.length ? card(...firstOf(items, 10, 'line', (some) => element('ul', {}, ...some.map((item) => element('li', {}, item)))),
    ...Object.entries(leftOut).map(([name, count]) => note(`${plural(count, 'more item')} of ${name} in report.json`))) : null);
}

// A row for each epoch; of many the last ones, the others on demand.
function showEpochs(run) {
  const rows = list((run.report || {}).history);
  const metrics = [...new Set(rows.flatMap((row) => Object.keys(row.eval || {})))];
  const columns = [{title: 'epoch', text: (row) => number(row.epoch)}, {title: 'its last step', text: (row) => number(row.step)}, {title: 'training loss', text: (row) => number(row.loss)},
    ...metrics.map((name) => ({title: `evaluation: ${name}`, text: (row) => (name in (row.eval || {}) ? score(name, row.eval[name]) : '–')})),
    {title: 'time', text: (row) => duration(row.seconds)}];
  const newest = rows.slice(-10);
  const thinned = (run.report || {}).epochs > rows.length ? note('Of so many epochs the page has a part. report.json has all.') : null;
  fill('epochs', newest.length ? card(table(columns, newest), rows.length > newest.length ?
    element('details', {}, element('summary', {}, `${plural(rows.length - newest.length, 'earlier epoch')}`), thinned, table(columns, rows.slice(0, -10))) : null) : null);
}

// Input and servers' work have the colours that they have in the seconds of the step loop.
const laneColor = (name) => ({input: 'input', compute: 'compute'})[name] || 'exchange';

// What replicas did at the same time: a row for each lane of each replica.
function timeline(run) {
  const shown = run.timeline;
  if (!shown || !list(shown.replicas).length) return null;
  const lane = ({name, spans}) => {
    const row = element('div', {class: 'lane', title: name});
    for (const [begin, microseconds, what] of spans) {
      const made = element('span', {class: laneColor(name), title: `${what}: ${duration(1e-6 * microseconds)}, from ${duration(1e-6 * begin)} on`});
      made.style.left = percentOf(begin / shown.microseconds);
      made.style.width = percentOf(microseconds / shown.microseconds);
      row.append(made);
    }
    return row;
  };
  const rows = list(shown.replicas).flatMap((replica) => [element('div', {class: 'who'}, replica.name), element('div', {}, ...list(replica.lanes).map(lane))]);
  const key = [['input', 'waits for input'], ['compute', 'computes'], ['exchange', 'exchanges gradients, updates, serves']];
  return element('div', {}, note(`Steps ${number(shown.steps[0])} to ${number(shown.steps[1])}, ${duration(1e-6 * shown.microseconds)}.${shown.left_out > 0 ? ` The other ${plural(shown.left_out, 'replica')} are in trace.json.` : ''}`),
    element('div', {class: 'timeline'}, ...rows),
    element('p', {class: 'note legend'}, ...key.map(([kind, text]) => element('span', {}, element('i', {class: kind}), text))));
}

function showTime(run) {
  const workers = list((run.report || {}).perWorker);
  const label = (worker) => `${worker.role || 'worker'}-${worker.index}`;
  const some = workers.length > 16 ? `, the first 16 of ${number(run.report.workers)} workers` : '';
  draw('time', 'split', {title: `Seconds of the step loop${some}`, format: duration, labels: workers.slice(0, 16).map(label), lines: [
    {name: 'waits for input', values: workers.slice(0, 16).map((worker) => worker.inputSeconds), color: 1},
    {name: 'computes', values: workers.slice(0, 16).map((worker) => worker.computeSeconds), color: 0},
    {name: 'exchanges gradients, updates', values: workers.slice(0, 16).map((worker) => worker.communicationSeconds), color: 3}]}, 'bar');
  const stages = {};
  for (const worker of workers) for (const [stage, seconds] of Object.entries(worker.inputStages || {})) stages[stage] = (stages[stage] || 0) + seconds;
  const rows = Object.entries(stages).sort((a, b) => b[1] - a[1]);
  const drawn = timeline(run);
  const link = run.trace && !run.served ? note(element('a', {href: 'trace.json', download: ''}, 'trace.json'), ' has all profiled steps. Open it in ',
    element('a', {href: 'https://ui.perfetto.dev', rel: 'noreferrer'}, 'ui.perfetto.dev'), '.') : null;
  const steps = drawn || link ? card(element('h3', {}, 'Timeline'), drawn, link) : null;
  const input = rows.length ? card(element('h3', {}, 'Input pipeline, all workers'), table([{title: 'stage', text: ([name]) => name}, {title: 'time', text: ([, seconds]) => duration(seconds)}], rows),
    note('Batches are prepared while others are computed.')) : null;
  fill('time', steps, input);
}

function showOperators(run) {
  const profile = (run.report || {}).profile;
  if (!profile) return fill('operators');
  const bar = (row) => {
    const made = element('span', {class: 'share'});
    made.style.width = `${Math.min(7, 12 * row.share)}rem`;
    return element('span', {}, made, row.share > 0 && row.share < 0.0005 ? '< 0.1 %' : percent(row.share));
  };
  const columns = (first) => [
    {title: first, text: (row) => row.name}, {title: 'share of the step', class: 'sharecell', text: bar},
    {title: 'ms/step', text: (row) => row.stepMilliseconds.toFixed(3)}, {title: 'calls', text: (row) => number(row.calls)},
    {title: 'GFLOP/s', text: (row) => (1e-9 * row.flopsPerSecond).toFixed(1)}, {title: 'GB/s', text: (row) => (1e-9 * row.bytesPerSecond).toFixed(1)}];
  const part = (milliseconds) => percent(milliseconds / profile.stepMilliseconds);
  return fill('operators', card(
    note(`Steps ${profile.steps[0]} to ${profile.steps[1] - 1} of ${plural(profile.workers, 'worker')}: ${number(profile.stepMilliseconds)} ms a step, of which input ${part(profile.inputMilliseconds)}, compute ${part(profile.computeMilliseconds)}, update ${part(profile.updateMilliseconds)}.`),
    list(profile.devices).length ? table(columns('device'), list(profile.devices)) : null,
    table(columns('operator'), list(profile.operators)),
    element('details', {}, element('summary', {}, 'by node of the graph'), table(columns('node'), list(profile.nodes)))));
}

// What the job's evaluator has done.
function evaluatorNote({evaluator}) {
  if (!evaluator) return null;
  const told = (title, {step, metrics, seconds}) => ` ${title}, of step ${number(step)}: ${Object.entries(metrics).map(([name, value]) => `${name} ${score(name, value)}`).join(', ')}${isNumber(seconds) ? `, in ${duration(seconds)}` : ''}.`;
  return note(`evaluator-${evaluator.index} has ${plural(evaluator.evaluations, 'evaluation')}.${evaluator.best ? told(`The best by ${evaluator.metric}`, evaluator.best) : ''}${evaluator.last ? told('The last', evaluator.last) : ''}`);
}

function showReplicas(run) {
  const report = run.report || {};
  const replicas = [...list(report.perWorker).map((worker) => ({role: 'worker', ...worker})), ...list(report.perServer).map((server) => ({role: 'ps', ...server}))];
  const name = (replica) => `${replica.role}-${replica.index}`;
  const usage = (id, title, field, format) => draw('replicas', id, {title, across: 'second', fromZero: true, format,
    lines: replicas.filter((replica) => list(replica.usage).length).map((replica, at) => ({name: name(replica), color: at, points: replica.usage.map((point) => [point.seconds, point[field]])}))});
  usage('cores', 'Processors busy', 'cpuCores', number);
  usage('memory', 'Resident memory', 'residentBytes', bytes);
  const columns = [
    {title: 'replica', text: name}, {title: 'batches', text: (replica) => number(replica.batches)},
    {title: 'examples/s', text: (replica) => (replica.seconds > 0 ? number(Math.round(replica.examples / replica.seconds)) : '–')},
    {title: 'sent', text: (replica) => bytes(replica.bytesSent)}, {title: 'received', text: (replica) => bytes(replica.bytesReceived)},
    {title: 'processors', text: (replica) => number(replica.cpuCores)}, {title: 'peak memory', text: (replica) => bytes(replica.maxRssBytes)}];
  const rows = replicas.length ? card(...firstOf(replicas, 16, 'replica', (some) => table(columns, some))) : null;
  const staleness = report.staleness && report.workers > 1 && rows ? note(`Staleness of gradients: ${number(report.staleness.mean)} steps in the mean, ${number(report.staleness.max)} at most.`) : null;
  const gone = [['worker', report.workers, 'perWorker'], ['server', report.ps, 'perServer']].flatMap(([what, wanted, field]) => {
    const missing = wanted - list(report[field]).length - ((report.leftOut || {})[field] || 0);
    return missing > 0 ? [plural(missing, what)] : [];
  });
  const silent = gone.length ? note(`There are no numbers of ${gone.join(' and ')}: a process that was killed leaves none.`) : null;
  fill('replicas', rows, silent, staleness, evaluatorNote(report));
}

function showSettings(run) {
  const rows = list(run.settings);
  fill('settings', rows.length ? card(note('spec.training, with what --set changed.'),
    table([{title: 'field', text: ([path]) => element('code', {class: 'key'}, path)}, {title: 'value', class: 'text', text: ([, text]) => element('code', {}, text)}], rows)) : null);
}
