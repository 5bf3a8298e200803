// The oldest messages of a stream are dropped, and it is compacted: both cannot be undone.

import { path, post } from "./api.js";
import { confirmName, inlineForm, onceButton } from "./dialog.js";
import { h, lines } from "./dom.js";
import { count } from "./format.js";
import { offsetsAt, placeFields, placeOf } from "./places.js";

const WAYS = ["offset", "time", "age", ["next", "all that is there now"]];

// changed: is called when something was.
export function trimPart(vhost, name, changed) {
  const where = path`v1/streams/${vhost}/${name}`;
  let parts = [];
  const drop = async (rows) => {
    for (const each of rows) {
      await post(path`v1/streams/${vhost}/${rows.length > 1 ? each.name : name}/trim`, { before: each.offset });
    }
  };
  const form = inlineForm("Drop the oldest messages", placeFields("before", "All that is before", WAYS), "What would happen?", async (values) => {
    // What is looked at is what is dropped: an offset in each partition, whatever is published meanwhile.
    const place = placeOf(values, "before");
    const rows = (await offsetsAt(where, place)).map((each, index) => ({ ...each, gone: Math.max(0, each.offset - parts[index].first_offset), ...parts[index] }));
    const gone = rows.reduce((sum, each) => sum + each.gone, 0);
    const trim = () => confirmName("Drop the oldest messages", `Up to ${count(gone)} messages are gone on all nodes, and cannot be had again.`, name, "Drop", () => drop(rows))
      .then((done) => done && changed("Dropped."));
    return h("div", { id: "trimmed" }, h("p", {}, `Up to ${count(gone)} messages would go.`),
      rows.length > 1 ? lines(["Partition", "Begins at", "Would begin at"], rows.map((each) => [each.name, count(each.first_offset), count(Math.max(each.offset, each.first_offset))])) : null,
      gone ? h("button", { type: "button", class: "danger", id: "trim", onclick: trim }, "Drop …") : null);
  });
  const compact = onceButton("Compact now", () => post(`${where}/compact`).then(() => changed("All nodes compact it, each when it can.")), { class: "danger", id: "compact" });
  const compacting = h("p", { hidden: true }, compact, " Of each key the newest message stays; without waiting for its time.");
  const node = h("section", { class: "danger-zone" }, form, compacting);
  // parts: what there is of each partition, or of the one stream.
  const show = (found) => {
    parts = found;
    compacting.hidden = !parts.some((each) => each.compaction);
  };
  return { node, show };
}
