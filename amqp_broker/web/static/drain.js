// Before a node is stopped: what stands against it, and its being drained and revived.

import { get, isAdministrator, path, post } from "./api.js";
import { attempt, formDialog } from "./dialog.js";
import { badge, h, link, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count } from "./format.js";
import { to } from "./router.js";

const MOST_NAMED = 20;

function standing(guard) {
  const queues = guard.critical_queues;
  return [facts([["It can be stopped", guard.is_safe ? badge("yes", "good") : badge("not yet", "bad")],
    ["Groups that would lose their majority", count(guard.critical_groups.length)], ["Entries that a member lacks which is needed then", count(guard.lag)], ["Groups without a leader now", count(guard.leaderless_groups?.length ?? 0)],
    ["Groups that it leads", count(guard.leads)], ["Connections of clients", count(guard.connections)], ["Durable classic queues that are away with it", count(guard.classic_queues)], ["Quorum queues and streams that have no other copy", count(guard.only_copies ?? 0)]]),
  queues.length ? h("p", { class: "hint" }, "These queues would stand still: ", queues.slice(0, MOST_NAMED).map((each, index) => [index ? ", " : "", link(to.queue(each), each.name)]),
    queues.length > MOST_NAMED ? ` and ${count(queues.length - MOST_NAMED)} more` : "", ".") : null,
  ...[["silent_workers", "Workers that do not answer, whose clients and groups are not known: "], ["workers_in_service", "Workers that are in service, because they have started again since: drain it once more, or revive it: "]]
    .map(([field, text]) => guard[field]?.length ? h("p", { class: "hint" }, text, guard[field].join(", "), ".") : null)];
}

export function drainPart(name) {
  const where = path`v1/nodes/${name}`;
  const state = h("div", { id: "guard" });
  const buttons = h("p");
  const drain = async () => {
    const guard = await attempt("", () => get(`${where}/guard`));
    if (!guard) return;
    const note = h("div", { class: "preview" }, h("p", {}, `Probes say that it is not ready, clients are not let in any more, other members lead its ${count(guard.leads)} groups, and its ${count(guard.connections)} connections are closed. Nothing of it outlives a restart.`), standing(guard));
    const done = await formDialog(`Drain ${name}`, [{ name: "pace", label: "Connections closed in a second (empty: as the setting says)", type: "number" }], {
      submit: "Drain", isDanger: true, note, run: ({ pace }) => post(`${where}/drain`, pace === null ? {} : { pace }),
    });
    if (done) refresh();
  };
  const revive = () => attempt("It takes clients again.", () => post(`${where}/revive`)).then(refresh);
  const one = (id, title, isDanger, run) => h("button", { type: "button", id, class: isDanger ? "danger" : null, onclick: run }, title);
  const draining = one("drain", "Drain", true, drain);
  const reviving = one("revive", "Revive", false, revive);

  async function refresh() {
    let guard;
    try {
      guard = await get(`${where}/guard`);
    } catch (error) {
      patch(state, h("p", { class: "message" }, error.message));
      return;
    }
    patch(state, guard.is_draining ? h("p", { class: "hint" }, "It is being drained.") : null, standing(guard));
    if (isAdministrator()) buttons.replaceChildren(guard.is_draining ? reviving : draining);
  }
  return { node: h("section", {}, h("h2", {}, "Before it is stopped"), state, buttons), refresh };
}
