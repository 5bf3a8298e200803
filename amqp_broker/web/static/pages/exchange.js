// One exchange: rates, bindings both ways, publish, and its end.

import { get, mayChange, path, remove } from "../api.js";
import { bindingTable } from "../bindings.js";
import { chart } from "../chart.js";
import { confirmName } from "../dialog.js";
import { badge, h, link, patch } from "../dom.js";
import { crumbs, facts, heading, tabs } from "../facts.js";
import { count, json, short, yesNo } from "../format.js";
import { recordPoint, recorded } from "../history.js";
import { publishForm } from "../messages.js";
import { routeForm } from "../routes.js";
import { go, href } from "../router.js";

const RATES = { publish_in: "in", publish_out: "out" };

export function exchangePage(vhost, given) {
  const name = given === "amq.default" ? "" : given;
  const where = path`exchanges/${vhost}/${given}`;
  const head = h("div");
  const rates = chart();
  const about = h("section");
  const from = bindingTable(`${where}/bindings/source`, { vhost, isWith: "source", add: name ? { exchange: name } : null });
  const toward = name ? bindingTable(`${where}/bindings/destination`, { vhost, isWith: "destination", add: { name, kind: "exchange" }, prefix: "to." }) : null;
  const bindings = h("div", {}, h("h2", {}, "From here"), from, toward ? [h("h2", {}, "To here"), toward] : null);
  const end = () => confirmName("Delete the exchange", "It is gone with its bindings; publishers to it are refused.", name, "Delete", () => remove(where)).then((done) => done && go(href(["exchanges"])));
  const danger = h("section", { class: "danger-zone" }, name && !name.startsWith("amq.")
    ? h("p", {}, h("button", { type: "button", class: "danger", id: "delete", onclick: end }, "Delete"), " The exchange and its bindings.")
    : h("p", {}, "This exchange belongs to the broker."));
  const route = routeForm(vhost, name);
  const sections = tabs([
    ["bindings", "Bindings", bindings, () => Promise.all([from.refresh(), toward?.refresh()])], ["overview", "Overview", h("div", {}, h("section", { class: "charts" }, rates), about)],
    ...mayChange() ? [["publish", "Publish", publishForm(vhost, name)], ["route", "Route test", route, () => route.refresh()], ["danger", "Danger", danger]] : [],
  ]);

  async function refresh() {
    const exchange = await get(where);
    const stats = exchange.message_stats ?? {};
    recordPoint(where, Object.fromEntries(Object.keys(RATES).map((each) => [each, stats[`${each}_details`]?.rate ?? 0])));
    patch(head, crumbs("Exchanges", "exchanges", " in ", link(href(["exchanges"], { vhost }), vhost)), heading(name || "(default exchange)", badge(exchange.type)));
    rates.data = recorded(where, "Messages", RATES, (value) => `${short(value)}/s`);
    patch(about, facts([["Durable", yesNo(exchange.durable)], ["Auto-delete", yesNo(exchange.auto_delete)], ["Internal", yesNo(exchange.internal)], ["Arguments", json(exchange.arguments)],
      ["Policy", exchange.policy || "none"], ["Came in", count(stats.publish_in)], ["Went to queues", count(stats.publish_out)]]));
    await sections.refresh();
  }
  return { node: h("div", {}, head, sections.node), refresh };
}
