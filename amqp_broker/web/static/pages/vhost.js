// One virtual host: what it holds, who may enter it, and its end.

import { get, isAdministrator, path, post, put, remove } from "../api.js";
import { attempt, confirmName, formDialog } from "../dialog.js";
import { badge, h, link, patch } from "../dom.js";
import { facts, figures, heading } from "../facts.js";
import { count, json } from "../format.js";
import { go, href } from "../router.js";
import { typeField } from "../types.js";
import { permissionTable } from "./user.js";

export function vhostPage(name) {
  const where = path`vhosts/${name}`;
  const head = h("div");
  const permissions = isAdministrator() ? permissionTable(`${where}/permissions`, name, null) : null;
  let vhost = {};
  const change = async () => {
    const fields = [{ name: "description", label: "Description", value: vhost.description }, await typeField(vhost.default_queue_type)];
    if (await formDialog("Change the virtual host", fields, { run: (values) => put(where, values) })) await refresh();
  };
  const end = () => confirmName("Delete the virtual host", `${count(vhost.queues)} queues with ${count(vhost.messages)} messages are gone, ${count(vhost.connections)} connections are closed.`, name, "Delete", () => remove(where))
    .then((done) => done && go(href(["admin"], { tab: "vhosts" })));
  const protect = () => vhost.protected_from_deletion ? attempt("It may be deleted again.", () => remove(`${where}/deletion/protection`)) : attempt("Protected.", () => post(`${where}/deletion/protection`));
  const guardian = h("button", { type: "button", id: "protect", onclick: () => protect().then(refresh) });
  const deletion = h("button", { type: "button", class: "danger", id: "delete", onclick: end }, "Delete");
  const node = h("div", {}, h("p", { class: "crumbs" }, link(href(["admin"], { tab: "vhosts" }), "Virtual hosts")), head,
    permissions ? [h("p", {}, h("button", { type: "button", onclick: change }, "Change")), h("h2", {}, "Permissions"), permissions,
      h("section", { class: "danger-zone" }, h("p", {}, guardian, " A protected one is not deleted, whoever asks."), h("p", {}, deletion, " The virtual host and all that is in it."))] : null);

  async function refresh() {
    vhost = await get(where);
    guardian.textContent = vhost.protected_from_deletion ? "Protect no more" : "Protect from deletion";
    deletion.disabled = vhost.protected_from_deletion;
    patch(head, heading(name, vhost.protected_from_deletion ? badge("protected", "good") : null), figures([["messages", count(vhost.messages)], ["queues", count(vhost.queues), href(["queues"], { vhost: name })], ["exchanges", count(vhost.exchanges), href(["exchanges"], { vhost: name })],
      ["connections", count(vhost.connections), href(["connections"], { vhost: name })]]), facts([["Description", vhost.description], ["Default queue type", vhost.default_queue_type], ["Tags", vhost.tags?.join(", ")], ["Limits", json(vhost.limits)]]));
    await permissions?.refresh();
  }
  return { node, refresh };
}
