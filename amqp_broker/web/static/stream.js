// A stream by its offsets: what it keeps, who reads it and how far they are, what holds it, its messages from an offset on.
// One that has partitions is those; this node need not have a copy of any of it.

import { get, path } from "./api.js";
import { badge, h, lines, link, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count, duration, octets, time } from "./format.js";
import { FILTER, peekForm } from "./peek.js";
import { to } from "./router.js";

const GROUPS = ["Group", "Position", "Lag", "Read at", "Consumers"];
const SHARES = ["Group", "Partition", "Position", "Lag", "Read at", "To be read at", "Consumers"];
const PARTITIONS = ["Partition", "As seen at", "Leader", "Messages", "Offsets", "Octets", "Oldest", "Newest"];
const HOLDS = ["Hold", "From offset", "Until"];
const FROM = [{ name: "from", label: "From offset", type: "number" }, FILTER];

const none = (text) => h("p", { class: "message" }, text);
const when = (ms) => ms ? time(ms) : undefined;
const range = (part) => `${count(part.first_offset)} to ${count(part.next_offset)}`;
const lag = (behind) => behind ? count(behind) : badge("at the end", "good");

function whole(stream) {
  const { groups = [], holds = [] } = stream;
  const compacted = stream.compaction;
  return [facts([["As seen at", stream.node], ["Offsets", range(stream)], ["Messages", count(stream.messages)], ["Octets", octets(stream.stream_bytes)], ["Oldest", when(stream.first_time)], ["Newest", when(stream.last_time)],
    ["Kept, octets", stream.max_length_bytes ? octets(stream.max_length_bytes) : "all"], ["Kept, age", stream.max_age_ms ? duration(stream.max_age_ms) : "any"], ["Segments, octets", stream.segment_bytes ? octets(stream.segment_bytes) : undefined],
    ["Compression", stream.compression], ["Compacted by", compacted ? compacted.key : undefined], ["Producers remembered", count(stream.producers ?? 0)]]),
  h("h2", {}, "Groups of readers"),
  groups.length ? lines(GROUPS, groups.map((each) => [each.name, count(each.position), lag(each.lag), each.reader || "nobody", count(each.members)])) : none("No groups."),
  h("h2", {}, "Holds"),
  holds.length ? lines(HOLDS, holds.map((each) => [each.name, count(each.offset), time(each.until)])) : none("Nothing is held: retention goes by the limits.")];
}

function divided(vhost, stream) {
  const shares = stream.groups.flatMap((group) => group.partitions.map((each) => [group.name, count(each.partition), count(each.position), lag(each.lag), each.reader || "nobody", each.owner || "–", count(group.members)]));
  return [facts([["Partitions", count(stream.partitions.length)], ["Messages", count(stream.messages)], ["Octets", octets(stream.stream_bytes)]]),
    lines(PARTITIONS, stream.partitions.map((each) => [link(to.queue({ vhost, name: each.name }), each.name), each.node, each.leader || "–", count(each.messages), range(each), octets(each.stream_bytes), when(each.first_time) ?? "–", when(each.last_time) ?? "–"])),
    h("h2", {}, "Groups of readers"),
    shares.length ? lines(SHARES, shares) : none("No groups.")];
}

export function streamPart(vhost, name, mayLook) {
  const shown = h("div");
  const node = h("section", {}, shown);
  const peek = mayLook ? peekForm(vhost, name, FROM, "Read from here: nothing is marked, counted or moved") : null;

  async function refresh() {
    const stream = await get(path`v1/streams/${vhost}/${name}`);
    patch(shown, stream.partitions ? divided(vhost, stream) : whole(stream));
    if (peek && !stream.partitions && !node.contains(peek)) node.append(peek);
  }
  return { node, refresh };
}
