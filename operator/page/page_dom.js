'use strict';
// Elements, and numbers as people read them. Every text of a job becomes a text node, never markup.

const byId = (id) => document.getElementById(id);

// element('td', {class: 'text', title: '…'}, child, …): children are elements or texts; null and undefined are left out.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

// Four digits at least, thousands apart.
function number(value) {
  if (!isNumber(value)) return '';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2).replace(/\.?0*e\+?/, 'e');
  if (size >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(4)));
}

// "3 d 4 h", "12 s": the two greatest units.
function duration(seconds) {
  if (!isNumber(seconds)) return '';
  const whole = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(whole / 86400), 'd'], [Math.floor(whole / 3600) % 24, 'h'], [Math.floor(whole / 60) % 60, 'min'], [whole % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return '0 s';
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => `${count} ${unit}`).join(' ');
}

// The operator's clock as seen here: ages do not depend on this machine's.
let clockAhead = 0;  // s
const setClock = (seconds) => { clockAhead = seconds - Date.now() / 1000; };
const secondsOf = (time) => Date.parse(time) / 1000;
const age = (time) => (time ? duration(Date.now() / 1000 + clockAhead - secondsOf(time)) : '');

const stateBadge = (state, held) => element('span', {class: 'state', 'data-state': state, 'data-held': held ? '' : null}, held || state);
