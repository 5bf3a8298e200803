// The virtual host that lists are narrowed to: in the address, else the one chosen last; empty is all of them.

import { get, path } from "./api.js";
import { remember, remembered } from "./preferences.js";
import { here, setQuery } from "./router.js";

export function chosenVhost() {
  return here().query.vhost ?? remembered("vhost", "");
}

export function chooseVhost(name) {
  remember("vhost", name || null);
  setQuery({ vhost: name || null, page: null });
}

// The path of a list: of the chosen virtual host, or of all.
export function listPath(kind) {
  const vhost = chosenVhost();
  const below = { connections: "vhosts", channels: "vhosts" }[kind];
  if (!vhost) return kind;
  return below ? path`vhosts/${vhost}/${kind}` : path`${kind}/${vhost}`;
}

async function someVhosts() {
  const found = await get("vhosts?page=1&page_size=500&columns=name,default_queue_type&disable_stats=true");
  return found.items;
}

export async function vhostNames() {
  return (await someVhosts()).map((each) => each.name);
}

// vhosts: those that it offers.
export async function vhostField() {
  const vhosts = await someVhosts();
  const names = vhosts.map((each) => each.name);
  return { name: "vhost", label: "Virtual host", type: "select", options: names, value: chosenVhost() || names[0], vhosts };
}
