// Messages of a queue, looked at without a trace, and moved: what would happen is shown before it is done.

import { get, path, post, query, remove } from "./api.js";
import { attempt, confirmName, inlineForm } from "./dialog.js";
import { h } from "./dom.js";
import { count, duration, octets, pretty } from "./format.js";
import { lines } from "./quorum.js";

const PAGE = 20;
const FILTER = { name: "filter", label: "Filter", placeholder: "routing_key=orders.* header.kind=invoice" };

export function peekForm(vhost, queue) {
  const where = path`v1/queues/${vhost}/${queue}/messages`;
  const fields = [
    { name: "from", label: "From", type: "select", options: [["oldest", "the oldest"], ["newest", "the newest"]] },
    { name: "state", label: "Which", type: "select", options: [["ready", "ready"], ["unacked", "held by consumers"]] }, FILTER,
  ];
  const next = async (asked, output, button) => {
    const found = await get(`${where}${query(asked)}`);
    button?.remove();
    output.append(...found.messages.map((each) => card(each, where, asked.state)));
    if (found.next === null) output.append(h("p", { class: "quiet" }, found.messages.length ? "No more." : "The queue has no such message."));
    else {
      const more = h("button", { type: "button", onclick: () => attempt("", () => next({ ...asked, from: found.next, backwards: found.backwards }, output, more)) }, "More");
      output.append(more);
    }
  };
  return inlineForm("Look at messages: nothing is marked, counted or moved", fields, "Look", async (values) => {
    const output = h("div", { id: "peeked" });
    await next({ ...values, limit: PAGE, max_body_bytes: 8192 }, output, null);
    return output;
  });
}

function card(message, where, state) {
  const facts = [
    octets(message.payload_bytes), message.age_ms === null ? "" : `${duration(message.age_ms)} old`, message.redelivered ? "redelivered" : "",
    message.delivery_count ? `came back ${count(message.delivery_count)} times` : "", message.expires_in_ms === null ? "" : `expires in ${duration(message.expires_in_ms)}`,
  ].filter(Boolean).join(", ");
  const whole = `api/${where}/${message.position}/body${query({ state })}`;
  return h("article", { class: "message-card" },
    h("header", {}, h("b", {}, message.exchange || "(default exchange)"), " → ", h("b", {}, message.routing_key), h("span", { class: "quiet" }, ` at ${message.position}: ${facts}`)),
    message.holder ? h("p", {}, "Held by ", [message.holder.consumer_tag, message.holder.user, message.holder.connection].filter(Boolean).join(", "), message.held_ms === null ? "" : ` for ${duration(message.held_ms)}`) : null,
    Object.keys(message.properties).length ? h("pre", {}, pretty(message.properties)) : null, h("pre", { class: "payload" }, message.payload),
    h("p", {}, h("a", { href: whole, download: `message-${message.position}` }, "The whole body")));
}

const WAYS = [["replay-queue", "back to the queue in which each died first"], ["replay-exchange", "back to the exchange to which each was published"], ["queue", "to the queue"], ["exchange", "to the exchange"]];

export function moveForm(vhost, queue) {
  const where = path`v1/queues/${vhost}/${queue}`;
  const fields = [
    { name: "way", label: "Where", type: "select", options: WAYS }, { name: "name", label: "Queue or exchange" }, { name: "key", label: "Routing key" }, FILTER,
    { name: "limit", label: "At most", type: "number" }, { name: "rate", label: "A second, at most", type: "number" },
  ];
  return inlineForm("Move messages, or replay dead letters", fields, "What would happen?", async ({ way, name, key, filter, limit, rate }) => {
    const [verb, into] = way.startsWith("replay") ? ["replay", { into: way.slice("replay-".length) }] : ["move", { to: way === "queue" ? { queue: name } : { exchange: name, routing_key: key } }];
    const body = { ...into, filter, ...(limit === null ? {} : { limit }), ...(rate === null ? {} : { rate }) };
    const found = await post(`${where}/${verb}`, { ...body, dry_run: true });
    const begin = (output) => confirmName("Move the messages", `Up to ${count(limit === null ? found.moved : Math.min(limit, found.moved))} messages leave this queue, each when it is safe where it goes.`, queue, "Move", async () => {
      output.replaceChildren(jobLine(await post(`${where}/${verb}`, body)));
    });
    const output = h("div", { id: "survey" },
      h("p", {}, `${count(found.moved)} of ${count(found.messages_ready)} messages would be moved${found.is_all ? "" : ` (${count(found.looked_at)} were looked at)`}.`),
      found.origins.length ? lines(["Died in", "Why", "Would go to", "Messages"], found.origins.map((each) => [each.queue, each.reason, each.to ?? "nowhere: stays", count(each.messages)])) : null,
      found.moved ? h("button", { type: "button", class: "danger", id: "move", onclick: () => begin(output) }, "Move") : null);
    return output;
  });
}

// A job as it goes on, until it has ended or nobody looks at it any more.
function jobLine(job) {
  const at = path`v1/jobs/${job.id}`;
  const said = h("span", { role: "status", id: "job" });
  const cancel = h("button", { type: "button", class: "small", onclick: () => attempt("It ends soon.", () => remove(at)) }, "Cancel");
  const show = (present) => {
    said.textContent = `${present.state}: ${count(present.moved)} of ${count(present.messages_ready)} moved${present.reason ? `; ${present.reason}` : ""} `;
    if (present.state !== "running") cancel.remove();
    return present.state === "running";
  };
  const look = async () => {
    const present = await get(at).catch((error) => ({ state: "unknown", moved: 0, messages_ready: 0, reason: error.message }));
    if (show(present) && said.isConnected) setTimeout(look, 1000);
  };
  if (show(job)) setTimeout(look, 300);
  return h("p", {}, said, cancel);
}
