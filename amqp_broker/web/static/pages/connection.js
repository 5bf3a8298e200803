// One connection: who it is, what it moves, its channels, and its end.

import { get, mayClose, path, remove } from "../api.js";
import { chart } from "../chart.js";
import { formDialog } from "../dialog.js";
import { h, link, patch } from "../dom.js";
import { crumbs, facts, heading } from "../facts.js";
import { count, octets, pretty, time } from "../format.js";
import { recordPoint, recorded } from "../history.js";
import { go, href, to } from "../router.js";
import { table } from "../table.js";
import { CHANNELS } from "./clients.js";
import { stateBadge } from "./queues.js";

export function connectionPage(name) {
  const where = path`connections/${name}`;
  const head = h("div");
  const about = h("section");
  const rates = chart();
  const end = () => formDialog("Close the connection", [{ name: "reason", label: "Reason, which the client is told", value: "closed by hand" }], {
    submit: "Close it", note: name, run: ({ reason }) => remove(where, { "x-reason": reason.replace(/[^\x20-\x7e]/g, "?") }),
  }).then((done) => done && go(href(["connections"])));
  const channels = table({
    path: () => `${where}/channels`, columns: CHANNELS.filter((each) => !["vhost", "user"].includes(each.key)), href: (row) => to.channel(row.name), filter: false, empty: "No channels are open.",
  });
  const danger = h("section", { class: "danger-zone", hidden: true }, h("p", {}, h("button", { type: "button", class: "danger", id: "close", onclick: end }, "Close"), " The connection, with a reason."));
  const node = h("div", {}, head, h("section", { class: "charts" }, rates), about, h("h2", {}, "Channels"), channels,
    danger);

  async function refresh() {
    const found = await get(where);
    danger.hidden = !mayClose(found.user);
    recordPoint(where, { recv: found.recv_oct_details?.rate, send: found.send_oct_details?.rate });
    patch(head, crumbs("Connections", "connections"), heading(name, stateBadge(found.state)));
    rates.data = recorded(where, "Octets a second", { recv: "from client", send: "to client" }, octets);
    patch(about, facts([["Client", found.user_provided_name || found.client_properties?.product], ["User", found.user], ["Virtual host", link(to.vhost(found.vhost), found.vhost)], ["Node", found.node],
      ["Since", time(found.connected_at)], ["Peer", `${found.peer_host}:${found.peer_port}`], ["TLS", found.ssl ? `${found.ssl_protocol ?? "yes"} ${found.ssl_cipher ?? ""}` : "no"],
      ["Login", found.auth_mechanism || undefined], ["Heartbeat", found.timeout ? `${found.timeout} s` : "off"], ["Largest frame", octets(found.frame_max)], ["Channels", `${count(found.channels)} of ${count(found.channel_max)}`],
      ["From client", octets(found.recv_oct)], ["To client", octets(found.send_oct)]]),
    h("details", {}, h("summary", {}, "What the client says of itself"), h("pre", {}, pretty(found.client_properties))));
    await channels.refresh();
  }
  return { node, refresh };
}
