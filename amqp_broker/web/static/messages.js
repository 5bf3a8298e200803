// Messages: published to an exchange, and got from a queue.

import { path, post } from "./api.js";
import { inlineForm } from "./dialog.js";
import { h } from "./dom.js";
import { count, octets, pretty } from "./format.js";

const ACK_MODES = [
  ["ack_requeue_true", "Look: put them back (marked as redelivered)"],
  ["ack_requeue_false", "Take: they leave the queue"],
  ["reject_requeue_false", "Reject: dropped or dead-lettered"],
];

export function publishForm(vhost, exchange, routingKey = "") {
  const fields = [
    { name: "routing_key", label: "Routing key", value: routingKey },
    { name: "delivery_mode", label: "Delivery", type: "select", options: [["2", "persistent"], ["1", "transient"]] },
    { name: "properties", label: "Properties (JSON)", type: "json", keys: ["content_type", "message_id", "correlation_id", "reply_to", "expiration", "priority=0", "type", "app_id"] },
    { name: "headers", label: "Headers (JSON)", type: "json" },
    { name: "payload", label: "Payload", type: "area" },
    { name: "payload_encoding", label: "Payload is", type: "select", options: [["string", "text"], ["base64", "base64"]] },
  ];
  return inlineForm("Publish a message", fields, "Publish", async (values) => {
    const properties = { ...values.properties, delivery_mode: Number(values.delivery_mode) };
    if (Object.keys(values.headers).length) properties.headers = values.headers;
    const { routed } = await post(path`exchanges/${vhost}/${exchange || "amq.default"}/publish`, {
      routing_key: values.routing_key, properties, payload: values.payload, payload_encoding: values.payload_encoding,
    });
    return routed ? h("p", { class: "done" }, "Published, and a queue has it.")
      : h("p", { class: "problem" }, "Published, but no binding leads it to a queue: it was dropped.");
  });
}

export function getForm(vhost, queue) {
  const fields = [
    { name: "count", label: "Messages", type: "number", value: 1 },
    { name: "ackmode", label: "What becomes of them", type: "select", options: ACK_MODES },
    { name: "encoding", label: "Payload as", type: "select", options: [["auto", "text if it is text"], ["base64", "base64"]] },
  ];
  return inlineForm("Get messages", fields, "Get", async ({ count: number, ackmode, encoding }) => {
    const found = await post(path`queues/${vhost}/${queue}/get`, { count: number ?? 1, ackmode, encoding, truncate: 50000 });
    return found.length ? found.map(showMessage) : h("p", { class: "quiet" }, "The queue has no message that is ready.");
  });
}

function showMessage(message) {
  const isCut = message.payload_encoding === "string" && message.payload_bytes > 50000;
  return h("article", { class: "message-card" },
    h("header", {}, h("b", {}, message.exchange || "(default exchange)"), " → ", h("b", {}, message.routing_key),
      h("span", { class: "quiet" }, ` ${octets(message.payload_bytes)}${message.redelivered ? ", redelivered" : ""}, ${count(message.message_count)} behind it`)),
    Object.keys(message.properties).length ? h("pre", {}, pretty(message.properties)) : null,
    h("pre", { class: "payload" }, message.payload), isCut ? h("small", {}, "The rest is not shown.") : null);
}
