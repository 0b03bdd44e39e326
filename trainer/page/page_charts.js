// Charts, by Chart.js. A chart is made once and then gets new data, so that a page can follow a run.

const charts = new Map();  // by id
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const color = (place) => style(`--c${place % 8}`);
const faint = (hex) => `${hex}55`;

// The mean of the past with weights that fall by the same factor from point to point, corrected for its start (Kingma, Ba 2015). It looks back over a
// twentieth of the curve, over ten points at most.
function smoothed(points) {
  const factor = 1 - 1 / Math.min(10, Math.max(1, points.length / 20));
  let mean = 0;
  let weight = 0;
  return points.map(([step, value]) => {
    if (!isNumber(value)) return [step, null];
    mean = factor * mean + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return [step, mean / weight];
  });
}

function axis(title, extra) {
  const {ticks, ...others} = extra || {};
  return {
    title: {display: Boolean(title), text: title, color: style('--quiet'), font: {size: 11}},
    grid: {color: style('--line'), drawBorder: false},
    ticks: {color: style('--quiet'), maxRotation: 0, autoSkipPadding: 16, font: {size: 11}, ...ticks},
    ...others,
  };
}

// A share that does not change, such as a single accuracy, is shown on the axis of all shares: the library would go below 0 and above 1.
function bounds(spec) {
  const shares = spec.format === percent ? new Set(spec.lines.flatMap((line) => line.points.map(([, value]) => value)).filter(isNumber)) : null;
  return shares && shares.size < 2 ? {min: 0, max: 1} : {};
}

function options(kind, spec) {
  const bars = kind === 'bar';
  const values = axis(spec.unit, {
    type: spec.log ? 'logarithmic' : 'linear', stacked: bars, beginAtZero: bars || Boolean(spec.fromZero), grace: spec.fromZero ? '5%' : 0,
    ticks: {callback: (value, at, all) => (spec.log && at % Math.ceil(all.length / 6) ? null : (spec.format || number)(value))},
    ...bounds(spec),
  });
  const places = bars ? axis('', {stacked: true, grid: {display: false}}) :
    axis(spec.across || 'step', {type: 'linear', min: 0, max: spec.end, ticks: {callback: number, ...(spec.across ? {} : {precision: 0})}});
  return {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: bars, normalized: true, indexAxis: bars ? 'y' : 'x',
    interaction: {mode: 'nearest', axis: 'xy', intersect: false},
    scales: bars ? {x: values, y: places} : {x: places, y: values},
    plugins: {
      legend: {
        position: 'bottom', display: spec.lines.filter((line) => !line.silent).length > 1,
        labels: {color: style('--ink'), usePointStyle: true, pointStyle: 'rectRounded', boxWidth: 8, boxHeight: 8, font: {size: 12},
          filter: (item) => !spec.lines[item.datasetIndex].silent},
      },
      tooltip: {
        backgroundColor: style('--ink'), titleColor: style('--card'), bodyColor: style('--card'), displayColors: false,
        callbacks: {
          title: (items) => (bars ? items[0].label : `${spec.across || 'step'} ${number(items[0].parsed.x)}`),
          label: (item) => `${item.dataset.label}  ${(spec.format || number)(bars ? item.parsed.x : item.parsed.y)}`,
        },
      },
    },
  };
}

const MOST_DOTS = 50;  // more would cover the line

function dataset(line, place) {
  const own = line.color === undefined ? color(place) : color(line.color);
  if (line.values) return {label: line.name, data: line.values, backgroundColor: own, borderRadius: 3, maxBarThickness: 26};
  const alone = (line.dots && line.points.length <= MOST_DOTS) || line.points.filter(([, value]) => isNumber(value)).length < 2;
  return {
    label: line.name, data: line.points.map(([x, y]) => ({x, y})), borderColor: line.faint ? faint(own) : own, backgroundColor: own,
    clip: 6, borderWidth: line.faint ? 1 : 2, borderDash: line.dashed ? [5, 4] : [], pointRadius: alone ? 3.5 : 0, pointHitRadius: 12, tension: 0,
    stepped: line.stepped ? 'before' : false, order: line.faint ? 1 : 0,
  };
}

// What a test, or a person with the inspector, can ask: how many points this chart has drawn.
const counts = {
  id: 'counts',
  afterDraw(chart) {
    chart.canvas.dataset.points = chart.data.datasets.reduce((sum, set, at) => sum + chart.getDatasetMeta(at).data.length, 0);
  },
};

// A chart in the section's grid. `spec`: title, lines [{name, points: [[x, y]…] or values, color: place, faint, dots, dashed, stepped, silent}],
// unit, across, format, log, fromZero, end, and for bars `labels`. Nothing to draw: no chart.
function draw(section, id, spec, kind = 'line') {
  spec.lines = spec.lines.filter((line) => (line.values || line.points).length > 0);
  if (!spec.lines.length) return;
  let chart = charts.get(id);
  if (!chart) {
    const canvas = element('canvas', {role: 'img', 'aria-label': spec.title, id});
    const log = spec.canLog ? element('input', {type: 'checkbox'}) : null;
    const figure = element('figure', {}, element('figcaption', {}, element('h3', {}, spec.title), log && element('label', {}, log, ' log scale')),
      element('div', {class: 'plot'}, canvas));
    byId(section).querySelector('.charts').append(figure);
    chart = new Chart(canvas, {type: kind, data: {datasets: []}, options: options(kind, spec), plugins: [counts]});
    charts.set(id, chart);
    if (log) log.addEventListener('change', () => { chart.spec.log = log.checked; redraw(id); });
  }
  spec.log = chart.spec ? chart.spec.log : false;
  chart.spec = spec;
  chart.canvas.closest('figure').querySelector('h3').textContent = spec.title;
  chart.kind = kind;
  redraw(id);
  byId(section).hidden = false;
}

function redraw(id) {
  const chart = charts.get(id);
  const {spec} = chart;
  chart.options = options(chart.kind, spec);
  chart.data.labels = spec.labels || [];
  chart.data.datasets = spec.lines.map(dataset);
  chart.update('none');
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.forEach((chart, id) => redraw(id)));
