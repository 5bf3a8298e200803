// Administration: users, virtual hosts, policies, limits, definitions.

import { isAdministrator, isPolicymaker, path, post, put, remove } from "../api.js";
import { attempt, confirmName, formDialog } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading, tabs } from "../facts.js";
import { count, json } from "../format.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { listPath, vhostField } from "../vhosts.js";

export const TAGS = ["", "viewer", "management", "policymaker", "monitoring", "administrator"];
const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const POLICY_KEYS = ["max-length=1000", "max-length-bytes=1048576", "message-ttl=60000", "expires=1800000", "overflow=\"reject-publish\"", "dead-letter-exchange", "dead-letter-routing-key", "delivery-limit=20", "alternate-exchange"];

function adder(title, list, run) {
  return h("button", { type: "button", onclick: async () => { if (await run()) list().refresh(); } }, title);
}

function users() {
  const list = table({
    name: "users", path: () => "users", isInAddress: false, id: (row) => row.name, href: (row) => to.user(row.name),
    columns: [{ key: "name", title: "Name", isWide: true, render: (row) => link(to.user(row.name), row.name) }, { key: "tags", title: "Tags", sort: false, render: (row) => row.tags.map((tag) => badge(tag)) },
      { key: "password", title: "Password", sort: false, render: (row) => row.password_hash ? "set" : "none" }, { key: "limits", title: "Limits", sort: false, render: (row) => json(row.limits) }],
    buttons: [adder("Add a user", () => list, () => formDialog("Add a user", [{ name: "name", label: "Name", required: true }, { name: "password", label: "Password", type: "password", required: true },
      { name: "tags", label: "May use these pages as", type: "select", options: TAGS.map((tag) => [tag, tag || "nobody: clients only"]) }],
    { submit: "Add", note: "Permissions are given on the page of the user.", run: ({ name, ...body }) => put(path`users/${name}`, body) }))],
  });
  return list;
}

function vhosts() {
  const number = (key, title) => ({ key, title, isNumber: true, render: (row) => count(row[key]) });
  const list = table({
    name: "vhosts", path: () => "vhosts", isInAddress: false, id: (row) => row.name, href: (row) => to.vhost(row.name),
    columns: [{ key: "name", title: "Name", isWide: true, render: (row) => link(to.vhost(row.name), row.name) }, { key: "description", title: "Description", render: (row) => row.description },
      number("queues", "Queues"), number("connections", "Connections"), number("messages", "Messages"), { key: "default_queue_type", title: "Queue type", render: (row) => row.default_queue_type }],
    buttons: isAdministrator() ? [adder("Add a virtual host", () => list, () => formDialog("Add a virtual host", [{ name: "name", label: "Name", required: true }, { name: "description", label: "Description" },
      { name: "default_queue_type", label: "Queues are", type: "select", options: ["classic", "quorum", "stream"] }], { submit: "Add", run: ({ name, ...body }) => put(path`vhosts/${name}`, body) }))] : [],
  });
  return list;
}

function policies(kind, title, isAllowed) {
  const edit = async (row) => {
    const fields = [row ? null : await vhostField(), row ? null : { name: "name", label: "Name", required: true },
      { name: "pattern", label: "Pattern of names", value: row?.pattern ?? "^", required: true },
      { name: "apply-to", label: "Applies to", type: "select", options: kind === "policies" ? APPLY_TO : APPLY_TO.slice(1, 4), value: row?.["apply-to"] },
      { name: "priority", label: "Priority: the highest that fits is taken", type: "number", value: row?.priority ?? 0 },
      { name: "definition", label: "Definition (JSON)", type: "json", keys: POLICY_KEYS, value: row ? JSON.stringify(row.definition, null, 1) : "" }].filter(Boolean);
    return formDialog(row ? `${title} ${row.name}` : `Add: ${title}`, fields, {
      run: ({ vhost, name, ...body }) => put(path`${kind}/${vhost ?? row.vhost}/${name ?? row.name}`, body),
    });
  };
  const end = (row) => confirmName(`Remove: ${title}`, "What it set is set no more.", row.name, "Remove", () => remove(path`${kind}/${row.vhost}/${row.name}`));
  const list = table({
    name: kind, path: () => listPath(kind), isInAddress: false, empty: "None.",
    columns: [{ key: "name", title: "Name", isWide: true, render: (row) => row.name }, { key: "vhost", title: "Virtual host", render: (row) => row.vhost }, { key: "pattern", title: "Pattern", render: (row) => h("code", {}, row.pattern) },
      { key: "apply-to", title: "Applies to", render: (row) => row["apply-to"] }, { key: "priority", title: "Priority", isNumber: true, render: (row) => count(row.priority) },
      { key: "definition", title: "Definition", sort: false, isWide: true, render: (row) => json(row.definition) }],
    rowActions: isAllowed ? [{ title: "Edit", run: edit }, { title: "Remove", run: end }] : [],
    buttons: isAllowed ? [adder("Add", () => list, () => edit(null))] : [],
  });
  return list;
}

