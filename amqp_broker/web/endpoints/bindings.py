"""Bindings: lists by virtual host, by end, and between two ends; made and removed."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote_plus

import msgspec

from amqp_broker.protocol import methods as m
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import KIB, MADE, Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.endpoints.lists import read_objects, show_rows
from amqp_broker.web.endpoints.queues import require
from amqp_broker.web.errors import object_not_found
from amqp_broker.web.field_values import arguments_of, to_table
from amqp_broker.web.listing import cut, read_columns
from amqp_broker.web.path import encode
from amqp_broker.web.properties_key import properties_key

QUEUE, EXCHANGE = "queue", "exchange"
#: What a filter looks at.
_NAMES = ("source", "destination", "routing_key")
_KINDS = {QUEUE: "queues", EXCHANGE: "exchanges"}
_BODY_LIMIT_BYTES = 5 * KIB

Row = JsonObject


class BindingBody(msgspec.Struct):
    """What tells it from others between the same ends."""

    routing_key: str = ""
    arguments: JsonValue = None


def _shown(row: Row) -> Row:
    fields = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments", "properties_key")
    return {name: row.get(name) for name in fields}


def list_bindings(asked: Asked) -> Answer:
    return show_rows(asked, map(_shown, read_objects(asked, "bindings").rows), *_NAMES)


def _list_where(asked: Asked, is_wanted: Callable[[Row], bool]) -> Answer:
    return show_rows(asked, [_shown(row) for row in read_objects(asked, "bindings").rows if is_wanted(row)], *_NAMES)


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


def _named(asked: Asked, kind: str) -> tuple[str, str]:
    """Source and destination of the path."""
    source, destination = exchange_of(asked.name("exchange")), asked.name("destination")
    return source, exchange_of(destination) if kind == EXCHANGE else destination


def _ends(asked: Asked, kind: str) -> tuple[str, str]:
    """Source and destination of the path. Raises ApiError where one is not there."""
    source, destination = _named(asked, kind)
    require(asked, "exchanges", asked.name("vhost"), source)
    require(asked, _KINDS[kind], asked.name("vhost"), destination)
    return source, destination


def _between(asked: Asked, kind: str) -> list[Row]:
    """Empty where an end or the virtual host is not there: who looks after bindings, as Terraform's provider does,
    takes 404 for a failure, and would never make anew what somebody else has removed together with its queue.
    """
    source, destination = _named(asked, kind)
    try:
        rows = read_objects(asked, "bindings").rows
    except SystemRequestError as error:
        if error.code != "not_found":
            raise
        return []
    return [
        row
        for row in rows
        if (row["source"], row["destination"], row["destination_type"]) == (source, destination, kind)
    ]


def _find(asked: Asked, kind: str) -> Row:
    """The one of a properties_key, which some clients encode once and some twice. Raises ApiError."""
    source, destination = _ends(asked, kind)
    given = asked.name("props")
    for key in (given, given if given == "~" else quote_plus(given, safe="~", errors="surrogateescape")):
        try:
            answer = asked.verb(
                "object",
                kind="bindings",
                vhost=asked.name("vhost"),
                source=source,
                destination=destination,
                destination_type=kind,
                properties_key=key,
            )
        except SystemRequestError as error:
            if error.code != "not_found":
                raise
        else:
            return dict(answer["object"])
    raise object_not_found()


def list_between(kind: str) -> Callable[[Asked], Answer]:
    return lambda asked: show_rows(asked, map(_shown, _between(asked, kind)), *_NAMES)


def show_binding(kind: str) -> Callable[[Asked], Answer]:
    return lambda asked: Answer(value=cut(_shown(_find(asked, kind)), read_columns(asked.query)))


def make_binding(kind: str) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        body = read_body(asked.body, BindingBody)
        arguments = to_table(body.arguments, "arguments")
        source, destination = _ends(asked, kind)
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
        arguments, key = arguments_of(row), row["routing_key"]
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


def _endpoints(letter: str, kind: str) -> tuple[Endpoint, ...]:
    path = f"/bindings/{{vhost}}/e/{{exchange}}/{letter}/{{destination}}"
    return (
        Endpoint("GET", path, list_between(kind)),
        Endpoint("POST", path, make_binding(kind), body_limit_bytes=_BODY_LIMIT_BYTES, body=BindingBody, done=MADE),
        Endpoint("GET", f"{path}/{{props}}", show_binding(kind)),
        Endpoint("DELETE", f"{path}/{{props}}", remove_binding(kind)),
    )


ENDPOINTS = (
    Endpoint("GET", "/bindings", list_bindings, refused=(404,)),
    Endpoint("GET", "/bindings/{vhost}", list_bindings),
    Endpoint("GET", "/queues/{vhost}/{queue}/bindings", list_of_queue),
    Endpoint("GET", "/exchanges/{vhost}/{exchange}/bindings/source", list_of_source),
    Endpoint("GET", "/exchanges/{vhost}/{exchange}/bindings/destination", list_of_destination),
    *_endpoints("q", QUEUE),
    *_endpoints("e", EXCHANGE),
)
