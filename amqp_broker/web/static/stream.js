// A stream by its offsets: what it keeps, who reads it and how far they are, what holds it, in which files it lies, its
// messages from anywhere on; and what can be done about all that. One that has partitions is those; this node need not have
// a copy of any of it.

import { get, isAdministrator, path } from "./api.js";
import { note } from "./dialog.js";
import { badge, h, lines, link, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count, duration, octets, time } from "./format.js";
import { groupButtons } from "./groups.js";
import { holdButtons } from "./holds.js";
import { FILTER, peekForm } from "./peek.js";
import { offsetsAt, placeFields, placeOf } from "./places.js";
import { producerForm } from "./producer.js";
import { replayForm } from "./replaying.js";
import { to } from "./router.js";
import { segmentPart } from "./segments.js";
import { trimPart } from "./trimming.js";

const GROUPS = ["Group", "Position", "Lag", "Read at", "Consumers"];
const SHARES = ["Group", "Partition", "Position", "Lag", "Read at", "To be read at", "Consumers"];
const PARTITIONS = ["Partition", "As seen at", "Leader", "Messages", "Offsets", "Octets", "Oldest", "Newest"];
const HOLDS = ["Hold", "From offset", "Until"];
const FROM = [...placeFields("at", "From", ["offset", "first", "last", "next", "newest", "time", "age"], "from"), FILTER];
// Where messages are looked at without the offset being asked for.
const ENDS = { first: "oldest", newest: "newest" };

const none = (text) => h("p", { class: "message" }, text);
const when = (ms) => ms ? time(ms) : undefined;
const range = (part) => `${count(part.first_offset)} to ${count(part.next_offset)}`;
const lag = (behind) => behind ? count(behind) : badge("at the end", "good");
const isSaid = (value) => value !== undefined && value !== null;

// A limit of 0 octets leaves what was published last, and no limit all.
function kept(limit) {
  if (!isSaid(limit)) return "all";
  return limit ? octets(limit) : `${octets(0)}: only what was published last`;
}

function whole(stream) {
  const compacted = stream.compaction;
  return facts([["As seen at", stream.node], ["Offsets", range(stream)], ["Messages", count(stream.messages)], ["Octets", octets(stream.stream_bytes)], ["Oldest", when(stream.first_time)], ["Newest", when(stream.last_time)],
    ["Kept, octets", kept(stream.max_length_bytes)], ["Kept, age", isSaid(stream.max_age_ms) ? duration(stream.max_age_ms) : "any"], ["Dropped at a time, octets", isSaid(stream.segment_bytes) ? octets(stream.segment_bytes) : undefined],
    ["Compression", stream.compression], ["Compacted by", compacted ? compacted.key : undefined], ["Compacted below offset", compacted ? count(compacted.below) : undefined], ["Not compacted", compacted ? `${compacted.dirty_percent} %` : undefined],
    ["Producers remembered", count(stream.producers ?? 0)]]);
}

function groupTable({ groups = [] }) {
  return groups.length ? lines(GROUPS, groups.map((each) => [each.name, count(each.position), lag(each.lag), each.reader || "nobody", count(each.members)])) : none("No groups.");
}

function holdTable({ holds = [] }) {
  return holds.length ? lines(HOLDS, holds.map((each) => [each.name, count(each.offset), time(each.until)])) : none("Nothing is held: retention goes by the limits.");
}

function divided(vhost, stream) {
  return [facts([["Partitions", count(stream.partitions.length)], ["Messages", count(stream.messages)], ["Octets", octets(stream.stream_bytes)]]),
    lines(PARTITIONS, stream.partitions.map((each) => [link(to.queue({ vhost, name: each.name }), each.name), each.node, each.leader || "–", count(each.messages), range(each), octets(each.stream_bytes), when(each.first_time) ?? "–", when(each.last_time) ?? "–"])),
    h("p", {}, "Messages, holds, producers, segments and replays are on the page of each partition.")];
}

function shareTable(stream) {
  const shares = stream.groups.flatMap((group) => group.partitions.map((each) => [group.name, count(each.partition), count(each.position), lag(each.lag), each.reader || "nobody", each.owner || "–", count(group.members)]));
  return shares.length ? lines(SHARES, shares) : none("No groups.");
}

// Where to look from, as messages of a queue are asked for.
async function begin(where, { at, ...values }) {
  const { from, at_time: time_, at_age: age, ...more } = values;
  if (at === "offset") return { ...more, from: from ?? ENDS.first };
  if (at in ENDS) return { ...more, from: ENDS[at] };
  const [{ offset }] = await offsetsAt(where, placeOf({ at, at_time: time_, at_age: age }, "at"));
  return { ...more, from: offset };
}

// mayLook: at messages, which is more than what a viewer may.
export function streamPart(vhost, name, mayLook) {
  const where = path`v1/streams/${vhost}/${name}`;
  const changed = (text) => {
    note(text);
    document.dispatchEvent(new CustomEvent("refresh"));
  };
  const shown = h("div");
  const groups = h("div");
  const holds = h("div");
  const groupBar = isAdministrator() ? groupButtons(where, changed) : null;
  const holdBar = mayLook ? holdButtons(where, changed) : null;
  const trim = isAdministrator() ? trimPart(vhost, name, changed) : null;
  const peek = mayLook ? peekForm(vhost, name, FROM, "Read from here: nothing is marked, counted or moved", { begin: (values) => begin(where, values), isLog: true }) : null;
  // Of a stream that has no partitions.
  const own = [h("section", {}, h("h2", {}, "Holds"), holds, holdBar?.node), segmentPart(where), peek ? h("section", {}, h("h2", {}, "Messages"), peek) : null,
    h("section", {}, h("h2", {}, mayLook ? "Replay, and producers" : "Producers"), h("div", { class: "columns" }, mayLook ? replayForm(where) : null, producerForm(where)))].filter(Boolean);
  const node = h("section", {}, shown, h("h2", {}, "Groups of readers"), groups, groupBar?.node);

  async function refresh() {
    const stream = await get(where);
    const isDivided = Boolean(stream.partitions);
    patch(shown, isDivided ? divided(vhost, stream) : whole(stream));
    patch(groups, isDivided ? shareTable(stream) : groupTable(stream));
    groupBar?.show(stream.groups ?? []);
    trim?.show(stream.partitions ?? [stream]);
    if (!isDivided) {
      patch(holds, holdTable(stream));
      holdBar?.show(stream.holds ?? []);
      if (!own[0].isConnected) node.append(...own);
    }
    if (trim && !trim.node.isConnected) node.append(trim.node);
    if (peek && !isDivided) peek.refresh();
  }
  return { node, refresh };
}
