// One virtual host: what it holds, who may enter it, and its end.

import { get, isAdministrator, path, put, remove } from "../api.js";
import { confirmName, formDialog } from "../dialog.js";
import { h, link, patch } from "../dom.js";
import { facts, figures, heading } from "../facts.js";
import { count, json } from "../format.js";
import { go, href } from "../router.js";
import { permissionTable } from "./user.js";

export function vhostPage(name) {
  const where = path`vhosts/${name}`;
  const head = h("div");
  const permissions = isAdministrator() ? permissionTable(`${where}/permissions`, name, null) : null;
  let vhost = {};
  const change = () => formDialog("Change the virtual host", [{ name: "description", label: "Description", value: vhost.description },
    { name: "default_queue_type", label: "Queues are", type: "select", options: ["classic", "quorum", "stream"], value: vhost.default_queue_type }], { run: (values) => put(where, values) }).then((done) => done && refresh());
  const end = () => confirmName("Delete the virtual host", `${count(vhost.queues)} queues with ${count(vhost.messages)} messages are gone, ${count(vhost.connections)} connections are closed.`, name, "Delete", () => remove(where))
    .then((done) => done && go(href(["admin"], { tab: "vhosts" })));
  const node = h("div", {}, h("p", { class: "crumbs" }, link(href(["admin"], { tab: "vhosts" }), "Virtual hosts")), head,
    permissions ? [h("p", {}, h("button", { type: "button", onclick: change }, "Change")), h("h2", {}, "Permissions"), permissions,
      h("section", { class: "danger-zone" }, h("p", {}, h("button", { type: "button", class: "danger", onclick: end }, "Delete"), " The virtual host and all that is in it."))] : null);

  async function refresh() {
    vhost = await get(where);
    patch(head, heading(name), figures([["messages", count(vhost.messages)], ["queues", count(vhost.queues), href(["queues"], { vhost: name })], ["exchanges", count(vhost.exchanges), href(["exchanges"], { vhost: name })],
      ["connections", count(vhost.connections), href(["connections"], { vhost: name })]]), facts([["Description", vhost.description], ["Default queue type", vhost.default_queue_type], ["Tags", vhost.tags?.join(", ")], ["Limits", json(vhost.limits)]]));
    await permissions?.refresh();
  }
  return { node, refresh };
}
