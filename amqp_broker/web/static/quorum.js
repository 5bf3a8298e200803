// The group behind a quorum queue: who leads, how far each member is, who led before and why.

import { get, path } from "./api.js";
import { badge, h, lines, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count, octets, time } from "./format.js";

const MEMBERS = ["Member", "Role", "Lag", "Acknowledged", "Last entry", "Applied", "Log", "Link"];
const CHANGES = ["When", "Term", "Leader", "Before", "Why", "Seen by"];

export function quorumPart(vhost, name) {
  const node = h("section");
  const known = (value) => value === null || value === undefined ? "–" : count(value);

  async function refresh() {
    const view = await get(path`v1/quorum-queues/${vhost}/${name}`);
    patch(node, facts([["Group", count(view.group)], ["Term", count(view.term)], ["Leader", view.leader ?? "none known"]]),
      lines(MEMBERS, view.members.map((each) => [each.node, each.role, known(each.lag), known(each.acknowledged_index), known(each.last_index), known(each.applied_index),
        each.log_bytes === undefined ? "–" : octets(each.log_bytes), each.is_linked ? badge("linked", "good") : badge("no link", "bad")])),
      h("h2", {}, "Changes of the leader"),
      lines(CHANGES, view.leader_changes.map((each) => [time(each.at), count(each.term), each.leader, each.before ?? "–", each.why, each.seen_by])));
  }
  return { node, refresh };
}
