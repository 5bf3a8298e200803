"""A broker with something of everything, made over HTTP and AMQP alike in RabbitMQ and ours; and what it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from tests.web.http_client import Http, segment

#: What is asked, by the name of the file in which its shape is kept. {node}, {connection} and so on are filled in.
PATHS = {
    "overview": "/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "nodes": "/nodes",
    "node": "/nodes/{node}?memory=true",
    "memory": "/nodes/{node}/memory",
    "memory_relative": "/nodes/{node}/memory/relative",
    "queues": "/queues",
    "queues_page": "/queues?page=1&page_size=100",
    "queue": "/queues/%2F/orders?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "queue_quorum": "/queues/%2F/voted",
    "queue_exclusive": "/queues/%2F/mine",
    "queue_bindings": "/queues/%2F/orders/bindings",
    "exchanges": "/exchanges",
    "exchange": "/exchanges/%2F/shop",
    "bindings": "/bindings",
    "binding": "/bindings/%2F/e/shop/q/orders/order.%23",
    "exchange_source": "/exchanges/%2F/shop/bindings/source",
    "connections": "/connections",
    "connection": "/connections/{connection}",
    "connection_channels": "/connections/{connection}/channels",
    "channels": "/channels",
    "channel": "/channels/{channel}",
    "consumers": "/consumers",
    "vhosts": "/vhosts",
    "vhost": "/vhosts/%2F",
    "vhost_permissions": "/vhosts/%2F/permissions",
    "users": "/users",
    "user": "/users/clerk",
    "user_permissions": "/users/clerk/permissions",
    "users_without_permissions": "/users/without-permissions",
    "whoami": "/whoami",
    "permissions": "/permissions",
    "permission": "/permissions/%2F/clerk",
    "topic_permissions": "/topic-permissions",
    "policies": "/policies",
    "policy": "/policies/%2F/short",
    "operator_policies": "/operator-policies",
    "vhost_limits": "/vhost-limits",
    "user_limits": "/user-limits",
    "global_parameters": "/global-parameters",
    "parameters": "/parameters",
    "cluster_name": "/cluster-name",
    "extensions": "/extensions",
    "feature_flags": "/feature-flags",
    "definitions": "/definitions",
    "definitions_vhost": "/definitions/%2F",
    "alarms": "/health/checks/alarms",
    "local_alarms": "/health/checks/local-alarms",
    "virtual_hosts": "/health/checks/virtual-hosts",
    "quorum_critical": "/health/checks/node-is-quorum-critical",
    "aliveness": "/aliveness-test/%2F",
    "auth": "/auth",
    "auth_attempts": "/auth/attempts/{node}",
    "quorum_status": "/queues/quorum/%2F/voted/status",
}
_BODY = b"a body"
_TIMEOUT_S = 60


@contextmanager
def filled(http: Http, amqp_url: str) -> Iterator[dict[str, str]]:
    """The names of what is there, and counted, while the block lasts: `node`, `connection`, `channel`."""
    _declare(http)
    with Connection.open(amqp_url, name="reader") as reader, Connection.open(amqp_url, name="writer") as writer:
        read, written, looked = reader.channel(), writer.channel(), writer.channel()
        reader.channel().call(m.QueueDeclare(queue="mine", exclusive=True))
        consumers = [read.consume(queue, prefetch_count=3) for queue in ("orders", "voted")]
        written.confirm_select()
        for _ in range(8):
            written.publish("shop", "order.new", _BODY, {"delivery_mode": 2})
            written.publish("", "voted", _BODY)
            written.publish("shop", "nobody", _BODY)
        written.publish("shop", "nobody", _BODY, mandatory=True)
        written.wait_for_confirms()
        for consumer in consumers:
            delivery = consumer.next(timeout=_TIMEOUT_S)
            assert delivery is not None
            read.ack(delivery)
        assert looked.get("orders") is not None
        assert looked.get("idle") is None
        yield _names(http)


def _names(http: Http) -> dict[str, str]:
    """Statistics come some seconds after what they are of."""
    until = time.monotonic() + _TIMEOUT_S
    while True:
        channels = [each for each in http.get("/channels") if each.get("consumer_count") and each.get("message_stats")]
        queues = [http.get(f"/queues/%2F/{queue}") for queue in ("orders", "voted")]
        has_all = all(
            "messages" in each and each.get("message_stats", {}).get("ack") and each["consumer_details"]
            for each in queues
        )
        exchange = http.get("/exchanges/%2F/shop").get("message_stats", {})
        if channels and has_all and "publish_out" in exchange and len(http.get("/connections")) >= 2:
            break
        assert time.monotonic() < until, (channels, queues, exchange)
    connection = channels[0]["connection_details"]["name"]
    return {
        "node": http.get("/overview")["node"],
        "connection": segment(connection),
        "channel": segment(channels[0]["name"]),
    }


def _declare(http: Http) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for path, body in (
        ("/users/clerk", {"password": "p", "tags": "management"}),
        ("/users/nobody", {"password": "p", "tags": ""}),
        ("/permissions/%2F/clerk", everything),
        ("/topic-permissions/%2F/clerk", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
        ("/vhosts/other", {"description": "another", "tags": "a,b"}),
        ("/exchanges/%2F/shop", {"type": "topic", "durable": True}),
        ("/exchanges/%2F/all", {"type": "fanout", "durable": True}),
        ("/queues/%2F/orders", {"durable": True, "arguments": {"x-max-length": 1000}}),
        ("/queues/%2F/idle", {"durable": True}),
        ("/queues/%2F/voted", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        ("/policies/%2F/short", {"pattern": "^orders", "definition": {"expires": 600000}, "apply-to": "queues"}),
        ("/operator-policies/%2F/ceiling", {"pattern": "^orders", "definition": {"max-length": 500}}),
        ("/vhost-limits/other/max-queues", {"value": 5}),
        ("/user-limits/clerk/max-channels", {"value": 5}),
        ("/global-parameters/theirs", {"value": {"a": 1}}),
    ):
        said = http("PUT", path, body, content_type="application/json")
        assert said.status in (201, 204), (path, said)
    for path, body in (
        ("/bindings/%2F/e/shop/q/orders", {"routing_key": "order.#"}),
        ("/bindings/%2F/e/shop/q/idle", {"routing_key": "x", "arguments": {"a": 1}}),
        ("/bindings/%2F/e/shop/e/all", {"routing_key": "order.*"}),
    ):
        assert http("POST", path, body, content_type="application/json").status == 201, path


def ask(http: Http, names: dict[str, str], path: str) -> object:
    """The answer, whatever its status."""
    said = http("GET", path.format(**names))
    return said.json if said.body else None
