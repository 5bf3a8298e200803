// One queue: what it holds and does, its messages, consumers and bindings, how it is configured, and its end.

import { get, isAdministrator, mayChange, path, remove } from "../api.js";
import { bindingTable } from "../bindings.js";
import { chart } from "../chart.js";
import { attempt, confirmName } from "../dialog.js";
import { badge, h, link, patch } from "../dom.js";
import { crumbs, facts, figures, heading, tabs } from "../facts.js";
import { count, duration, json, octets, rate, short, time } from "../format.js";
import { recordPoint, recorded } from "../history.js";
import { homePart } from "../homes.js";
import { publishForm, getForm } from "../messages.js";
import { moveForm } from "../moving.js";
import { peekForm } from "../peek.js";
import { quorumPart } from "../quorum.js";
import { go, href, to } from "../router.js";
import { streamPart } from "../stream.js";
import { queueType } from "../types.js";
import { stateBadge } from "./queues.js";

const LENGTHS = { messages_ready: "ready", messages_unacknowledged: "unacknowledged", messages: "all" };
const RATES = { publish: "published", deliver_get: "delivered", ack: "acknowledged", redeliver: "redelivered" };

export function queuePage(vhost, name) {
  const where = path`queues/${vhost}/${name}`;
  const head = h("div");
  const parts = { figures: h("section"), queued: chart(), rates: chart(), facts: h("section"), consumers: h("section"), configuration: h("section"), danger: h("section") };
  const bindings = bindingTable(`${where}/bindings`, { vhost, isWith: "destination", add: { name, kind: "queue" } });
  const overview = h("div", {}, parts.figures, h("section", { class: "charts" }, parts.queued, parts.rates), parts.facts);
  const peek = peekForm(vhost, name);
  const messages = h("div", { class: "columns" }, peek, moveForm(vhost, name), publishForm(vhost, "", name), getForm(vhost, name));
  const home = isAdministrator() ? homePart(vhost, name) : null;
  const danger = dangerPart(where, name, home);
  const quorum = quorumPart(vhost, name);
  const stream = streamPart(vhost, name, mayChange());
  const offsets = h("div", {}, h("p", { class: "message" }, "A queue of this type has no offsets."));
  let isQuorum = false;
  let isStream = false;
  const group = h("div", {}, h("p", { class: "message" }, "A queue of this type is on one node only."));
  const sections = tabs([
    ["overview", "Overview", overview], ...mayChange() ? [["messages", "Messages", messages, () => peek.refresh()]] : [], ["consumers", "Consumers", parts.consumers],
    ["bindings", "Bindings", bindings, () => bindings.refresh()], ["configuration", "Configuration", parts.configuration], ["quorum", "Replicas", group, () => isQuorum ? quorum.refresh() : null],
    ["stream", "Stream", offsets, () => isStream ? stream.refresh() : null], ...mayChange() ? [["danger", "Danger", danger.node, () => danger.refresh()]] : [],
  ]);

  async function refresh() {
    const queue = await get(where);
    const type = await queueType(queue.type);
    patch(head, crumbs("Queues", "queues", " in ", link(href(["queues"], { vhost }), vhost)), heading(name, badge(queue.type), stateBadge(queue.state)));
    showOverview(parts, queue, where);
    patch(parts.consumers, consumerTable(queue.consumer_details ?? []));
    danger.show(queue, type.has_home);
    isQuorum = Boolean(queue.members);
    isStream = type.has_offsets;
    if (isStream && !stream.node.isConnected) offsets.replaceChildren(stream.node);
    if (isQuorum && !quorum.node.isConnected) group.replaceChildren(quorum.node);
    await sections.refresh();
    if (parts.configuration.isConnected) patch(parts.configuration, await configuration(queue));
  }
  return { node: h("div", {}, head, sections.node), refresh };
}

function showOverview(parts, queue, key) {
  const stats = queue.message_stats ?? {};
  const perSecond = Object.fromEntries(Object.keys(RATES).map((each) => [each, stats[`${each}_details`]?.rate ?? 0]));
  recordPoint(key, { ...Object.fromEntries(Object.keys(LENGTHS).map((each) => [each, queue[each]])), ...perSecond });
  patch(parts.figures, figures([
    ["ready", count(queue.messages_ready)], ["unacknowledged", count(queue.messages_unacknowledged)], ["in", rate(perSecond.publish)],
    ["out", rate(perSecond.deliver_get)], ["acknowledged", rate(perSecond.ack)], ["consumers", count(queue.consumers)],
  ]));
  parts.queued.data = recorded(key, "Messages", LENGTHS, short);
  parts.rates.data = recorded(key, "Rates", RATES, (value) => `${short(value)}/s`);
  patch(parts.facts, hints(queue), h("h2", {}, "Details"), facts([
    ["Node", queue.node], ["Offsets", queue.next_offset === undefined ? undefined : `${queue.first_offset} to ${queue.next_offset}`], ["Oldest message", queue.oldest_message_age_ms === undefined ? undefined : duration(queue.oldest_message_age_ms)],
    ["Longest unacknowledged", queue.oldest_unacked_age_ms === undefined ? undefined : duration(queue.oldest_unacked_age_ms)],
    ["Octets", octets(queue.message_bytes)], ["Memory", queue.memory ? octets(queue.memory) : undefined], ["Idle since", queue.idle_since],
    ["Leader", queue.leader], ["Members", queue.members?.join(", ")], ["Online", queue.online?.join(", ")],
    ["Published in all", count(stats.publish)], ["Delivered in all", count(stats.deliver_get)], ["Acknowledged in all", count(stats.ack)],
    ["Expired", count(queue.expired)], ["Rejected", count(queue.rejected)], ["Dropped at the limit", count(queue.maxlen_dropped)],
    ["Owner", queue.owner_pid_details?.name ? link(to.connection(queue.owner_pid_details.name), queue.owner_pid_details.name) : undefined],
    ["First message", queue.head_message_timestamp ? time(queue.head_message_timestamp * 1000) : undefined],
  ]));
}

