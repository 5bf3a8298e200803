// Overview: what the whole broker holds and does, for an hour.

import { get, isMonitor } from "../api.js";
import { chart } from "../chart.js";
import { h, link, patch } from "../dom.js";
import { facts, figures, heading, meter } from "../facts.js";
import { count, duration, octets, rate, short } from "../format.js";
import { remember, remembered } from "../preferences.js";
import { here, href, setQuery, to } from "../router.js";

const RANGES = [[300, 5, "5 minutes"], [900, 5, "15 minutes"], [3600, 10, "1 hour"]];
const LENGTHS = { messages_ready: "ready", messages_unacknowledged: "unacknowledged", messages: "all" };
const RATES = { publish: "published", confirm: "confirmed", deliver_get: "delivered", ack: "acknowledged", redeliver: "redelivered", drop_unroutable: "unroutable" };
const CHURN = [["connection", "Connections"], ["channel", "Channels"], ["queue", "Queues"]];

const chosenRange = () => Number(here().query.range ?? remembered("range", 300));

export function overviewPage() {
  const queued = chart();
  const rates = chart();
  const totals = h("section");
  const nodes = h("section");
  const below = h("section", { class: "columns" });
  const range = h("select", { "aria-label": "time shown", onchange: () => { remember("range", Number(range.value)); setQuery({ range: range.value }); refresh(); } },
    RANGES.map(([seconds, , title]) => h("option", { value: seconds, selected: seconds === chosenRange() }, title)));
  const title = h("span", { class: "quiet" });
  const node = h("div", {}, heading("Overview", title, h("span", { class: "gap" }), range), totals,
    h("section", { class: "charts" }, queued, rates), nodes, below);

  async function refresh() {
    range.value = chosenRange();
    const [age, step] = RANGES.find(([seconds]) => seconds === chosenRange()) ?? RANGES[0];
    const [whole, members] = await Promise.all([
      get(`overview?lengths_age=${age}&lengths_incr=${step}&msg_rates_age=${age}&msg_rates_incr=${step}`),
      isMonitor() ? get("nodes?page=1&page_size=50") : { items: [] },
    ]);
    title.textContent = `${whole.product_name} ${whole.product_version}`;
    const { object_totals: objects, queue_totals: queue, message_stats: stats } = whole;
    patch(totals, figures([
      ["messages", short(queue.messages ?? 0), href(["queues"], { sort: "messages", sort_reverse: "true" })],
      ["published", rate(stats.publish_details?.rate ?? 0)], ["delivered", rate(stats.deliver_get_details?.rate ?? 0)],
      ["queues", count(objects.queues), href(["queues"])], ["exchanges", count(objects.exchanges), href(["exchanges"])],
      ["connections", count(objects.connections), href(["connections"])], ["channels", count(objects.channels), href(["channels"])],
      ["consumers", count(objects.consumers), href(["consumers"])],
    ]));
    const until = Date.now();
    const ends = { from: until - age * 1000, until };
    queued.data = { title: "Queued messages", format: short, ...ends, ...levels(queue, LENGTHS) };
    rates.data = { title: "Message rates", format: (value) => `${short(value)}/s`, ...ends, ...perSecond(stats, RATES) };
    patch(nodes, members.items.length ? [h("h2", {}, "Nodes"), nodeTable(members.items)] : null);
    patch(below, churn(whole.churn_rates), listeners(whole.listeners), about(whole));
  }
  return { node, refresh };
}

function samplesOf(object, name) {
  return [...(object[`${name}_details`]?.samples ?? [])].reverse();
}

function levels(object, names) {
  const times = samplesOf(object, Object.keys(names)[0]).map((each) => each.timestamp);
  return { times, series: Object.entries(names).map(([name, label]) => ({ name: label, values: samplesOf(object, name).map((each) => each.sample) })) };
}

// Samples are counters: what is drawn is their change in a second.
function perSecond(object, names) {
  const times = samplesOf(object, Object.keys(names)[0]).map((each) => each.timestamp);
  const series = Object.entries(names).map(([name, label]) => {
    const samples = samplesOf(object, name);
    const values = samples.slice(1).map((each, index) =>
      Math.max(0, (each.sample - samples[index].sample) * 1000 / Math.max(1, each.timestamp - samples[index].timestamp)));
    return { name: label, values };
  });
  return { times: times.slice(1), series };
}

export function nodeTable(nodes) {
  return h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, ["Name", "Uptime", "Memory", "Disk free", "Descriptors", "State"].map((title) => h("th", {}, title)))),
    h("tbody", {}, nodes.map((each) => h("tr", {}, h("td", {}, link(to.node(each.name), each.name)), each.running && each.uptime !== undefined && each.os_pid ? [
      h("td", {}, duration(each.uptime)), h("td", {}, meter(each.mem_used, each.mem_limit, `${octets(each.mem_used)} of ${octets(each.mem_limit)}`)),
      h("td", {}, octets(each.disk_free)), h("td", {}, meter(each.fd_used, each.fd_total, `${count(each.fd_used)} of ${count(each.fd_total)}`)),
    ] : [0, 1, 2, 3].map(() => h("td", { class: "quiet" }, "–")), h("td", {}, nodeState(each)))))));
}

export function nodeState(node) {
  if (!node.running) return h("span", { class: "badge bad" }, "down");
  if (node.mem_alarm || node.disk_free_alarm) return h("span", { class: "badge bad" }, node.mem_alarm ? "memory alarm" : "disk alarm");
  return node.being_drained ? h("span", { class: "badge warn" }, "drained") : h("span", { class: "badge good" }, "running");
}

function churn(rates) {
  const line = (key, title) => {
    const [came, went] = key === "queue" ? ["created", "deleted"] : ["created", "closed"];
    return [title, `${count(rates[`${key}_${came}`])} ${came}, ${count(rates[`${key}_${went}`])} ${went} (${rate(rates[`${key}_${came}_details`]?.rate ?? 0)})`];
  };
  return h("section", {}, h("h2", {}, "In all"), facts([...CHURN.map((pair) => line(...pair)), ["Declarations of queues", count(rates.queue_declared)]]));
}

function listeners(all) {
  if (!all.length) return null;
  return h("section", {}, h("h2", {}, "Listeners"), facts(all.map((each) => [each.protocol, `${each.ip_address}:${each.port}${each.tls ? " TLS" : ""}`])));
}

function about(whole) {
  return h("section", {}, h("h2", {}, "About"), facts([["Cluster", whole.cluster_name], ["Node", whole.node], ["API level", whole.rabbitmq_version],
    ["Runs on", whole.erlang_full_version], ["Default queue type", whole.default_queue_type]]));
}
