// What became of what a producer has sent to a stream, whose confirm was lost.

import { get, path, query } from "./api.js";
import { inlineForm } from "./dialog.js";
import { h } from "./dom.js";
import { count } from "./format.js";

const FIELDS = [{ name: "producer", label: "Producer (x-producer-id)" }, { name: "sequence", label: "Sequence (x-producer-sequence), if one is looked for", type: "number", min: 0 }];

// where: of the stream, in the API.
export function producerForm(where) {
  return inlineForm("What has a producer published last?", FIELDS, "Ask", async ({ producer, sequence }) => {
    if (!producer) throw new Error("Name the producer.");
    const found = await get(where + path`/producers/${producer}` + query({ sequence }));
    const last = found.sequence === null ? h("p", {}, "The stream remembers nothing of it.") : h("p", {}, `Sequence ${count(found.sequence)} came last, at offset ${count(found.offset)}.`);
    if (sequence === null) return last;
    return [found.is_published ? h("p", { class: "done" }, `Sequence ${count(sequence)} has arrived.`) : h("p", { class: "problem" }, `Sequence ${count(sequence)} has not arrived: send it again.`), last];
  });
}
