// Groups of readers of a stream: they go on elsewhere, or are forgotten.

import { path, put, remove } from "./api.js";
import { confirmName, formDialog, note } from "./dialog.js";
import { h, lines } from "./dom.js";
import { facts } from "./facts.js";
import { count } from "./format.js";
import { offsetsAt, placeFields, placeOf } from "./places.js";

const WAYS = ["offset", "first", "last", ["next", "the end, as it is now"], "time", "age"];

// What becomes of a reader that is at one offset and goes on at another.
function consequence(from, to) {
  if (from === undefined) return "It is new.";
  if (to < from) return `Up to ${count(from - to)} messages come again.`;
  return to > from ? `Up to ${count(to - from)} messages are passed over.` : "It stays where it is.";
}

function positions(group) {
  return group === undefined ? [] : group.partitions ? group.partitions.map((each) => each.position) : [group.position];
}

// where: of the stream, in the API. changed: is called when something was.
export function groupButtons(where, changed) {
  let groups = [];
  const chosen = (fields) => [{ name: "group", label: "Group", type: "select", options: [...groups.map((each) => each.name), ...fields.length ? [["", "a new one"]] : []] }, ...fields];
  const named = ({ group, name }) => {
    if (!(group || name)) throw new Error("Name the new group.");
    return group || name;
  };

  const look = async (values) => {
    const name = named(values);
    const from = positions(groups.find((each) => each.name === name));
    const found = await offsetsAt(where, placeOf(values, "to"));
    const rows = found.map((each, index) => [each.name, from[index], each.offset]);
    if (rows.length > 1) return lines(["Partition", "Is at", "Goes on at", ""], rows.map(([part, now, then]) => [part, count(now), count(then), consequence(now, then)]));
    return rows.map(([, now, then]) => [facts([["Is at", now === undefined ? undefined : count(now)], ["Goes on at", count(then)]]), h("p", {}, consequence(now, then))]);
  };
  const seek = async () => {
    const fields = chosen([{ name: "name", label: "Its name", when: (values) => values.group === "" }, ...placeFields("to", "It goes on at", WAYS)]);
    const done = await formDialog("Have a group go on elsewhere", fields, {
      submit: "Seek", isDanger: true, preview: look, run: (values) => put(where + path`/groups/${named(values)}`, { offset: placeOf(values, "to") }),
    });
    if (done) changed("The group goes on there.");
  };
  const forget = async () => {
    const said = await formDialog("Forget a group", chosen([]), { submit: "Forget …", isDanger: true, note: "How far it is is lost; it must have no consumers.", run: (values) => values });
    if (!said) return;
    const done = await confirmName("Forget the group", "Who reads with this name again begins anew.", said.group, "Forget", () => remove(where + path`/groups/${said.group}`));
    if (done) changed("Forgotten.");
  };
  const button = (id, title, run) => h("button", { type: "button", id, onclick: () => run().catch((error) => note(error.message, "problem")) }, title);
  const forgetting = button("forget", "Forget a group …", forget);
  const show = (found) => {
    groups = found;
    forgetting.disabled = !groups.length;
  };
  return { node: h("p", { class: "bar" }, button("seek", "Have a group go on elsewhere …", seek), forgetting), show };
}
