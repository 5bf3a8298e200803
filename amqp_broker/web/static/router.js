// Addresses: what comes after the # is a path of encoded names and a query, so that every view can be linked.

import { decode, encode, query as write } from "./api.js";

export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const values = {};
  for (const pair of query.split("&").filter(Boolean)) {
    const [key, value = ""] = pair.split("=");
    values[decode(key)] = decode(value.replaceAll("+", " "));
  }
  return { segments: path.split("/").filter(Boolean).map(decode), path, query: values };
}

export function href(segments, query = {}) {
  return `#/${segments.map(encode).join("/")}${write(query)}`;
}

export function go(where) {
  location.hash = where;
}

// Changes the query of this address: as a step that "back" undoes, or in its place.
export function setQuery(changes, { isStep = true } = {}) {
  const { path, query } = here();
  const address = `#/${path}${write({ ...query, ...changes })}`;
  if (address === location.hash) return;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

// The page of the first route that fits: [["queues", ":vhost", ":queue"], page].
export function find(routes, segments) {
  for (const [pattern, page] of routes) {
    if (pattern.length !== segments.length) continue;
    if (pattern.every((part, index) => part.startsWith(":") || part === segments[index])) {
      return { page, names: segments.filter((_, index) => pattern[index].startsWith(":")) };
    }
  }
  return null;
}

export const to = {
  queue: (row) => href(["queues", row.vhost, row.name]),
  exchange: (row) => href(["exchanges", row.vhost, row.name || "amq.default"]),
  connection: (name) => href(["connections", name]),
  channel: (name) => href(["channels", name]),
  user: (name) => href(["users", name]),
  vhost: (name) => href(["vhosts", name]),
  node: (name) => href(["cluster", name]),
};
