// Definitions: written out, and taken over from a file once it was seen what that would do; all of it, or what is ticked.

import { post } from "./api.js";
import { attempt, confirmName, note } from "./dialog.js";
import { badge, h, link, patch } from "./dom.js";
import { count } from "./format.js";

const KINDS = [
  ["add", "Is added", "good"], ["change", "Is set to what the file says", "warn"],
  ["conflict", "Was declared differently, and stays as it is", "bad"], ["extra", "Is not in the file, and stays", ""],
];
const DOES = ["add", "change"];
const MOST_SHOWN = 500;

const named = (key) => Object.entries(key).map(([field, value]) => `${field} ${value}`).join(", ");

function changed(row) {
  if (!row.fields) return row.would_be === undefined ? "" : JSON.stringify(row.would_be);
  return row.fields.map((field) => `${field}: ${JSON.stringify(row.is[field]) ?? "nothing"} → ${JSON.stringify(row.would_be[field]) ?? "nothing"}`).join("; ");
}

// What of a file stands at these places, such as queues[3]; what is no list stays.
function partOf(definitions, places) {
  const wanted = new Set(places);
  return Object.fromEntries(Object.entries(definitions).map(([category, items]) => [category, Array.isArray(items) ? items.filter((_, index) => wanted.has(`${category}[${index}]`)) : items]));
}

function showKind([kind, title, look], found) {
  const rows = found[kind];
  if (!rows.length) return null;
  const box = (row) => h("input", { type: "checkbox", "data-place": row.place, "aria-label": `take over ${row.place}`, checked: true });
  const canChoose = DOES.includes(kind);
  const all = h("input", { type: "checkbox", "aria-label": `all: ${title}`, checked: true });
  const node = h("details", { open: kind !== "extra", "data-kind": kind }, h("summary", {}, badge(count(found.counts[kind]), look), " ", title),
    h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, canChoose ? h("th", { class: "tick" }, all) : null, ["What", "Which", "How"].map((each) => h("th", {}, each)))),
      h("tbody", {}, rows.slice(0, MOST_SHOWN).map((row) => h("tr", {}, canChoose ? h("td", { class: "tick" }, row.place ? box(row) : null) : null,
        h("td", {}, row.category), h("td", { class: "wide" }, named(row.key)), h("td", { class: "wide" }, changed(row))))))),
    found.counts[kind] > MOST_SHOWN ? h("p", { class: "quiet" }, `and ${count(found.counts[kind] - MOST_SHOWN)} more, which are taken over with the rest only`) : null);
  all.addEventListener("change", () => { for (const each of node.querySelectorAll("[data-place]")) each.checked = all.checked; });
  return node;
}

function importPart() {
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "file with definitions" });
  const output = h("div", { id: "diff" });
  const take = async (definitions, name) => {
    const boxes = [...output.querySelectorAll("[data-place]")];
    const places = boxes.filter((each) => each.checked).map((each) => each.dataset.place);
    const isAll = places.length === boxes.length;
    const body = isAll ? definitions : partOf(definitions, places);
    const { changes } = await post("definitions?dry_run=true", body);
    const text = `${count(changes)} changes${isAll ? "" : ` of ${count(places.length)} that are ticked`}. Nothing is deleted; what is there and declared differently stays.`;
    if (await confirmName("Import definitions", text, name, "Import", () => post("definitions", body))) {
      output.replaceChildren();
      note("Imported.");
    }
  };
  const look = async () => {
    const [chosen] = file.files;
    output.replaceChildren();
    if (!chosen) { note("Choose a file first.", "problem"); return; }
    const definitions = JSON.parse(await chosen.text());
    const found = await post("v1/definitions/diff", definitions);
    const isNothing = DOES.every((kind) => !found.counts[kind]);
    patch(output, h("p", {}, isNothing ? "There is nothing to do: all that the file says is so already." : `${count(found.counts.add)} are added, ${count(found.counts.change)} changed.`),
      found.notes.map((text) => h("p", { class: "hint" }, text)));
    output.append(...KINDS.map((kind) => showKind(kind, found)).filter(Boolean));
    if (!isNothing) output.append(h("p", {}, h("button", { type: "button", class: "danger", id: "import", onclick: () => attempt("", () => take(definitions, chosen.name)) }, "Import")));
  };
  return h("section", {}, h("h2", {}, "Import"), h("p", {}, file, " ", h("button", { type: "button", id: "look", onclick: () => attempt("", look) }, "What would happen?")), output);
}

export function definitionsPart() {
  return h("div", {}, h("h2", {}, "Export"), h("p", {}, link("api/definitions?download=definitions.json", "definitions.json"), ": users, virtual hosts, permissions, policies, queues, exchanges and bindings; no messages."), importPart());
}
