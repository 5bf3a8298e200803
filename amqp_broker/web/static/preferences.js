// What this browser remembers: columns, theme, refresh interval, virtual host. Without storage it remembers nothing.

const PREFIX = "broker.";

export function remembered(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch { /* It is a convenience. */ }
}
