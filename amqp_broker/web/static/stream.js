// A stream by its offsets: what it keeps, who reads it and how far they are, what holds it, its messages from an offset on.

import { get, path } from "./api.js";
import { badge, h, lines, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count, duration, octets, time } from "./format.js";
import { FILTER, peekForm } from "./peek.js";

const GROUPS = ["Group", "Position", "Lag", "Read at", "Consumers"];
const HOLDS = ["Hold", "From offset", "Until"];
const FROM = [{ name: "from", label: "From offset", type: "number" }, FILTER];

export function streamPart(vhost, name, mayLook) {
  const shown = h("div");
  const node = h("section", {}, shown, mayLook ? peekForm(vhost, name, FROM, "Read from here: nothing is marked, counted or moved") : null);
  const none = (text) => h("p", { class: "message" }, text);

  async function refresh() {
    const stream = await get(path`v1/streams/${vhost}/${name}`);
    const { groups = [], holds = [] } = stream;
    patch(shown, facts([["Offsets", `${count(stream.first_offset)} to ${count(stream.next_offset)}`], ["Messages", count(stream.messages)], ["Octets", octets(stream.stream_bytes)],
      ["Oldest", stream.first_time ? time(stream.first_time) : undefined], ["Newest", stream.last_time ? time(stream.last_time) : undefined],
      ["Kept, octets", stream.max_length_bytes ? octets(stream.max_length_bytes) : "all"], ["Kept, age", stream.max_age_ms ? duration(stream.max_age_ms) : "any"], ["Producers remembered", count(stream.producers ?? 0)]]),
    h("h2", {}, "Groups of readers"),
    groups.length ? lines(GROUPS, groups.map((each) => [each.name, count(each.position), each.lag ? count(each.lag) : badge("at the end", "good"), each.reader || "nobody", count(each.members)])) : none("No groups."),
    h("h2", {}, "Holds"),
    holds.length ? lines(HOLDS, holds.map((each) => [each.name, count(each.offset), time(each.until)])) : none("Nothing is held: retention goes by the limits."));
  }
  return { node, refresh };
}
