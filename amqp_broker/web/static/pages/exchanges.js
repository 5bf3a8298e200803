// Exchanges: the list, and a new one.

import { mayChange, path, put } from "../api.js";
import { formDialog } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading } from "../facts.js";
import { json, rate } from "../format.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { listPath, vhostField } from "../vhosts.js";

const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message"];
const stat = (row, name) => row.message_stats?.[`${name}_details`]?.rate;

export function exchangeFeatures(row) {
  return [row.durable ? badge("D") : null, row.auto_delete ? badge("AD") : null, row.internal ? badge("internal") : null,
    Object.keys(row.arguments ?? {}).length ? h("span", { class: "badge", title: json(row.arguments) }, "args") : null, row.policy ? badge(row.policy, "policy") : null];
}

const COLUMNS = [
  { key: "name", title: "Name", isWide: true, render: (row) => link(to.exchange(row), row.name || "(default)") },
  { key: "vhost", isForRoom: true, title: "Virtual host", render: (row) => row.vhost },
  { key: "type", isForRoom: true, title: "Type", render: (row) => row.type },
  { key: "features", isForRoom: true, title: "Features", sort: false, render: exchangeFeatures },
  { key: "publish_in", title: "In", isNumber: true, sort: "message_stats.publish_in_details.rate", render: (row) => rate(stat(row, "publish_in")) },
  { key: "publish_out", title: "Out", isNumber: true, sort: "message_stats.publish_out_details.rate", render: (row) => rate(stat(row, "publish_out")) },
];

async function addExchange() {
  const fields = [
    await vhostField(), { name: "name", label: "Name", required: true }, { name: "type", label: "Type", type: "select", options: TYPES },
    { name: "durable", label: "durable: there after a restart", type: "checkbox", value: true },
    { name: "auto_delete", label: "auto-delete: gone with its last binding", type: "checkbox" },
    { name: "internal", label: "internal: not for publishers", type: "checkbox" },
    { name: "arguments", label: "Arguments (JSON)", type: "json", keys: ["alternate-exchange", "x-delayed-type=\"direct\"", "hash-header"] },
  ];
  return formDialog("Add an exchange", fields, { submit: "Declare", run: ({ vhost, name, ...body }) => put(path`exchanges/${vhost}/${name}`, body) });
}

export function exchangesPage() {
  const list = table({
    name: "exchanges", path: () => listPath("exchanges"), columns: COLUMNS, href: to.exchange,
    buttons: mayChange() ? [h("button", { type: "button", id: "add", onclick: async () => { if (await addExchange()) list.refresh(); } }, "Add an exchange")] : [],
  });
  return { node: h("div", {}, heading("Exchanges"), list), refresh: () => list.refresh() };
}
