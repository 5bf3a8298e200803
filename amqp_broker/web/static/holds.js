// Holds of a stream: what is from an offset on is kept from retention for a while.

import { path, put, remove } from "./api.js";
import { formDialog, note } from "./dialog.js";
import { h } from "./dom.js";
import { ageMs, placeFields, placeOf } from "./places.js";

const WAYS = ["first", "offset", "last", ["next", "what is published from now on"], "time", "age"];

// where: of the stream, in the API. changed: is called when something was.
export function holdButtons(where, changed) {
  let holds = [];
  const hold = async () => {
    const fields = [
      { name: "name", label: "Name", required: true }, ...placeFields("at", "What stays, from there on", WAYS),
      { name: "age", label: "For how long", value: "1D", required: true, hint: "A number and one of Y M D h m s, such as 12h or 7D" },
    ];
    const done = await formDialog("Hold messages", fields, {
      submit: "Hold", note: "They stay up to twice the limits of the stream. A hold of the same name is replaced.",
      run: (values) => put(where + path`/holds/${values.name}`, { offset: placeOf(values, "at"), for_ms: ageMs(values.age) }),
    });
    if (done) changed("Held.");
  };
  const end = async () => {
    const done = await formDialog("End a hold", [{ name: "name", label: "Hold", type: "select", options: holds.map((each) => each.name) }], {
      submit: "End", isDanger: true, note: "What is beyond the limits of the stream goes then.", run: ({ name }) => remove(where + path`/holds/${name}`),
    });
    if (done) changed("It is not held any more.");
  };
  const button = (id, title, run) => h("button", { type: "button", id, onclick: () => run().catch((error) => note(error.message, "problem")) }, title);
  const ending = button("unhold", "End a hold …", end);
  const show = (found) => {
    holds = found;
    ending.disabled = !holds.length;
  };
  return { node: h("p", { class: "bar" }, button("hold", "Hold messages …", hold), ending), show };
}
