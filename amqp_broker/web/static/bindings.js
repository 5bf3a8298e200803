// Bindings, as a table with a form: those of a queue, and those from and to an exchange.

import { mayChange, path, post, remove } from "./api.js";
import { attempt, confirmName, formDialog } from "./dialog.js";
import { h, link } from "./dom.js";
import { json } from "./format.js";
import { to } from "./router.js";
import { table } from "./table.js";

function source(row) {
  return link(to.exchange({ vhost: row.vhost, name: row.source }), row.source || "(default)");
}

function destination(row) {
  const target = { vhost: row.vhost, name: row.destination };
  return [link(row.destination_type === "queue" ? to.queue(target) : to.exchange(target), row.destination), h("span", { class: "quiet" }, ` ${row.destination_type}`)];
}

function place(vhost, exchange, kind, name) {
  return path`bindings/${vhost}/e/${exchange || "amq.default"}/${kind === "queue" ? "q" : "e"}/${name}`;
}

export function addBinding(vhost, { exchange, name, kind }) {
  const fields = [
    exchange === undefined ? { name: "exchange", label: "From exchange", required: true } : null,
    kind === undefined ? { name: "kind", label: "To", type: "select", options: ["queue", "exchange"] } : null,
    name === undefined ? { name: "name", label: "Name of the queue or exchange", required: true } : null,
    { name: "routing_key", label: "Routing key" },
    { name: "arguments", label: "Arguments (JSON)", type: "json", keys: ["x-match=\"all\""] },
  ].filter(Boolean);
  return formDialog("Add a binding", fields, {
    submit: "Bind",
    run: (values) => post(place(vhost, values.exchange ?? exchange, values.kind ?? kind, values.name ?? name), {
      routing_key: values.routing_key, arguments: values.arguments,
    }),
  });
}

export function bindingTable(where, { vhost, add, isWith, prefix = "" }) {
  const element = table({
    path: () => where, prefix, filter: "Filter by exchange, queue or key",
    id: (row) => JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key]),
    columns: [
      isWith === "source" ? null : { key: "source", title: "From exchange", render: source },
      isWith === "destination" ? null : { key: "destination", title: "To", render: destination },
      { key: "routing_key", title: "Routing key", render: (row) => h("code", {}, row.routing_key) },
      { key: "arguments", title: "Arguments", sort: false, isWide: true, render: (row) => json(row.arguments) },
    ].filter(Boolean),
    rowActions: mayChange() ? [{ title: "Unbind", isFor: (row) => row.source !== "", run: unbind }] : [],
    buttons: add && mayChange() ? [h("button", { type: "button", onclick: async () => { if (await addBinding(vhost, add)) element.refresh(); } }, "Add a binding")] : [],
    empty: "No bindings.",
  });
  return element;
}

function unbind(row) {
  const key = row.routing_key || row.destination;
  return confirmName("Remove a binding", `From ${row.source || "the default exchange"} to ${row.destination}: messages go no more this way.`, key, "Unbind",
    () => remove(`${place(row.vhost, row.source, row.destination_type, row.destination)}/${path`${row.properties_key}`}`)).then((done) => done && attempt("Unbound.", () => true));
}
