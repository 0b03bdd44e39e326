// Several runs side by side; what is shown; and the run that still trains.

function showFoot(run) {
  const report = run.report || {};
  const parts = [report.cpu, report.version && `Trainyard ${report.version}`, report.parametersSha256 && `parameters ${report.parametersSha256.slice(0, 16)}…`];
  byId('foot').textContent = parts.filter(Boolean).join(' · ');
}

function showRun(run) {
  showHead(run);
  showResults(run);
  showIncidents(run);
  drawCurves(run);
  showEpochs(run);
  showMistakes(run);
  showTime(run);
  showOperators(run);
  showReplicas(run);
  showSettings(run);
  showFoot(run);
}

function compareRuns(runs, comparison) {
  byId('name').replaceChildren(`${runs.length} runs side by side`);
  const names = list(comparison.names);
  const rows = (section) => list(comparison[section]);
  const columns = (first) => [{title: first, text: (row) => element('code', {class: 'key'}, row.name)},
    ...names.map((name, at) => ({title: name, class: 'text', text: (row) => row.values[at]}))];
  fill('results', rows('results').length ? element('div', {class: 'card'}, table(columns('result'), rows('results'))) : null);
  byId('results').style.marginTop = '1.25rem';
  fill('differences', card(rows('settings').length ? table(columns('field'), rows('settings')) : note('Their job files say the same.')));
  const overlay = (id, title, lines, extra) => draw('curves', id, {title, lines, ...extra});
  const first = (run, kind) => kindOf(run, kind).slice(0, 1);
  const each = (make) => runs.flatMap((run, at) => make(run).map((line) => ({...line, name: names[at], color: at})));
  const trained = (kind) => each((run) => first(run, kind).flatMap(({points}) => [{points, faint: true, silent: true}, {points: smoothed(points)}]));
  overlay('loss', 'Training loss of the chief', trained('loss'), {canLog: true});
  overlay('perplexity', 'Perplexity of the chief', trained('perplexity'), {canLog: true});
  for (const metric of ['loss', 'accuracy', 'perplexity']) {
    overlay(`evaluated-${metric}`, `Evaluation: ${metric}`, each((run) => [{points: evaluated(run, metric), dots: true}]), metric === 'accuracy' ? {format: percent} : {canLog: true});
  }
  overlay('rate', 'Learning rate', each((run) => first(run, 'learningRate')), {fromZero: true});
  // Images and words have no axis in common: a chart for each unit.
  for (const unit of new Set(runs.map((run) => run.unit || 'examples'))) {
    overlay(`speed-${unit}`, `Speed of the chief, ${unit}/s, mean of the last 10 s`,
      each((run) => ((run.unit || 'examples') === unit ? first(run, 'speed').map(({points}) => ({points})) : [])), {fromZero: true});
  }
}

function showLive(run) {
  const {progress} = run;
  byId('bar').hidden = Boolean(run.report) || !progress;
  if (progress) byId('bar').firstElementChild.style.width = `${Math.min(100, progress.percent || 0)}%`;
  const news = progress && !run.report ? progress.waiting || progress.warning : '';
  byId('news').textContent = news || '';
  byId('news').hidden = !news;
}

// The launcher was killed: whether the replicas train on is not known.
function showLost(since) {
  const state = byId('name').querySelector('.state');
  if (state) state.replaceWith(element('span', {class: 'state'}, 'No news'));
  byId('bar').hidden = true;
  byId('news').textContent = `The launcher has not answered since ${since.toLocaleTimeString()}. The numbers below are its last ones. Where it has ended by itself, the run\u2019s folder has the finished page, report.html.`;
  byId('news').hidden = false;
}

// Asks the launcher once a second, and stops where the run has its report or the launcher is gone.
function follow() {
  let missed = 0;
  let answered = new Date();
  const ask = async () => {
    try {
      const answer = await fetch('run.json', {cache: 'no-store'});
      if (!answer.ok) throw new Error(answer.statusText);
      const run = (await answer.json()).runs[0];
      missed = 0;
      answered = new Date();
      showRun(run);
      showLive(run);
      if (run.report) return;
    } catch (error) {
      if (++missed > 5) return showLost(answered);
    }
    setTimeout(ask, 1000);
  };
  ask();
}

{
  const data = JSON.parse(byId('data').textContent);
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  if (data.live) follow();
  else if (data.runs.length === 1) showRun(data.runs[0]);
  else compareRuns(data.runs, data.comparison);
}
