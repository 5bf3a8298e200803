// The cluster: its members, its health, its name.

import { get, isAdministrator, isMonitor, put } from "../api.js";
import { formDialog } from "../dialog.js";
import { badge, h, patch } from "../dom.js";
import { facts, heading } from "../facts.js";
import { nodeTable } from "./overview.js";

const CHECKS = [["alarms", "No alarm in the cluster"], ["virtual-hosts", "Virtual hosts are there"], ["node-is-quorum-critical", "This node may stop"],
  ["quorum-queues-without-elected-leaders/all-vhosts", "Quorum queues have leaders"], ["is-in-service", "In service"], ["ready-to-serve-clients", "Serves clients"]];

export function clusterPage() {
  const head = h("div");
  const nodes = h("section");
  const health = h("section");
  const rename = async () => {
    const { name } = await get("cluster-name");
    if (await formDialog("Name of the cluster", [{ name: "name", label: "Name", value: name, required: true }], { run: (values) => put("cluster-name", values) })) refresh();
  };
  const buttons = isAdministrator() ? h("button", { type: "button", onclick: rename }, "Rename") : null;

  async function check(name) {
    try {
      await get(`health/checks/${name}`);
      return badge("ok", "good");
    } catch (error) {
      return h("span", {}, badge("failed", "bad"), " ", error.message);
    }
  }

  async function refresh() {
    const [{ name }, members, ...checks] = await Promise.all([get("cluster-name"), isMonitor() ? get("nodes?page=1&page_size=100") : { items: [] }, ...CHECKS.map(([each]) => check(each))]);
    patch(head, heading("Cluster", h("span", { class: "quiet" }, name), h("span", { class: "gap" })));
    patch(nodes, members.items.length ? nodeTable(members.items) : h("p", { class: "message" }, "Nodes are shown to users with the tag monitoring."));
    patch(health, h("h2", {}, "Health"), facts(CHECKS.map(([, title], index) => [title, checks[index]])));
  }
  return { node: h("div", {}, head, nodes, buttons, health), refresh };
}
