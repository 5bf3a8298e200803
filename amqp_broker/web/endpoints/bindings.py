"""Bindings: lists by virtual host, by end, and between two ends; made and removed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec

from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import KIB, Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.endpoints.lists import read_objects, show_rows
from amqp_broker.web.endpoints.queues import require
from amqp_broker.web.errors import object_not_found
from amqp_broker.web.field_values import to_table
from amqp_broker.web.path import encode
from amqp_broker.web.properties_key import properties_key

QUEUE, EXCHANGE = "queue", "exchange"
_KINDS = {QUEUE: "queues", EXCHANGE: "exchanges"}
_BODY_LIMIT_BYTES = 5 * KIB

Row = dict[str, Any]


class BindingBody(msgspec.Struct):
    """What tells it from others between the same ends."""

    routing_key: str = ""
    arguments: Any = None


def _shown(row: Row) -> Row:
    fields = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")
    shown: Row = {name: row.get(name) for name in fields}
    shown["arguments"] = row.get("arguments") or {}
    shown["properties_key"] = properties_key(row["routing_key"], shown["arguments"])
    return shown


def list_bindings(asked: Asked) -> Answer:
    return show_rows(asked, map(_shown, read_objects(asked, "bindings").rows))


def _list_where(asked: Asked, is_wanted: Callable[[Row], bool]) -> Answer:
    return show_rows(asked, [_shown(row) for row in read_objects(asked, "bindings").rows if is_wanted(row)])


def list_of_queue(asked: Asked) -> Answer:
    queue = asked.name("queue")
    require(asked, "queues", asked.name("vhost"), queue)
    return _list_where(asked, lambda row: row["destination"] == queue and row["destination_type"] == QUEUE)


def list_of_source(asked: Asked) -> Answer:
    exchange = exchange_of(asked.name("exchange"))
    require(asked, "exchanges", asked.name("vhost"), exchange)
    return _list_where(asked, lambda row: bool(row["source"] == exchange))


def list_of_destination(asked: Asked) -> Answer:
    exchange = exchange_of(asked.name("exchange"))
    require(asked, "exchanges", asked.name("vhost"), exchange)
    return _list_where(asked, lambda row: row["destination"] == exchange and row["destination_type"] == EXCHANGE)


def _between(asked: Asked, kind: str) -> list[Row]:
    source, destination = exchange_of(asked.name("exchange")), asked.name("destination")
    if kind == EXCHANGE:
        destination = exchange_of(destination)
    require(asked, "exchanges", asked.name("vhost"), source)
    require(asked, _KINDS[kind], asked.name("vhost"), destination)
    return [
        row
        for row in read_objects(asked, "bindings").rows
        if (row["source"], row["destination"], row["destination_type"]) == (source, destination, kind)
    ]


def _find(asked: Asked, kind: str) -> Row:
    """The one of a properties_key, which some clients encode once and some twice. Raises ApiError."""
    wanted = asked.name("props")
    for row in _between(asked, kind):
        key = _shown(row)["properties_key"]
        if key == wanted or unquote(key.replace("+", " "), errors="surrogateescape") == wanted:
            return row
    raise object_not_found()


def list_between(kind: str) -> Callable[[Asked], Answer]:
    return lambda asked: show_rows(asked, map(_shown, _between(asked, kind)))


def show_binding(kind: str) -> Callable[[Asked], Answer]:
    return lambda asked: Answer(value=_shown(_find(asked, kind)))


def make_binding(kind: str) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        body = read_body(asked.body, BindingBody)
        arguments = to_table(body.arguments, "arguments")
        _between(asked, kind)
        source, destination = exchange_of(asked.name("exchange")), asked.name("destination")
        if kind == QUEUE:
            method: m.Method = m.QueueBind(
                queue=destination, exchange=source, routing_key=body.routing_key, arguments=arguments
            )
        else:
            method = m.ExchangeBind(
                destination=destination, source=source, routing_key=body.routing_key, arguments=arguments
            )
        asked.call(asked.name("vhost"), method)
        key = properties_key(body.routing_key, body.arguments or {})
        return Answer(201, headers={"location": f"{encode(destination)}/{encode(key)}"})

    return answer


def remove_binding(kind: str) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        row = _find(asked, kind)
        arguments, key = _arguments(row), row["routing_key"]
        if kind == QUEUE:
            method: m.Method = m.QueueUnbind(
                queue=row["destination"], exchange=row["source"], routing_key=key, arguments=arguments
            )
        else:
            method = m.ExchangeUnbind(
                destination=row["destination"], source=row["source"], routing_key=key, arguments=arguments
            )
        asked.call(asked.name("vhost"), method)
        return no_content()

    return answer


def _arguments(row: Row) -> Table:
    """As they were given: JSON does not say all of it."""
    raw = row.get("arguments_raw")
    if raw is None:
        return to_table(row.get("arguments"), "arguments")
    octets = base64.b64decode(raw)
    return decode_table(octets, max_bytes=len(octets))


def _endpoints(letter: str, kind: str) -> tuple[Endpoint, ...]:
    path = f"/bindings/{{vhost}}/e/{{exchange}}/{letter}/{{destination}}"
    return (
        Endpoint("GET", path, list_between(kind)),
        Endpoint("POST", path, make_binding(kind), body_limit_bytes=_BODY_LIMIT_BYTES),
        Endpoint("GET", f"{path}/{{props}}", show_binding(kind)),
        Endpoint("DELETE", f"{path}/{{props}}", remove_binding(kind)),
    )


ENDPOINTS = (
    Endpoint("GET", "/bindings", list_bindings),
    Endpoint("GET", "/bindings/{vhost}", list_bindings),
    Endpoint("GET", "/queues/{vhost}/{queue}/bindings", list_of_queue),
    Endpoint("GET", "/exchanges/{vhost}/{exchange}/bindings/source", list_of_source),
    Endpoint("GET", "/exchanges/{vhost}/{exchange}/bindings/destination", list_of_destination),
    *_endpoints("q", QUEUE),
    *_endpoints("e", EXCHANGE),
)
