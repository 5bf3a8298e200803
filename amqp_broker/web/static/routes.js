// The route test: where a message would go from an exchange, and what would become of it there.

import { path, post } from "./api.js";
import { inlineForm } from "./dialog.js";
import { badge, h, link } from "./dom.js";
import { count, duration, json } from "./format.js";
import { to } from "./router.js";

export function routeForm(vhost, exchange) {
  const fields = [
    { name: "routing_key", label: "Routing key" },
    { name: "headers", label: "Headers (JSON)", type: "json" },
    { name: "user", label: "Published by (you, unless named)" },
  ];
  return inlineForm("Where would a message go? Nothing is published.", fields, "Try", async ({ routing_key: key, headers, user }) => {
    const body = { routing_key: key, headers, ...(user ? { user } : {}) };
    return show(vhost, await post(path`v1/exchanges/${vhost}/${exchange || "amq.default"}/route-test`, body));
  }, { isInAddress: true });
}

function show(vhost, found) {
  return [
    h("p", { class: found.permitted && (found.queue_count || found.waits_before.length) ? "done" : "problem" }, found.summary),
    found.exchanges.map((each) => h("section", {}, h("h3", {}, link(to.exchange({ vhost, name: each.name }), each.name || "(default exchange)"), " ", badge(each.type),
      each.reached_from === null ? null : h("span", { class: "quiet" }, ` by ${each.reached_by} from ${each.reached_from || "(default exchange)"}`)),
    h("ul", {}, each.matched.map((binding) => bindingLine("✓", vhost, binding)), each.not_matched.map((binding) => bindingLine("✗", vhost, binding))),
    each.next_skip === null ? null : h("p", { class: "quiet" }, `${count(each.binding_count)} bindings altogether`),
    each.waits ? h("p", {}, "It waits here (x-delay).") : null,
    each.takes_alternate ? h("p", {}, `Nothing matches: on to the alternate exchange ${each.alternate_exchange}.`) : null)),
    found.queues.map((queue) => h("section", {}, h("h3", {}, link(to.queue({ vhost, name: queue.name }), queue.name), " ", badge(queue.type)),
      h("ul", {}, prospects(queue).map((text) => h("li", {}, text))))),
    found.queues_left_out ? h("p", { class: "quiet" }, `and ${count(found.queues_left_out)} more queues`) : null,
  ];
}

function bindingLine(mark, vhost, binding) {
  const target = { vhost, name: binding.destination };
  return h("li", { class: mark === "✓" ? null : "quiet" }, mark, " ", h("code", {}, binding.routing_key), " ", Object.keys(binding.arguments).length ? json(binding.arguments) : null,
    " → ", binding.destination_type, " ", link(binding.destination_type === "queue" ? to.queue(target) : to.exchange(target), binding.destination));
}

function prospects(queue) {
  const would = { reject: "It is full and refuses it", "drop-head": "It is full and gives up its first message" }[queue.limits?.would];
  return [
    would ? `${would} (${queue.limits.reached.join(", ")}).` : null, queue.delivery,
    queue.expires_after_ms === null ? null : `Expires after ${duration(queue.expires_after_ms)}.`,
    ...queue.consumers.filter((each) => each.why_not).map((each) => `${each.consumer_tag ?? "a consumer"}: ${each.why_not}`),
  ].filter(Boolean);
}
