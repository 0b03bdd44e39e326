// The confusion matrix, the scores of the classes, the surest mistakes.

const MOST_CLASSES_IN_NUMBERS = 20;

// cells[class][predicted] with the right ones on the diagonal.
function matrix(classes, cells) {
  const inNumbers = classes.length <= MOST_CLASSES_IN_NUMBERS;
  const cell = (row, label, predicted) => {
    const total = row.reduce((sum, count) => sum + count, 0);
    const share = total ? row[predicted] / total : 0;
    const made = element('td', {title: `${number(row[predicted])} of ${number(total)} “${classes[label]}” were taken for “${classes[predicted]}”`}, inNumbers && row[predicted] ? row[predicted] : '');
    if (share) made.style.background = `rgba(${style(label === predicted ? '--heat' : '--miss')}, ${Math.min(0.85, (label === predicted ? 0.12 : 0.2) + 0.6 * share)})`;
    return made;
  };
  const head = inNumbers ? element('tr', {}, element('th', {}, ''), ...classes.map((name) => element('th', {}, name))) : null;
  const rows = cells.map((row, label) => element('tr', {}, inNumbers ? element('th', {}, classes[label]) : null, ...row.map((count, predicted) => cell(row, label, predicted))));
  return element('div', {class: 'scroll'}, element('table', {class: inNumbers ? 'matrix' : 'matrix dense'}, ...[head, ...rows].filter(Boolean)));
}

function scores(classes, cells) {
  const column = (at) => cells.reduce((sum, row) => sum + row[at], 0);
  const rows = classes.map((name, at) => {
    const support = cells[at].reduce((sum, count) => sum + count, 0);
    const predicted = column(at);
    return {name, support, precision: cells[at][at] / predicted, recall: cells[at][at] / support, f1: (2 * cells[at][at]) / (support + predicted)};
  });
  const digits = (value) => (isNumber(value) ? value.toFixed(3) : '–');
  return table([{title: 'class', text: (row) => row.name}, {title: 'precision', text: (row) => digits(row.precision)}, {title: 'recall', text: (row) => digits(row.recall)},
    {title: 'F1', text: (row) => digits(row.f1)}, {title: 'examples', text: (row) => number(row.support)}], rows);
}

function sample({image, label, predicted, probability}) {
  return element('div', {}, element('img', {src: `data:image/png;base64,${image}`, alt: label}), element('div', {class: 'wrong'}, `taken for ${predicted}`),
    element('div', {class: 'note'}, `is ${label}; ${percent(probability)} sure`));
}

function showMistakes(run) {
  const {evaluation} = run;
  if (!evaluation) return fill('mistakes');
  const classes = list(evaluation.classes);
  const cells = list(evaluation.confusion);
  const samples = list(evaluation.samples).filter(({image}) => /^[A-Za-z0-9+/=]*$/.test(image));
  return fill('mistakes', cells.length ? element('div', {class: 'beside'},
    card(element('h3', {}, 'Rows: the class. Columns: the prediction.'), matrix(classes, cells)), card(element('h3', {}, 'By class'), scores(classes, cells))) : null,
  samples.length ? card(element('h3', {}, 'Surest mistakes'), element('div', {class: 'samples'}, ...samples.map(sample))) : null,
  note(`The evaluation of step ${number(evaluation.step)}, ${plural(evaluation.examples, 'example')}.`));
}
