// One user: tags, password, permissions, and the end.

import { get, path, put, remove } from "../api.js";
import { confirmName, formDialog } from "../dialog.js";
import { badge, h, link, patch } from "../dom.js";
import { facts, heading } from "../facts.js";
import { json } from "../format.js";
import { go, href, to } from "../router.js";
import { table } from "../table.js";
import { vhostField } from "../vhosts.js";
import { TAGS } from "./admin.js";

const regex = (name) => ({ key: name, title: name[0].toUpperCase() + name.slice(1), render: (row) => h("code", {}, row[name]) });
const fieldsOf = (names, row) => names.map((name) => ({ name, label: `${name} (regex of names)`, value: row?.[name] ?? ".*" }));

export function permissionTable(where, vhostOf, userOf) {
  const edit = async (row) => formDialog(row ? "Permission" : "Give a permission", [
    row || vhostOf ? null : await vhostField(), row || userOf ? null : { name: "user", label: "User", required: true }, ...fieldsOf(["configure", "write", "read"], row)].filter(Boolean), {
    run: ({ vhost, user, ...body }) => put(path`permissions/${row?.vhost ?? vhostOf ?? vhost}/${row?.user ?? userOf ?? user}`, body),
  });
  const end = (row) => confirmName("Take a permission away", `${row.user} may not enter ${row.vhost} any more.`, vhostOf ? row.user : row.vhost, "Take away", () => remove(path`permissions/${row.vhost}/${row.user}`));
  const list = table({
    path: () => where, filter: "Filter by user or virtual host", id: (row) => JSON.stringify([row.vhost, row.user]), empty: "No permissions.",
    columns: [vhostOf ? { key: "user", title: "User", render: (row) => link(to.user(row.user), row.user) } : { key: "vhost", title: "Virtual host", render: (row) => link(to.vhost(row.vhost), row.vhost) }, regex("configure"), regex("write"), regex("read")],
    rowActions: [{ title: "Edit", run: edit }, { title: "Take away", run: end }],
    buttons: [h("button", { type: "button", onclick: async () => { if (await edit(null)) list.refresh(); } }, "Give a permission")],
  });
  return list;
}

function topicTable(user) {
  const edit = async (row) => formDialog("Topic permission", [row ? null : await vhostField(), row ? null : { name: "exchange", label: "Exchange", required: true }, ...fieldsOf(["write", "read"], row)].filter(Boolean), {
    run: ({ vhost, ...body }) => put(path`topic-permissions/${row?.vhost ?? vhost}/${user}`, { exchange: row?.exchange, ...body }),
  });
  const list = table({
    path: () => path`users/${user}/topic-permissions`, prefix: "topics.", filter: "Filter by exchange or virtual host", id: (row) => JSON.stringify([row.vhost, row.exchange]), empty: "No topic permissions: routing keys are not looked at.",
    columns: [{ key: "vhost", title: "Virtual host", render: (row) => row.vhost }, { key: "exchange", title: "Exchange", render: (row) => row.exchange }, regex("write"), regex("read")],
    rowActions: [{ title: "Edit", run: edit }, { title: "Take away", run: (row) => confirmName("Take a topic permission away", "Routing keys are not looked at any more.", row.exchange, "Take away", () => remove(path`topic-permissions/${row.vhost}/${user}/${row.exchange}`)) }],
    buttons: [h("button", { type: "button", onclick: async () => { if (await edit(null)) list.refresh(); } }, "Add a topic permission")],
  });
  return list;
}

export function userPage(name) {
  const where = path`users/${name}`;
  const head = h("div");
  const about = h("section");
  const permissions = permissionTable(`${where}/permissions`, null, name);
  const topics = topicTable(name);
  let user = { tags: [] };
  const change = () => formDialog("Change the user", [
    { name: "tags", label: "May use these pages as", type: "select", options: TAGS.map((tag) => [tag, tag || "nobody: clients only"]), value: user.tags[0] ?? "" },
    { name: "password", label: "New password (empty: as it is)", type: "password" }], {
    note: "Sessions of this user end.",
    run: ({ tags, password }) => put(where, password ? { tags, password } : { tags, password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm }),
  }).then((done) => done && refresh());
  const end = () => confirmName("Delete the user", "Connections of this user are closed.", name, "Delete", () => remove(where)).then((done) => done && go(href(["admin"], { tab: "users" })));
  const node = h("div", {}, h("p", { class: "crumbs" }, link(href(["admin"], { tab: "users" }), "Users")), head, about, h("p", {}, h("button", { type: "button", onclick: change }, "Change tags or password")),
    h("h2", {}, "Permissions"), permissions, h("h2", {}, "Topic permissions"), topics,
    h("section", { class: "danger-zone" }, h("p", {}, h("button", { type: "button", class: "danger", onclick: end }, "Delete"), " The user and the permissions.")));

  async function refresh() {
    user = await get(where);
    patch(head, heading(name, user.tags.map((tag) => badge(tag))));
    patch(about, facts([["Password", user.password_hash ? user.hashing_algorithm : "none: cannot log in by one"], ["Limits", json(user.limits)]]));
    await Promise.all([permissions.refresh(), topics.refresh()]);
  }
  return { node, refresh };
}
