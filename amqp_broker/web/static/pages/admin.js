// Administration: users, virtual hosts, policies, limits, definitions.

import { isAdministrator, isPolicymaker, path, post, put, remove } from "../api.js";
import { confirmName, formDialog, preview } from "../dialog.js";
import { badge, h, link } from "../dom.js";
import { heading, tabs } from "../facts.js";
import { count, json } from "../format.js";
import { definitionsPart } from "../importing.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { proposals, queueTypes, typeField } from "../types.js";
import { listPath, vhostField } from "../vhosts.js";

export const TAGS = ["", "viewer", "management", "policymaker", "monitoring", "administrator"];
const OF_EXCHANGES = [{ name: "alternate-exchange", example: "" }];

function adder(title, list, run) {
  return h("button", { type: "button", onclick: async () => { if (await run()) list().refresh(); } }, title);
}

function users() {
  const list = table({
    name: "users", path: () => "users", id: (row) => row.name, href: (row) => to.user(row.name),
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
    name: "vhosts", path: () => "vhosts", id: (row) => row.name, href: (row) => to.vhost(row.name),
    columns: [{ key: "name", title: "Name", isWide: true, render: (row) => [link(to.vhost(row.name), row.name), " ", row.protected_from_deletion ? badge("protected", "good") : null] }, { key: "description", title: "Description", render: (row) => row.description },
      number("queues", "Queues"), number("connections", "Connections"), number("messages", "Messages"), { key: "default_queue_type", title: "Queue type", render: (row) => row.default_queue_type }],
    buttons: isAdministrator() ? [adder("Add a virtual host", () => list, async () => formDialog("Add a virtual host", [{ name: "name", label: "Name", required: true }, { name: "description", label: "Description" },
      await typeField()], { submit: "Add", run: ({ name, ...body }) => put(path`vhosts/${name}`, body) }))] : [],
  });
  return list;
}

// What a policy would match, and to how much of that it would apply.
async function foresee(policy) {
  const { queues, exchanges, notes } = await post("v1/policies/preview", policy);
  const names = [...queues.names.map((name) => ["queue", name]), ...exchanges.names.map((name) => ["exchange", name])];
  const tell = (found, what) => `${count(found.matched)} ${what} match, it would apply to ${count(found.applied)}`;
  return h("div", {}, h("p", {}, `${tell(queues, "queues")}; ${tell(exchanges, "exchanges")}. Where it does not apply, a stronger one does.`), notes.map((text) => h("p", { class: "hint" }, text)), preview(["What", "Name"], names));
}

function policies(kind, title, isAllowed) {
  const operator = kind === "operator-policies";
  const edit = async (row) => {
    const { types } = await queueTypes();
    const kinds = types.map((each) => each.policy_kind);
    const keys = (values) => {
      const of = values["apply-to"];
      const meant = types.filter((each) => ["all", "queues", each.policy_kind].includes(of)).flatMap((each) => each.policy_keys);
      return proposals(operator ? meant.filter((each) => each.for_operators) : ["all", "exchanges"].includes(of) ? [...meant, ...OF_EXCHANGES] : meant);
    };
    const fields = [row ? null : await vhostField(), row ? null : { name: "name", label: "Name", required: true },
      { name: "pattern", label: "Pattern of names", value: row?.pattern ?? "^", required: true },
      { name: "apply-to", label: "Applies to", type: "select", options: operator ? ["queues", ...kinds] : ["all", "queues", ...kinds, "exchanges"], value: row?.["apply-to"] },
      { name: "priority", label: "Priority: the highest that fits is taken", type: "number", value: row?.priority ?? 0 },
      { name: "definition", label: "Definition (JSON)", type: "json", keys, value: row ? JSON.stringify(row.definition, null, 1) : "" }].filter(Boolean);
    return formDialog(row ? `${title} ${row.name}` : `Add: ${title}`, fields, {
      run: ({ vhost, name, ...body }) => put(path`${kind}/${vhost ?? row.vhost}/${name ?? row.name}`, body),
      preview: ({ vhost, name, ...body }) => foresee({ vhost: row?.vhost ?? vhost, name: row?.name ?? name, ...body, operator }),
    });
  };
  const end = async (row) => {
    const { queues, exchanges } = await post("v1/policies/preview", { ...row, operator });
    return confirmName(`Remove: ${title}`, `What it set is set no more, for ${count(queues.applied)} queues and ${count(exchanges.applied)} exchanges.`, row.name, "Remove", () => remove(path`${kind}/${row.vhost}/${row.name}`));
  };
  const list = table({
    name: kind, path: () => listPath(kind), empty: "None.",
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
      path: () => kind, prefix: of === "user" ? "user." : "", filter: `Filter by ${of === "vhost" ? "virtual host" : "user"}`, id: (row) => row[of], empty: "No limits.",
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

export function adminPage() {
  const sections = [];
  const add = (key, title, list) => sections.push([key, title, list, () => list.refresh()]);
  if (isAdministrator()) add("users", "Users", users());
  add("vhosts", "Virtual hosts", vhosts());
  add("policies", "Policies", policies("policies", "Policy", isPolicymaker()));
  add("operator", "Operator policies", policies("operator-policies", "Operator policy", isAdministrator()));
  sections.push(["limits", "Limits", ...limits()]);
  if (isAdministrator()) sections.push(["definitions", "Definitions", definitionsPart()]);
  const made = tabs(sections);
  return { node: h("div", {}, heading("Admin"), made.node), refresh: made.refresh };
}