function limits() {
  const set = (kind, of, names) => {
    const list = table({
      path: () => kind, isInAddress: false, filter: false, id: (row) => row[of], empty: "No limits.",
      columns: [{ key: of, title: of === "vhost" ? "Virtual host" : "User", render: (row) => row[of] }, { key: "value", title: "Limits", sort: false, render: (row) => json(row.value) }],
      rowActions: isAdministrator() ? [{ title: "Remove", run: (row) => confirmName("Remove limits", "There is no limit any more.", row[of], "Remove", () => Promise.all(Object.keys(row.value).map((name) => remove(path`${kind}/${row[of]}/${name}`)))) }] : [],
      buttons: isAdministrator() ? [adder("Set a limit", () => list, async () => formDialog("Set a limit", [of === "vhost" ? await vhostField() : { name: "user", label: "User", required: true },
        { name: "limit", label: "Limit", type: "select", options: names }, { name: "value", label: "Number (-1 is no limit)", type: "number", value: 100 }],
      { run: (values) => put(path`${kind}/${values[of]}/${values.limit}`, { value: values.value }) }))] : [],
    });
    return list;
  };
  const ofVhosts = set("vhost-limits", "vhost", ["max-connections", "max-queues"]);
  const ofUsers = set("user-limits", "user", ["max-connections", "max-channels"]);
  return [h("div", {}, h("h2", {}, "Virtual hosts"), ofVhosts, h("h2", {}, "Users"), ofUsers), () => Promise.all([ofVhosts.refresh(), ofUsers.refresh()])];
}

function definitions() {
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "file with definitions" });
  const take = async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    let whole;
    const isRead = await attempt("", async () => { whole = JSON.parse(await chosen.text()); });
    if (!isRead) return;
    const kinds = ["users", "vhosts", "policies", "queues", "exchanges", "bindings"];
    const text = `It has ${kinds.map((kind) => `${count(whole[kind]?.length ?? 0)} ${kind}`).join(", ")}. What is there already stays; users and policies of the same name are replaced.`;
    await confirmName("Import definitions", text, chosen.name, "Import", () => post("definitions", whole));
  };
  return h("div", {}, h("h2", {}, "Export"), h("p", {}, link("api/definitions?download=definitions.json", "definitions.json"), ": users, virtual hosts, permissions, policies, queues, exchanges and bindings; no messages."),
    h("h2", {}, "Import"), h("p", {}, file, " ", h("button", { type: "button", onclick: take }, "Import")));
}

export function adminPage() {
  const sections = [];
  const add = (key, title, list) => sections.push([key, title, list, () => list.refresh()]);
  if (isAdministrator()) add("users", "Users", users());
  add("vhosts", "Virtual hosts", vhosts());
  add("policies", "Policies", policies("policies", "Policy", isPolicymaker()));
  add("operator", "Operator policies", policies("operator-policies", "Operator policy", isAdministrator()));
  sections.push(["limits", "Limits", ...limits()]);
  if (isAdministrator()) sections.push(["definitions", "Definitions", definitions()]);
  const made = tabs(sections);
  return { node: h("div", {}, heading("Admin"), made.node), refresh: made.refresh };
}