// What somebody who looks at this queue wants to be told.
function hints(queue) {
  const { hints: said = [], eta_ms: eta } = queue.amqp_broker ?? {};
  const when = typeof eta === "number" && eta > 0 ? [`At this pace it is empty in ${duration(eta)}.`] : [];
  return [...said, ...when].map((text) => h("p", { class: "hint" }, text));
}

export function consumerTable(consumers) {
  if (!consumers.length) return h("p", { class: "message" }, "No consumers.");
  return h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, ["Tag", "Queue", "Channel", "User", "Prefetch", "Ack", "State", "Arguments"].map((title) => h("th", {}, title)))),
    h("tbody", {}, consumers.slice(0, 500).map((each) => h("tr", {}, h("td", { class: "wide" }, each.consumer_tag), h("td", {}, link(to.queue(each.queue), each.queue.name)),
      h("td", {}, link(to.channel(each.channel_details.name), each.channel_details.name)), h("td", {}, each.channel_details.user), h("td", { class: "number" }, each.prefetch_count || "∞"),
      h("td", {}, each.ack_required ? "manual" : "automatic"), h("td", {}, [each.activity_status, each.exclusive ? badge("exclusive") : null]), h("td", {}, json(each.arguments)))))));
}

// What was asked for, what policies add, and what is in force.
async function configuration(queue) {
  const find = async (kind, name) => name ? (await get(path`${kind}/${queue.vhost}/${name}`).catch(() => null))?.definition ?? {} : {};
  const [policy, operator] = await Promise.all([find("policies", queue.policy), find("operator-policies", queue.operator_policy)]);
  const given = Object.fromEntries(Object.entries(queue.arguments ?? {}).map(([key, value]) => [key.replace(/^x-/, ""), value]));
  const keys = [...new Set([...Object.keys(given), ...Object.keys(policy), ...Object.keys(operator)])].sort();
  const smaller = (values) => values.every((each) => typeof each === "number") ? Math.min(...values) : values[0];
  const row = (key) => {
    const present = [given[key], operator[key], policy[key]].filter((each) => each !== undefined);
    return h("tr", {}, h("th", { scope: "row" }, key), [given, policy, operator].map((each) => h("td", {}, each[key] === undefined ? "–" : JSON.stringify(each[key]))),
      h("td", {}, h("b", {}, JSON.stringify(smaller(present)))));
  };
  return [facts([["Type", queue.type], ["Durable", queue.durable ? "yes" : "no"], ["Auto-delete", queue.auto_delete ? "yes" : "no"], ["Exclusive", queue.exclusive ? "yes" : "no"],
    ["Policy", queue.policy || "none"], ["Operator policy", queue.operator_policy || "none"]]),
  keys.length ? h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "Argument", `Policy ${queue.policy ?? ""}`, `Operator policy ${queue.operator_policy ?? ""}`, "In force"].map((title) => h("th", {}, title)))),
    h("tbody", {}, keys.map(row)))) : h("p", { class: "message" }, "No arguments, and no policy fits.")];
}

// home: of who may change it.
function dangerPart(where, name, home) {
  let queue = {};
  let hasHome = false;
  const purge = () => confirmName("Purge the queue", `${count(queue.messages_ready)} messages that are ready are thrown away.`, name, "Purge", () => remove(`${where}/contents`))
    .then((done) => done && attempt("Purged.", () => document.dispatchEvent(new CustomEvent("refresh"))));
  const end = () => confirmName("Delete the queue", `It is gone with ${count(queue.messages)} messages; ${count(queue.consumers)} consumers are cancelled.`, name, "Delete", () => remove(where))
    .then((done) => done && go(href(["queues"])));
  const node = h("section", { class: "danger-zone" },
    h("p", {}, h("button", { type: "button", class: "danger", id: "purge", onclick: purge }, "Purge"), " Throw away the messages that are ready."),
    h("p", {}, h("button", { type: "button", class: "danger", id: "delete", onclick: end }, "Delete"), " The queue, its messages and its bindings."));
  // mayMove: whether a queue of its type has a home.
  const show = (found, mayMove) => {
    queue = found;
    hasHome = Boolean(home && mayMove);
    if (hasHome && !node.contains(home.node)) node.prepend(home.node);
  };
  return { node, show, refresh: () => hasHome ? home.refresh() : null };
}
