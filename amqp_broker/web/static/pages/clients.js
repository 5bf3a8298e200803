// Who is there: connections, channels and consumers.

import { get, isAdministrator, mayChange, mayClose, path, remove } from "../api.js";
import { doToMany, lookAtMany } from "../bulk.js";
import { confirmMany, confirmName } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading } from "../facts.js";
import { count, duration, json, octets, rate, time } from "../format.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { chosenVhost, listPath } from "../vhosts.js";
import { stateBadge } from "./queues.js";

const CONNECTIONS = [
  { key: "name", title: "Name", isWide: true, render: (row) => link(to.connection(row.name), row.name) },
  { key: "user_provided_name", title: "Client", isWide: true, render: (row) => row.user_provided_name || row.client_properties?.product || "–" },
  { key: "vhost", isForRoom: true, title: "Virtual host", render: (row) => row.vhost },
  { key: "user", isForRoom: true, title: "User", render: (row) => row.user },
  { key: "state", isForRoom: true, title: "State", render: (row) => stateBadge(row.state) },
  { key: "ssl", isForRoom: true, title: "TLS", render: (row) => row.ssl ? badge("TLS", "good") : "–" },
  { key: "channels", title: "Channels", isNumber: true, render: (row) => count(row.channels) },
  { key: "recv_oct", title: "From client", isNumber: true, sort: "recv_oct_details.rate", render: (row) => `${octets(row.recv_oct_details?.rate)}/s` },
  { key: "send_oct", title: "To client", isNumber: true, sort: "send_oct_details.rate", render: (row) => `${octets(row.send_oct_details?.rate)}/s` },
  { key: "connected_at", title: "Since", isHidden: true, render: (row) => time(row.connected_at) },
  { key: "node", isForRoom: true, title: "Node", isHidden: true, render: (row) => row.node },
  { key: "protocol", isForRoom: true, title: "Protocol", isHidden: true, render: (row) => row.protocol },
];

// Others' connections are closed by administrators only.
async function closeMany(rows) {
  const seen = await lookAtMany(rows, (row) => get(path`connections/${row.name}?columns=name,user,channels,user_provided_name`));
  const tell = ({ found, error }) => error ? error : mayClose(found.user) ? `${count(found.channels)} channels end` : "stays: it is somebody else's";
  const lists = seen.map((each) => [each.row.name, each.found?.user_provided_name ?? "", each.row.user, tell(each)]);
  const own = seen.filter(({ found }) => found && mayClose(found.user)).map(({ row }) => row);
  return confirmMany(`Close ${rows.length} connections`, ["Connection", "Client", "User", "What happens"], lists, `${count(own.length)} are closed. Clients that are well written come back at once; what they held goes back to its queues.`, "Close",
    (advance) => doToMany(own, (row) => remove(path`connections/${row.name}`, { "x-reason": "closed by hand" }), advance));
}

export function connectionsPage() {
  const list = table({
    name: "connections", path: () => listPath("connections"), columns: CONNECTIONS, href: (row) => to.connection(row.name), empty: "Nobody is connected.",
    actions: mayChange() ? [{ title: "Close", isDanger: true, run: closeMany }] : [],
  });
  return { node: h("div", {}, heading("Connections"), list), refresh: () => list.refresh() };
}

const stat = (row, name) => row.message_stats?.[`${name}_details`]?.rate ?? 0;

export const CHANNELS = [
  { key: "name", title: "Name", isWide: true, render: (row) => link(to.channel(row.name), row.name) },
  { key: "vhost", isForRoom: true, title: "Virtual host", render: (row) => row.vhost },
  { key: "user", isForRoom: true, title: "User", render: (row) => row.user },
  { key: "mode", isForRoom: true, title: "Mode", sort: false, render: (row) => [row.confirm ? badge("confirm") : null, row.transactional ? badge("tx") : null] },
  { key: "state", isForRoom: true, title: "State", render: (row) => stateBadge(row.state) },
  { key: "consumer_count", title: "Consumers", isNumber: true, render: (row) => count(row.consumer_count) },
  { key: "prefetch_count", title: "Prefetch", isNumber: true, render: (row) => row.prefetch_count || "∞" },
  { key: "messages_unacknowledged", title: "Unacked", isNumber: true, render: (row) => count(row.messages_unacknowledged) },
  { key: "oldest_unacked_age_ms", title: "Longest unacked", isNumber: true, isHidden: true, render: (row) => duration(row.oldest_unacked_age_ms) },
  { key: "messages_unconfirmed", title: "Unconfirmed", isNumber: true, render: (row) => count(row.messages_unconfirmed) },
  { key: "publish", title: "Published", isNumber: true, sort: "message_stats.publish_details.rate", render: (row) => rate(stat(row, "publish")) },
  { key: "deliver_get", title: "Delivered", isNumber: true, sort: "message_stats.deliver_get_details.rate", render: (row) => rate(stat(row, "deliver_get")) },
  { key: "node", isForRoom: true, title: "Node", isHidden: true, render: (row) => row.node },
];

export function channelsPage() {
  const list = table({ name: "channels", path: () => listPath("channels"), columns: CHANNELS, href: (row) => to.channel(row.name), empty: "No channels are open." });
  return { node: h("div", {}, heading("Channels"), list), refresh: () => list.refresh() };
}

const CONSUMERS = [
  { key: "consumer_tag", title: "Tag", isWide: true, render: (row) => row.consumer_tag },
  { key: "queue", title: "Queue", sort: "queue.name", isWide: true, render: (row) => link(to.queue(row.queue), row.queue.name) },
  { key: "vhost", isForRoom: true, title: "Virtual host", sort: "queue.vhost", render: (row) => row.queue.vhost },
  { key: "channel", title: "Channel", sort: "channel_details.name", isWide: true, render: (row) => link(to.channel(row.channel_details.name), row.channel_details.name) },
  { key: "user", isForRoom: true, title: "User", sort: "channel_details.user", render: (row) => row.channel_details.user },
  { key: "prefetch_count", title: "Prefetch", isNumber: true, render: (row) => row.prefetch_count || "∞" },
  { key: "ack_required", title: "Ack", render: (row) => row.ack_required ? "manual" : "automatic" },
  { key: "activity_status", title: "State", render: (row) => [row.activity_status, " ", row.exclusive ? badge("exclusive") : null] },
  { key: "arguments", title: "Arguments", sort: false, isHidden: true, render: (row) => json(row.arguments) },
];

export function consumersPage() {
  const cancel = (row) => confirmName("Cancel a consumer", `The queue ${row.queue.name} gives it nothing more; the client is told.`, row.consumer_tag, "Cancel it",
    () => remove(path`consumers/${row.queue.vhost}/${row.channel_details.connection_name}/${row.channel_details.number}/${row.consumer_tag}`));
  const list = table({
    name: "consumers", path: () => listPath("consumers"), columns: CONSUMERS, filter: "Filter by tag, queue, channel or user", id: (row) => `${row.channel_details.name}\0${row.consumer_tag}`,
    href: (row) => to.queue(row.queue), rowActions: isAdministrator() ? [{ title: "Cancel", run: cancel }] : [],
    empty: chosenVhost() ? "No consumers in this virtual host." : "No consumers.",
  });
  return { node: h("div", {}, heading("Consumers"), list), refresh: () => list.refresh() };
}
