// Messages of a queue, looked at without a trace.

import { get, path, query } from "./api.js";
import { inlineForm, onceButton } from "./dialog.js";
import { h } from "./dom.js";
import { count, duration, octets, pretty } from "./format.js";

const PAGE = 20;
export const FILTER = { name: "filter", label: "Filter", placeholder: "routing_key=orders.* header.kind=invoice" };

const FIELDS = [
  { name: "from", label: "From", type: "select", options: [["oldest", "the oldest"], ["newest", "the newest"]] },
  { name: "state", label: "Which", type: "select", options: [["ready", "ready"], ["unacked", "held by consumers"]] }, FILTER,
];

// begin: what is asked of what stands in the fields. isLog: what comes later is behind what is there, so that one may look on.
export function peekForm(vhost, queue, fields = FIELDS, title = "Look at messages: nothing is marked, counted or moved", { begin = (values) => values, isLog = false } = {}) {
  const where = path`v1/queues/${vhost}/${queue}/messages`;
  const next = async (asked, output, button) => {
    const found = await get(`${where}${query(asked)}`);
    button?.remove();
    output.append(...found.messages.map((each) => card(each, where, asked.state)));
    output.querySelector(".quiet.end")?.remove();
    const goOn = (title, from) => {
      const more = onceButton(title, () => next({ ...asked, from, backwards: found.backwards }, output, more));
      output.append(more);
      return more;
    };
    if (found.next !== null) return goOn("More", found.next);
    output.append(h("p", { class: "quiet end" }, found.messages.length ? "No more." : "The queue has no such message."));
    return isLog && !found.backwards ? goOn("Look on", found.messages.length ? found.messages.at(-1).position + 1 : asked.from) : null;
  };
  return inlineForm(title, fields, "Look", async (values) => {
    const output = h("div", { id: "peeked" });
    await next({ ...await begin(values), limit: PAGE, max_body_bytes: 8192 }, output, null);
    return output;
  }, { isInAddress: true });
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
