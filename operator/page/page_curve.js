// Curves as SVG.

function svg(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function rangeOf(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

// Points [x, y] in a box of that size, as polylines: one more where a y is missing. Null: fewer than two points.
function lines(points, width, height, [lowX, highX], [lowY, highY]) {
  const x = (value) => (width * (value - lowX)) / (highX - lowX || 1);
  const y = (value) => (highY === lowY ? height / 2 : height * (1 - (value - lowY) / (highY - lowY)));
  const pieces = [[]];
  for (const point of points) {
    if (isNumber(point[1])) pieces[pieces.length - 1].push(`${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`);
    else if (pieces[pieces.length - 1].length) pieces.push([]);
  }
  return pieces.filter((piece) => piece.length > 1).map((piece) => svg('polyline', {points: piece.join(' ')}));
}

function spark(points) {
  const known = (points || []).filter(([, value]) => isNumber(value));
  if (known.length < 2) return null;
  const drawn = lines(points, 96, 24, [points[0][0], points[points.length - 1][0]], rangeOf(known.map(([, value]) => value)));
  return svg('svg', {class: 'spark', viewBox: '0 0 96 24', preserveAspectRatio: 'none', 'aria-hidden': 'true'}, ...drawn);
}

// Round values in [low, high], at most five: 1, 2 or 5 times a power of ten apart, at least `least`.
function ticks(low, high, least = 0) {
  const rough = Math.max((high - low) / 4 || 1, least);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
  return found.length ? found : [low];
}

// A curve with axes, or null where there are fewer than two points.
function curve(title, points, fromZero) {
  const known = points.filter(([, value]) => isNumber(value));
  if (known.length < 2) return null;
  const [width, height, left, bottom] = [520, 180, 64, 44];
  const xs = rangeOf(known.map(([step]) => step));
  const ys = rangeOf(known.map(([, value]) => value));
  if (fromZero) ys[0] = 0;
  const box = svg('g', {transform: `translate(${left} 6)`});
  for (const value of ticks(...ys)) {
    const y = ys[1] === ys[0] ? height / 2 : height * (1 - (value - ys[0]) / (ys[1] - ys[0]));
    const label = svg('text', {x: -8, y: y + 4, 'text-anchor': 'end'});
    label.textContent = number(value);
    box.append(svg('line', {x1: 0, x2: width, y1: y, y2: y}), label);
  }
  for (const value of ticks(...xs, 1)) {
    const label = svg('text', {x: (width * (value - xs[0])) / (xs[1] - xs[0] || 1), y: height + 20, 'text-anchor': 'middle'});
    label.textContent = number(value);
    box.append(label);
  }
  const unit = svg('text', {x: width / 2, y: height + 40, 'text-anchor': 'middle'});
  unit.textContent = 'step';
  box.append(unit, ...lines(points, width, height, xs, ys));
  const [, last] = known[known.length - 1];
  return element('figure', {}, element('figcaption', {}, `${title}: ${number(last)}`),
    svg('svg', {viewBox: `0 0 ${width + left + 16} ${height + bottom + 6}`, role: 'img', 'aria-label': `${title} over steps`}, box));
}
