// One node: what it uses of its machine.

import { get, path } from "../api.js";
import { chart } from "../chart.js";
import { h, patch } from "../dom.js";
import { drainPart } from "../drain.js";
import { crumbs, facts, heading, meter } from "../facts.js";
import { count, duration, octets } from "../format.js";
import { recordPoint, recorded } from "../history.js";
import { nodeState } from "./overview.js";

export function nodePage(name) {
  const where = path`nodes/${name}`;
  const head = h("div");
  const about = h("section");
  const memory = chart();
  const descriptors = chart();
  const draining = drainPart(name);
  const workers = h("section", { id: "workers" });

  async function refresh() {
    const found = await get(`${where}?memory=true`);
    patch(head, crumbs("Cluster", "cluster"), heading(name, nodeState(found)));
    if (found.running) await draining.refresh();
    if (!found.running || !found.os_pid) {
      patch(about, h("p", { class: "message" }, found.running ? "Ask that node itself for more: each knows its own machine." : "This node does not run."));
      return;
    }
    patch(workers, workersTable(await get("v1/workers")));
    recordPoint(where, { used: found.mem_used, fd: found.fd_used, sockets: found.sockets_used });
    memory.data = recorded(where, "Memory", { used: "resident" }, octets);
    descriptors.data = recorded(where, "Descriptors", { fd: "all", sockets: "sockets" }, count);
    const classes = Object.entries(found.memory ?? {}).filter(([, value]) => typeof value === "number" && value > 0);
    patch(about, h("h2", {}, "Machine"), facts([["Uptime", duration(found.uptime)], ["Process", found.os_pid], ["Processors", count(found.processors)],
      ["Memory", meter(found.mem_used, found.mem_limit, `${octets(found.mem_used)} of ${octets(found.mem_limit)}`)],
      ["Disk free", `${octets(found.disk_free)}, alarm below ${octets(found.disk_free_limit)}`], ["Descriptors", meter(found.fd_used, found.fd_total, `${count(found.fd_used)} of ${count(found.fd_total)}`)],
      ["Threads", count(found.proc_used)], ["Data in", found.db_dir], ["Configuration", found.config_files?.join(", ") || "none"], ["Runs on", found.erlang_full_version]]),
    classes.length ? [h("h2", {}, "Memory"), facts(classes.map(([key, value]) => [key.replaceAll("_", " "), octets(value)]))] : null,
    h("h2", {}, "Logins"), facts(found.auth_mechanisms?.map((each) => [each.name, each.description]) ?? []));
  }
  return { node: h("div", {}, head, h("section", { class: "charts" }, memory, descriptors), about, workers, draining.node), refresh };
}

// What a node that is several processes counts in each; a hop is a command to a queue that lives at another one.
const WORKER_COLUMNS = [["connections", "Connections"], ["channels", "Channels"], ["consumers", "Consumers"], ["queues", "Queues"], ["messages", "Messages"],
  ["hops_out", "Hops out"], ["hops_in", "Hops in"], ["connections_moved", "Clients that moved here"]];

function workersTable(workers) {
  if (!workers.length) return null;
  const cell = (each, key) => h("td", { class: "number" }, each.running ? count(each[key]) : "");
  return [h("h2", {}, "Workers"), h("div", { class: "frame" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Worker"), WORKER_COLUMNS.map(([, title]) => h("th", { class: "number" }, title)))),
    h("tbody", {}, workers.map((each) => h("tr", {}, h("td", {}, each.name, each.running ? "" : " does not answer"),
      WORKER_COLUMNS.map(([key]) => cell(each, key)))))))];
}
