// Where messages are: those that went to no queue, copies of what goes by, and what happens to them.

import { get, isAdministrator, mayChange, path, post, query, remove } from "../api.js";
import { attempt, inlineForm, onceButton } from "../dialog.js";
import { h, lines, link, patch } from "../dom.js";
import { heading, tabs } from "../facts.js";
import { count, octets, time } from "../format.js";
import { told } from "../moving.js";
import { to } from "../router.js";
import { table } from "../table.js";
import { chosenVhost } from "../vhosts.js";

const MOST_SHOWN = 200;
const FIELDS = [
  { name: "exchange", label: "Exchange" }, { name: "routing_key", label: "Routing key (pattern, as of topic exchanges)" },
  { name: "queue", label: "Queue" }, { name: "message_id", label: "Message id" }, { name: "correlation_id", label: "Correlation id" },
];
const vhost = () => chosenVhost() || "/";
const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== null));

function unroutable() {
  return table({
    path: () => `v1/unroutable${query({ vhost: chosenVhost() })}`, filter: false, id: (row) => `${row.node}\0${row.number}`, empty: "No message went to no queue.",
    columns: [
      { key: "at", title: "When", render: (row) => time(row.at) }, { key: "vhost", title: "Virtual host", isForRoom: true, render: (row) => row.vhost },
      { key: "exchange", title: "Exchange", render: (row) => link(to.exchange({ vhost: row.vhost, name: row.exchange }), row.exchange || "(default)") },
      { key: "routing_key", title: "Routing key", isWide: true, render: (row) => h("code", {}, row.routing_key) },
      { key: "mandatory", title: "Then", render: (row) => row.mandatory ? "returned" : "dropped" }, { key: "user", title: "User", isForRoom: true, render: (row) => row.user },
      { key: "connection", title: "Connection", isWide: true, render: (row) => link(to.connection(row.connection), row.connection) },
    ],
  });
}

function tail() {
  const output = h("div", { class: "output", id: "copies" });
  const said = h("p", { class: "quiet", role: "status" }, "Not begun.");
  let source = null;
  const stop = (text) => { source?.close(); source = null; said.textContent = text; };
  const begin = async ({ routing_key: key, ...values }) => {
    stop("");
    output.replaceChildren();
    const asked = query({ vhost: vhost(), ...given({ ...values, key }) });
    source = new EventSource(`api/v1/tail${asked}`);
    const own = source;
    source.onmessage = null;
    source.addEventListener("message", ({ data }) => {
      if (!output.isConnected) { stop("Ended."); return; }
      output.prepend(copy(JSON.parse(data)));
      while (output.childNodes.length > MOST_SHOWN) output.lastChild.remove();
    });
    source.addEventListener("left_out", ({ data }) => { said.textContent = `${count(JSON.parse(data).left_out)} were not copied.`; });
    source.addEventListener("end", ({ data }) => stop(`Ended: ${JSON.parse(data).reason ?? ""}`));
    source.onopen = () => { if (own === source) said.textContent = `Messages of ${vhost()}, the newest first.`; };
    source.onerror = () => { if (own === source) stop("Ended: the server does not send any more."); };
    // Who leaves the page wants no more of it.
    addEventListener("hashchange", () => { if (!output.isConnected && own === source) stop("Ended."); });
    return null;
  };
  return h("div", {}, inlineForm("Copies of messages as they are published. Where they go is as without it.", FIELDS, "Begin", begin),
    h("p", {}, h("button", { type: "button", id: "stop", onclick: () => stop("Ended.") }, "Stop")), said, output);
}

function copy(event) {
  return h("article", { class: "message-card" },
    h("header", {}, time(event.at), " ", h("b", {}, event.exchange || "(default exchange)"), " → ", h("b", {}, event.routing_key), h("span", { class: "quiet" }, ` ${octets(event.body_size)}, to ${event.queues.length ? event.queues.join(", ") : "no queue"}`)),
    h("pre", { class: "payload" }, event.payload));
}

function traces() {
  const list = h("section");
  const shown = h("section", { id: "events" });
  let chosen = null;
  const begin = async ({ seconds, ...values }) => {
    chosen = (await post("v1/traces", { vhost: vhost(), ...given(values), seconds: seconds ?? 600 })).id;
    await refresh();
    return null;
  };
  const end = (id) => attempt("Ended.", () => remove(path`v1/traces/${id}`)).then(refresh);
  async function refresh() {
    const open = (await get("v1/traces")).filter((each) => each.kind === "trace");
    list.replaceChildren(...(open.length ? [lines(["Virtual host", "Exchange", "Key", "Queue", "Events", "Until", ""], open.map((each) => [each.vhost, each.exchange ?? "any", each.routing_key ?? "any", each.queue ?? "any", count(each.events), time(each.until),
      [h("button", { type: "button", class: "small", onclick: () => { chosen = each.id; refresh(); } }, "Show"), " ", onceButton("End", () => end(each.id), { class: "small" })]]))] : []));
    if (!open.some((each) => each.id === chosen)) chosen = null;
    if (chosen === null) { patch(shown); return; }
    const found = await get(path`v1/traces/${chosen}`);
    const who = (event) => [event.consumer_tag, event.user, event.connection].filter(Boolean).join(", ");
    patch(shown, found.left_out + found.unseen ? h("p", { class: "hint" }, `${count(found.left_out + found.unseen)} more were not recorded.`) : null,
      lines(["When", "Message", "What", "Exchange", "Key", "Queues", "Who", "Why"], found.events.map((event) => [time(event.at), h("code", {}, event.message_id || event.track), event.what, event.exchange || "(default)", event.routing_key,
        (event.queues ?? []).join(", "), who(event), [event.reason, event.to_queues ? ` → ${event.to_queues.join(", ")}` : ""]])));
  }
  const form = inlineForm("Record what happens to messages", [...FIELDS, { name: "seconds", label: "For so many seconds", type: "number", value: 600 }], "Begin", begin);
  return [h("div", {}, form, list, shown), refresh];
}

function jobs() {
  const node = h("section");
  const end = (job) => attempt(job.state === "running" ? "It ends soon." : "Forgotten.", () => remove(path`v1/jobs/${job.id}`)).then(refresh);
  async function refresh() {
    const found = await get("v1/jobs");
    node.replaceChildren(found.length ? lines(["Begun", "What", "Virtual host", "Queue", "User", "So far", ""], found.map((job) => [time(job.began_at), job.kind, job.vhost,
      job.queue ? link(to.queue({ vhost: job.vhost, name: job.queue }), job.queue) : "several", job.user, told(job), onceButton(job.state === "running" ? "Cancel" : "Forget", () => end(job), { class: "small" })]))
      : h("p", { class: "message" }, "No messages or queues were moved since these pages are there. Moving begins at a queue, or at several in their list."));
  }
  return [node, refresh];
}

export function messagesPage() {
  const list = unroutable();
  const sections = [["unroutable", "Went nowhere", list, () => list.refresh()]];
  if (mayChange()) sections.push(["jobs", "Moves", ...jobs()]);
  if (isAdministrator()) sections.push(["tail", "Live", tail()], ["trace", "Trace", ...traces()]);
  const made = tabs(sections);
  return { node: h("div", {}, heading("Messages"), made.node), refresh: made.refresh };
}
