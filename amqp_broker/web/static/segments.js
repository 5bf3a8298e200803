// How a stream lies in the files of the node that answers: a page of them, and more when somebody asks.

import { get, query } from "./api.js";
import { onceButton } from "./dialog.js";
import { badge, h, lines } from "./dom.js";
import { count, octets, time } from "./format.js";

const PAGE = 50;
const TITLES = ["File", "Messages", "Offsets", "Begins", "Ends before", "Pages", "Octets", ""];

function row(segment) {
  const { file, first_offset: first, next_offset: next, messages, octets: stored, uncompressed_octets: whole } = segment;
  const state = file === 0 ? badge("in no file yet") : segment.is_sealed ? badge("sealed", "good") : badge("open");
  return [file ? count(file) : "–", count(messages), `${count(first)} to ${count(next)}`, time(segment.first_time), time(segment.last_time), count(segment.pages),
    whole > stored ? `${octets(stored)}, of ${octets(whole)}` : octets(stored), [state, segment.is_compacted ? badge("compacted", "good") : null, whole > stored ? badge("compressed", "good") : null]];
}

// A file that has more behind a page of them comes up again on the next one.
function together(rows, more) {
  const found = new Map(rows.map((each) => [each.file, each]));
  for (const each of more) {
    const before = found.get(each.file);
    const sum = (key) => (before?.[key] ?? 0) + each[key];
    found.set(each.file, { ...each, first_offset: before?.first_offset ?? each.first_offset, first_time: before?.first_time ?? each.first_time,
      messages: sum("messages"), pages: sum("pages"), octets: sum("octets"), uncompressed_octets: sum("uncompressed_octets") });
  }
  return [...found.values()];
}

// where: of the stream, in the API.
export function segmentPart(where) {
  const output = h("div", { id: "segments" });
  let rows = [];
  const look = async (from) => {
    const found = await get(`${where}/segments${query({ from, limit: PAGE })}`);
    rows = together(from ? rows : [], found.segments);
    const more = found.next === null ? null : onceButton("More", () => look(found.next));
    output.replaceChildren(h("p", {}, `${count(found.files)} files at ${found.node}.`), rows.length ? lines(TITLES, rows.map(row)) : h("p", { class: "message" }, "Nothing yet."));
    if (more) output.append(h("p", {}, more));
    return more;
  };
  const button = onceButton("Show the segments", () => look(0).then(() => button), { id: "segment-list" });
  return h("section", {}, h("h2", {}, "Segments"), h("p", { class: "bar" }, button), output);
}
