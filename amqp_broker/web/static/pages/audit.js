// The audit log: who changed what, from where, the newest first.

import { get, query } from "../api.js";
import { badge, h, patch } from "../dom.js";
import { heading } from "../facts.js";
import { json } from "../format.js";
import { here, setQuery } from "../router.js";

const SIZE = 50;
const FILTERS = [["user", "User"], ["what", "What (or how it begins)"], ["vhost", "Virtual host"], ["name", "Name"], ["from", "From (or how it begins)"]];

export function auditPage() {
  const rows = h("tbody");
  const message = h("p", { class: "message", hidden: true });
  const more = h("button", { type: "button", onclick: () => older() }, "Older");
  const fields = FILTERS.map(([name, title]) => h("input", { name, placeholder: title, "aria-label": title, spellcheck: "false", autocomplete: "off" }));
  const outcome = h("select", { name: "outcome", "aria-label": "outcome" }, [["", "done and refused"], ["done", "done"], ["refused", "refused"]].map(([value, title]) => h("option", { value }, title)));
  const form = h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); setQuery(Object.fromEntries([...fields, outcome].map((field) => [field.name, field.value || null]))); refresh(); } }, fields, outcome, h("button", {}, "Filter"));
  let shown = [];
  let last = "";
  let next = null;

  // What the address says: back and links have it.
  const asked = () => Object.fromEntries([...fields, outcome].map((field) => [field.name, here().query[field.name] ?? ""]));
  const ask = (before) => get(`v1/audit${query({ ...asked(), limit: SIZE, before })}`);

  function row(line) {
    const who = line.by ? `${line.user ?? ""} by ${line.by}` : line.user ?? `node ${line.node}`;
    return h("tr", {}, h("td", {}, h("time", { datetime: line.time, title: line.node }, new Date(line.at).toLocaleString())),
      h("td", {}, who), h("td", {}, line.from ?? ""), h("td", {}, h("code", {}, line.what)), h("td", {}, line.vhost ?? ""), h("td", {}, line.name ?? ""),
      h("td", {}, badge(line.outcome, line.outcome === "refused" ? "bad" : ""), line.count > 1 ? ` ×${line.count}` : ""),
      h("td", { class: "wide" }, line.reason ?? (line.details ? json(line.details) : "")));
  }

  function show() {
    patch(rows, shown.map(row));
    message.textContent = shown.length ? "" : "Nothing here.";
    message.hidden = shown.length > 0;
    more.hidden = next === null;
  }

  async function older() {
    const found = await ask(next);
    shown = [...shown, ...found.items];
    next = found.next;
    show();
  }

  // Whoever has gone back to older lines is not taken away from them.
  async function refresh(isAsked = true) {
    const wanted = JSON.stringify(asked());
    if (!isAsked && wanted === last && shown.length > SIZE) return;
    if (wanted !== last) for (const field of [...fields, outcome]) field.value = here().query[field.name] ?? "";
    last = wanted;
    const found = await ask(null);
    shown = found.items;
    next = found.next;
    show();
  }

  const titles = ["When", "Who", "From", "What", "Virtual host", "Name", "Outcome", "Details"];
  const table = h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, titles.map((title) => h("th", {}, title)))), rows));
  return { node: h("div", {}, heading("Audit"), form, table, message, more), refresh: () => refresh(false) };
}
