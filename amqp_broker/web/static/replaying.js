// A range of a stream is published again, elsewhere: what it would be is shown before; then it is a job of the server's.

import { post } from "./api.js";
import { inlineForm, onceButton } from "./dialog.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { jobLine } from "./moving.js";
import { FILTER } from "./peek.js";
import { offsetsAt, placeFields, placeOf } from "./places.js";

const TARGETS = [["queue", "to the queue"], ["exchange", "to the exchange, each with its own routing key"], ["key", "to the exchange, with the routing key"]];
const FIELDS = [
  { name: "way", label: "Where", type: "select", options: TARGETS }, { name: "name", label: "Queue or exchange" },
  { name: "key", label: "Routing key", when: (values) => values.way === "key" },
  ...placeFields("first", "From", ["first", "offset", "last", "time", "age"]),
  ...placeFields("below", "Up to, without it", [["end", "the end, as it is then"], "offset", "time", "age"]),
  { name: "values", label: "Only with one of these x-stream-filter-values, one on each line", type: "area" }, FILTER,
  { name: "limit", label: "At most", type: "number", min: 1 }, { name: "rate", label: "A second, at most", type: "number", min: 0 },
];

function asked(values) {
  const { way, name, key, filter, limit, rate } = values;
  if (!name && way === "queue") throw new Error("Name the queue.");
  const wanted = values.values.split("\n").filter(Boolean);
  return {
    to: way === "queue" ? { queue: name } : { exchange: name, routing_key: key }, keep_routing_key: way === "exchange", from: placeOf(values, "first"),
    ...(values.below === "end" ? {} : { below: placeOf(values, "below") }), ...(wanted.length ? { values: wanted } : {}), filter,
    ...(limit === null ? {} : { limit }), ...(rate === null ? {} : { rate }),
  };
}

// where: of the stream, in the API.
export function replayForm(where) {
  return inlineForm("Publish messages again, elsewhere: they stay as they are", FIELDS, "What would happen?", async (values) => {
    const body = asked(values);
    const [[{ offset: first }], [{ offset: below }]] = await Promise.all([offsetsAt(where, body.from), offsetsAt(where, body.below ?? "next")]);
    const range = Math.max(0, below - first);
    const most = body.limit === undefined ? range : Math.min(range, body.limit);
    const chosen = body.values || body.filter ? ", of which those that fit" : "";
    const output = h("div", { id: "range" }, h("p", {}, `Offsets ${count(first)} to ${count(Math.max(first, below))}: up to ${count(most)} messages would be published again${chosen}.`));
    const begin = async () => output.replaceChildren(jobLine(await post(`${where}/replay`, body)));
    if (range) output.append(onceButton("Replay", begin, { class: "primary", id: "replay" }));
    return output;
  });
}
