'use strict';
// Elements, and numbers as people read them. Every text of a run becomes a text node, never markup.

const byId = (id) => document.getElementById(id);

// element('td', {class: 'text', title: '…'}, child, …): children are elements or texts.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

// Shows the section with these children, or hides it where there are none.
function fill(id, ...children) {
  const section = byId(id);
  const body = section.querySelector('.body') || section;
  body.replaceChildren(...children.filter(Boolean));
  section.hidden = !body.children.length && !section.querySelector('.charts > *');
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

// Four digits at least, thousands apart.
function number(value) {
  if (!isNumber(value)) return value === null ? 'NaN' : '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2).replace(/\.?0*e\+?/, 'e');
  if (size >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(4)));
}

const percentOf = (share) => `${(100 * share).toFixed(3)}%`;  // of a style
const percent = (share) => (isNumber(share) ? `${Number((100 * share).toFixed(1))} %` : '–');

function bytes(count) {
  if (!isNumber(count)) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  for (; count >= 1000 && unit < units.length - 1; ++unit) count /= 1000;
  return `${Number(count.toPrecision(3))} ${units[unit]}`;
}

function duration(seconds) {
  if (!isNumber(seconds)) return '–';
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(3))} ms`;
  if (seconds < 100) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 3600), 'h'], [Math.floor(whole / 60) % 60, 'min'], [whole % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).map(([count, unit]) => `${count} ${unit}`).join(' ');
}

// columns: [{title, text: (row) => text or element, class}].
function table(columns, rows) {
  const head = element('tr', {}, ...columns.map((column) => element('th', column.class ? {class: column.class} : {}, column.title)));
  const line = (row) => element('tr', {}, ...columns.map((column) => element('td', column.class ? {class: column.class} : {}, column.text(row))));
  return element('div', {class: 'scroll'}, element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows.map(line))));
}

// Items as they are, and the ones behind the first `most` on demand.
function firstOf(items, most, what, show) {
  if (items.length <= most) return [show(items)];
  return [show(items.slice(0, most)), element('details', {}, element('summary', {}, `${plural(items.length - most, `more ${what}`)}`), show(items.slice(most)))];
}

const card = (...children) => element('div', {class: 'card'}, ...children);
const note = (...children) => element('p', {class: 'note'}, ...children);
const list = (value) => (Array.isArray(value) ? value : []);
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? '' : 's'}`;
