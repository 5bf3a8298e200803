// Numbers, sizes and times as people read them.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE_PLACE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NOTHING = "–";

export function count(value) {
  return value === undefined || value === null || value === "" ? NOTHING : COUNT.format(value);
}

export function short(value) {
  return Math.abs(value) < 10000 ? ONE_PLACE.format(value) : SHORT.format(value);
}

export function rate(value) {
  if (value === undefined || value === null) return NOTHING;
  return value >= 100 ? `${COUNT.format(value)}/s` : `${ONE_PLACE.format(value)}/s`;
}

export function octets(value) {
  if (value === undefined || value === null) return NOTHING;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? COUNT.format(value) : ONE_PLACE.format(value)} ${UNITS[unit]}`;
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (!Number.isFinite(seconds)) return NOTHING;
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).map(([size, unit], index) => {
    const above = index === 0 ? seconds : seconds % parts[first][0];
    return [Math.floor(above / size), unit];
  }).filter(([number], index) => index === 0 || number).map((pair) => pair.join(" ")).join(" ");
}

export function time(ms) {
  return ms ? new Date(ms).toLocaleString() : NOTHING;
}

export function yesNo(value) {
  return value ? "yes" : "no";
}

export function json(value) {
  return value && Object.keys(value).length ? JSON.stringify(value) : NOTHING;
}

export function pretty(value) {
  return JSON.stringify(value ?? {}, null, 2);
}
