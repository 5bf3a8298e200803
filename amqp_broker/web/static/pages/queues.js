// Queues: the list, what is done to many of them, and a new one.

import { path, put, remove } from "../api.js";
import { attempt, confirmMany, formDialog, note } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading } from "../facts.js";
import { count, octets, rate, json } from "../format.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { listPath, vhostField } from "../vhosts.js";

const ARGUMENTS = ["x-max-length=1000", "x-max-length-bytes=1048576", "x-overflow=\"reject-publish\"", "x-message-ttl=60000", "x-expires=1800000",
  "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority=10", "x-single-active-consumer=true", "x-delivery-limit=20"];
const AT_ONCE = 4;

const stat = (row, name) => row.message_stats?.[`${name}_details`]?.rate ?? 0;
const number = (key, title, read, isHidden = false, sort = key) => ({ key, title, isNumber: true, isHidden, sort, render: read });

export function stateBadge(state) {
  return badge(state, state === "running" ? "good" : state === "idle" ? "" : "bad");
}

export function features(row) {
  return [row.durable ? badge("D") : null, row.auto_delete ? badge("AD") : null, row.exclusive ? badge("exclusive") : null,
    Object.keys(row.arguments ?? {}).length ? h("span", { class: "badge", title: json(row.arguments) }, "args") : null, row.policy ? badge(row.policy, "policy") : null];
}

const COLUMNS = [
  { key: "name", title: "Name", isWide: true, render: (row) => link(to.queue(row), row.name) },
  { key: "vhost", isForRoom: true, title: "Virtual host", render: (row) => row.vhost },
  { key: "type", isForRoom: true, title: "Type", render: (row) => row.type },
  { key: "features", isForRoom: true, title: "Features", sort: false, render: features },
  { key: "state", isForRoom: true, title: "State", render: (row) => stateBadge(row.state) },
  number("messages_ready", "Ready", (row) => count(row.messages_ready)),
  number("messages_unacknowledged", "Unacked", (row) => count(row.messages_unacknowledged)),
  number("messages", "Total", (row) => count(row.messages)),
  number("publish", "In", (row) => rate(stat(row, "publish")), false, "message_stats.publish_details.rate"),
  number("deliver_get", "Out", (row) => rate(stat(row, "deliver_get")), false, "message_stats.deliver_get_details.rate"),
  number("ack", "Ack", (row) => rate(stat(row, "ack")), false, "message_stats.ack_details.rate"),
  number("consumers", "Consumers", (row) => count(row.consumers)),
  number("memory", "Memory", (row) => octets(row.memory), true),
  number("message_bytes", "Octets", (row) => octets(row.message_bytes), true),
  number("redeliver", "Redelivered", (row) => rate(stat(row, "redeliver")), true, "message_stats.redeliver_details.rate"),
  { key: "node", isForRoom: true, title: "Node", isHidden: true, render: (row) => row.node },
];

// Does the same to many, a few at a time; what fails is told at the end and the rest is done.
export async function doToMany(rows, run, advance) {
  const failures = [];
  const left = [...rows];
  const work = async () => {
    for (let row = left.pop(); row; row = left.pop()) {
      try {
        await run(row);
      } catch (error) {
        failures.push(`${row.name}: ${error.message}`);
      }
      advance();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (failures.length) note(`${failures.length} of ${rows.length} failed. ${failures.slice(0, 3).join("; ")}`, "problem");
  return true;
}

function many(title, text, run) {
  return {
    title, isDanger: true,
    run: (rows) => confirmMany(`${title} ${rows.length} queues`, rows.map((row) => row.name), text(rows), title, (advance) => doToMany(rows, run, advance)),
  };
}

const total = (rows) => count(rows.reduce((sum, row) => sum + (row.messages ?? 0), 0));
const consumers = (rows) => count(rows.reduce((sum, row) => sum + (row.consumers ?? 0), 0));

async function addQueue() {
  const fields = [
    await vhostField(), { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", type: "select", options: [["", "default of the virtual host"], "classic", "quorum", "stream"] },
    { name: "durable", label: "durable: there after a restart", type: "checkbox", value: true },
    { name: "auto_delete", label: "auto-delete: gone with its last consumer", type: "checkbox" },
    { name: "arguments", label: "Arguments (JSON)", type: "json", keys: ARGUMENTS },
  ];
  return formDialog("Add a queue", fields, {
    submit: "Declare",
    run: (values) => put(path`queues/${values.vhost}/${values.name}`, {
      durable: values.durable, auto_delete: values.auto_delete,
      arguments: values.type ? { "x-queue-type": values.type, ...values.arguments } : values.arguments,
    }),
  });
}

export function queuesPage() {
  const list = table({
    name: "queues", path: () => listPath("queues"), columns: COLUMNS, href: to.queue, empty: "No queues yet. Clients declare them, or you do.",
    actions: [
      many("Purge", (rows) => `${total(rows)} messages are thrown away; those that consumers hold stay.`, (row) => remove(path`queues/${row.vhost}/${row.name}/contents`)),
      many("Delete", (rows) => `The queues are gone with ${total(rows)} messages; ${consumers(rows)} consumers are cancelled.`, (row) => remove(path`queues/${row.vhost}/${row.name}`)),
    ],
    buttons: [h("button", { type: "button", id: "add", onclick: async () => { if (await addQueue()) await attempt("Declared.", () => list.refresh()); } }, "Add a queue")],
  });
  return { node: h("div", {}, heading("Queues"), list), refresh: () => list.refresh() };
}
