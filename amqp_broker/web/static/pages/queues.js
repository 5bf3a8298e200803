// Queues: the list, what is done to many of them, and a new one.

import { get, mayChange, path, put, remove } from "../api.js";
import { doToMany, lookAtMany } from "../bulk.js";
import { attempt, confirmMany, formDialog } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading } from "../facts.js";
import { count, duration, octets, rate, json } from "../format.js";
import { moveMany } from "../moving.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { proposals, queueTypes } from "../types.js";
import { listPath, vhostField } from "../vhosts.js";

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
  number("oldest_unacked_age_ms", "Longest unacked", (row) => duration(row.oldest_unacked_age_ms), true),
  { key: "node", isForRoom: true, title: "Node", isHidden: true, render: (row) => row.node },
];

// Purge and Delete: what is in each now, and what becomes of it.
function many(title, tell, act) {
  return {
    title, isDanger: true,
    run: async (rows) => {
      const seen = await lookAtMany(rows, (row) => get(path`queues/${row.vhost}/${row.name}?columns=messages_ready,messages_unacknowledged,consumers`));
      const sum = (name) => count(seen.reduce((all, { found }) => all + (found?.[name] ?? 0), 0));
      const lists = seen.map(({ row, found, error }) => found ? [row.name, count(found.messages_ready), count(found.messages_unacknowledged), count(found.consumers)] : [row.name, error, "", ""]);
      return confirmMany(`${title} ${rows.length} queues`, ["Queue", "Ready", "Unacked", "Consumers"], lists, tell(sum), title, (advance) => doToMany(rows, act, advance));
    },
  };
}

const ACTIONS = [
  { title: "Move messages", run: moveMany },
  many("Purge", (sum) => `${sum("messages_ready")} messages are thrown away; ${sum("messages_unacknowledged")} that consumers hold stay.`, (row) => remove(path`queues/${row.vhost}/${row.name}/contents`)),
  many("Delete", (sum) => `The queues are gone with ${sum("messages_ready")} messages that are ready and ${sum("messages_unacknowledged")} that are held; ${sum("consumers")} consumers are cancelled.`, (row) => remove(path`queues/${row.vhost}/${row.name}`)),
];

async function addQueue() {
  const [field, { types, default: usual }] = await Promise.all([vhostField(), queueTypes()]);
  const typeOf = ({ type, vhost }) => types.find((each) => each.name === (type || (field.vhosts.find((one) => one.name === vhost)?.default_queue_type ?? usual)));
  const fields = [
    field, { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", type: "select", options: [["", "default of the virtual host"], ...types.map((each) => each.name)] },
    { name: "durable", label: "durable: there after a restart", type: "checkbox", value: true },
    { name: "auto_delete", label: "auto-delete: gone with its last consumer", type: "checkbox" },
    { name: "arguments", label: "Arguments (JSON)", type: "json", keys: (values) => proposals(typeOf(values)?.arguments ?? []) },
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
    actions: mayChange() ? ACTIONS : [],
    buttons: mayChange() ? [h("button", { type: "button", id: "add", onclick: async () => { if (await addQueue()) await attempt("Declared.", () => list.refresh()); } }, "Add a queue")] : [],
  });
  return { node: h("div", {}, heading("Queues"), list), refresh: () => list.refresh() };
}
