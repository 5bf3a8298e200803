"""The overview: what the whole broker counts, and what it is."""

from __future__ import annotations

import platform
import ssl
from collections.abc import Mapping
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.version import __version__
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.listing import cut, read_columns
from amqp_broker.web.product import API_LEVEL, PRODUCT, python_version
from amqp_broker.web.rates import Grid, Reading, details
from amqp_broker.web.shapes import LENGTHS, nest, read_view
from amqp_broker.web.totals import sums_of

#: The API that is emulated: clients look for a number that begins so.
CHURN: Final = (
    "connection_created", "connection_closed", "channel_created", "channel_closed", "queue_declared", "queue_created",
    "queue_deleted",
)  # fmt: skip
MESSAGES: Final = (
    "publish", "confirm", "return_unroutable", "drop_unroutable", "deliver", "deliver_no_ack", "get", "get_no_ack",
    "get_empty", "deliver_get", "redeliver", "ack", "disk_reads", "disk_writes",
)  # fmt: skip
OBJECTS: Final = ("channels", "connections", "consumers", "exchanges", "queues")
RETENTION: Final = {"global": [600, 3600], "basic": [600, 3600], "detailed": [600]}
EXCHANGE_TYPES: Final = [
    {"name": name, "description": f"AMQP {name} exchange", "enabled": True}
    for name in ("direct", "fanout", "headers", "topic", "x-consistent-hash", "x-delayed-message", "x-modulus-hash")
]


def show_overview(asked: Asked) -> Answer:
    view, told = read_view(asked.query), asked.services.totals.read()
    totals, known = sums_of(told), asked.services.totals.readings()
    stats = {name: totals.get(name, 0) for name in MESSAGES}
    shown: JsonObject = {
        **_about(asked, told),
        "message_stats": nest(stats, known, view.grids.get("msg_rates")),
        "churn_rates": _with_details(totals, CHURN, known, view.grids.get("msg_rates")),
        "queue_totals": _lengths(asked, totals, known, view.grids.get("lengths")),
        "object_totals": _object_totals(asked, totals),
        "statistics_db_event_queue": 0,
    }
    if asked.has(Access.MONITORING):
        shown["listeners"] = listeners(asked)
        shown["contexts"] = contexts(asked)
    else:
        shown["listeners"] = []
    return Answer(value=cut(shown, read_columns(asked.query)))


def _about(asked: Asked, totals: Mapping[str, JsonValue]) -> JsonObject:
    return {
        "management_version": API_LEVEL,
        "rates_mode": "basic",
        "sample_retention_policies": RETENTION,
        "exchange_types": EXCHANGE_TYPES,
        "product_name": PRODUCT,
        "product_version": __version__,
        "rabbitmq_version": API_LEVEL,
        "cluster_name": totals["cluster_name"],
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": python_version(),
        "erlang_full_version": f"{python_version()} on {platform.system()}",
        "crypto_lib_version": ssl.OPENSSL_VERSION,
        "release_series_support_status": "supported",
        "disable_stats": False,
        "default_queue_type": asked.verb("queue.types")["default"],
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": False,
        "node": totals.get("node", ""),
    }


def _with_details(
    totals: Mapping[str, JsonValue],
    names: tuple[str, ...],
    known: list[Reading],
    grid: Grid | None,
    is_counter: bool = True,
) -> JsonObject:
    shown: JsonObject = {}
    for name in names:
        shown[name] = totals.get(name, 0)
        shown[f"{name}_details"] = details(name, known, grid, is_counter=is_counter)
    return shown


def _lengths(asked: Asked, totals: Mapping[str, JsonValue], known: list[Reading], grid: Grid | None) -> JsonObject:
    """Who does not see everything is told what his virtual hosts hold."""
    if asked.has(Access.MONITORING):
        return _with_details(totals, LENGTHS, known, grid, is_counter=False)
    rows = asked.objects("queues").rows
    own = {name: sum(row.get(name) or 0 for row in rows) for name in LENGTHS}
    return _with_details(own, LENGTHS, [], None, is_counter=False)


def _object_totals(asked: Asked, totals: Mapping[str, JsonValue]) -> dict[str, int]:
    if asked.has(Access.MONITORING):
        return {name: totals.get(name, 0) for name in OBJECTS}
    return {name: len(asked.objects(name).rows) for name in OBJECTS}


def listeners(asked: Asked) -> list[JsonObject]:
    """Where clients come in: those of the node, and of this process."""
    health = asked.services.node.request("health")
    node = asked.services.totals.read().get("node", "")
    found = [
        {
            "node": each.get("node", node),
            "protocol": each["protocol"],
            "ip_address": each["ip_address"],
            "port": each["port"],
            "tls": each.get("tls", False),
            "socket_opts": {},
        }
        for each in health.get("listeners", ())
    ]
    return found + [
        {"node": node, "protocol": protocol, "ip_address": host, "port": port, "tls": False, "socket_opts": {}}
        for protocol, host, port in asked.services.places
    ]


def contexts(asked: Asked) -> list[JsonObject]:
    """The programs behind the HTTP listeners."""
    node = asked.services.totals.read().get("node", "")
    described = {"http": "RabbitMQ Management", "http/prometheus": "Prometheus"}
    about = {"node": node, "path": "/", "ssl_opts": [], "cowboy_opts": ""}
    return [
        {**about, "description": described[protocol], "ip": host, "port": str(port)}
        for protocol, host, port in asked.services.places
    ]


ENDPOINTS = (Endpoint("GET", "/overview", show_overview),)
