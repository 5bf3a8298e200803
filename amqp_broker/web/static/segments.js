// How a stream lies in the files of the node that answers: a page of them, and more when somebody asks.

import { get, query } from "./api.js";
import { attempt } from "./dialog.js";
import { badge, h, lines } from "./dom.js";
import { count, octets, time } from "./format.js";

const PAGE = 50;
const TITLES = ["File", "Messages", "Offsets", "Begins", "Ends before", "Pages", "Octets", ""];

function row(segment) {
  const { file, first_offset: first, next_offset: next, octets: stored, uncompressed_octets: whole } = segment;
  const state = file === 0 ? badge("in no file yet") : segment.is_sealed ? badge("sealed", "good") : badge("open");
  return [file ? count(file) : "–", count(next - first), `${count(first)} to ${count(next)}`, time(segment.first_time), time(segment.last_time), count(segment.pages),
    whole > stored ? `${octets(stored)}, of ${octets(whole)}` : octets(stored), [state, segment.is_compacted ? badge("compacted", "good") : null, whole > stored ? badge("compressed", "good") : null]];
}

// where: of the stream, in the API.
export function segmentPart(where) {
  const output = h("div", { id: "segments" });
  let rows = [];
  const look = async (from) => {
    const found = await get(`${where}/segments${query({ from, limit: PAGE })}`);
    rows = [...from ? rows : [], ...found.segments];
    const more = found.next === null ? null : h("button", { type: "button", onclick: () => attempt("", () => look(found.next)) }, "More");
    output.replaceChildren(h("p", {}, `${count(found.files)} files at ${found.node}.`), rows.length ? lines(TITLES, rows.map(row)) : h("p", { class: "message" }, "Nothing yet."));
    if (more) output.append(h("p", {}, more));
  };
  const button = h("button", { type: "button", id: "segment-list", onclick: () => attempt("", () => look(0)) }, "Show the segments");
  return h("section", {}, h("h2", {}, "Segments"), h("p", { class: "bar" }, button), output);
}
