// What this page has seen of an object, for its charts: the server keeps an hour of the totals only.

const MOST_POINTS = 720;
const MOST_OBJECTS = 50;
const known = new Map();

export function recordPoint(key, values) {
  const found = known.get(key) ?? { times: [], values: {} };
  known.delete(key);
  known.set(key, found);
  if (known.size > MOST_OBJECTS) known.delete(known.keys().next().value);
  found.times.push(Date.now());
  for (const [name, value] of Object.entries(values)) (found.values[name] ??= []).push(value ?? 0);
  if (found.times.length > MOST_POINTS) {
    found.times.shift();
    for (const each of Object.values(found.values)) each.shift();
  }
  return found;
}

// Data of a chart of what was recorded; the axis has at least five minutes.
export function recorded(key, title, names, format) {
  const found = known.get(key) ?? { times: [], values: {} };
  const until = Date.now();
  return {
    title, format, times: found.times, until, from: Math.min(found.times[0] ?? until, until - 300000),
    series: Object.entries(names).map(([name, label]) => ({ name: label, values: found.values[name] ?? [] })),
  };
}
