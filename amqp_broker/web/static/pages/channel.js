// One channel: its mode, what it moves, and its consumers.

import { get, path } from "../api.js";
import { chart } from "../chart.js";
import { h, link, patch } from "../dom.js";
import { crumbs, facts, heading } from "../facts.js";
import { count, duration, short, yesNo } from "../format.js";
import { recordPoint, recorded } from "../history.js";
import { to } from "../router.js";
import { consumerTable } from "./queue.js";
import { stateBadge } from "./queues.js";

const RATES = { publish: "published", confirm: "confirmed", deliver_get: "delivered", ack: "acknowledged" };

export function channelPage(name) {
  const where = path`channels/${name}`;
  const head = h("div");
  const about = h("section");
  const consumers = h("section");
  const rates = chart();

  async function refresh() {
    const found = await get(where);
    const stats = found.message_stats ?? {};
    const connection = found.connection_details?.name;
    recordPoint(where, Object.fromEntries(Object.keys(RATES).map((each) => [each, stats[`${each}_details`]?.rate ?? 0])));
    patch(head, crumbs("Channels", "channels"), heading(name, stateBadge(found.state)));
    rates.data = recorded(where, "Messages", RATES, (value) => `${short(value)}/s`);
    patch(about, facts([["Connection", connection ? link(to.connection(connection), connection) : undefined], ["User", found.user], ["Virtual host", found.vhost], ["Node", found.node],
      ["Confirms", yesNo(found.confirm)], ["Transactions", yesNo(found.transactional)], ["Prefetch", found.prefetch_count || "no limit"], ["Prefetch of the channel", found.global_prefetch_count || "no limit"],
      ["Unacknowledged", count(found.messages_unacknowledged)], ["Unconfirmed", count(found.messages_unconfirmed)], ["Uncommitted", count(found.messages_uncommitted)], ["Longest unacknowledged", found.oldest_unacked_age_ms === undefined ? undefined : duration(found.oldest_unacked_age_ms)],
      ["Published in all", count(stats.publish)], ["Delivered in all", count(stats.deliver_get)]]));
    patch(consumers, h("h2", {}, "Consumers"), consumerTable(found.consumer_details ?? []));
  }
  return { node: h("div", {}, head, h("section", { class: "charts" }, rates), about, consumers), refresh };
}
