"""Exchanges: lists, one, declare, delete, and publishing to them."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol import methods as m
from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import flag, read_body
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.endpoints.lists import is_there, show_object, show_objects
from amqp_broker.web.endpoints.messages import PublishBody, publish_message
from amqp_broker.web.endpoints.queues import check_name, require
from amqp_broker.web.field_values import to_table
from amqp_broker.web.shapes import EXCHANGE


class ExchangeBody(msgspec.Struct):
    """What an exchange is declared with."""

    type: str = "direct"
    durable: JsonValue = None
    auto_delete: JsonValue = None
    internal: JsonValue = None
    arguments: JsonValue = None


def _count(asked: Asked) -> None:
    """What was published is in the counts of the exchanges when the totals were counted."""
    asked.services.totals.read()


def list_exchanges(asked: Asked) -> Answer:
    _count(asked)
    return show_objects(asked, EXCHANGE)


def show_exchange(asked: Asked) -> Answer:
    _count(asked)
    return show_object(asked, EXCHANGE, vhost=asked.name("vhost"), name=exchange_of(asked.name("exchange")))


def put_exchange(asked: Asked) -> Answer:
    vhost, name = asked.name("vhost"), exchange_of(asked.name("exchange"))
    check_name(name)
    body = read_body(asked.body, ExchangeBody)
    arguments = to_table(body.arguments, "arguments")
    was_there = is_there(asked, "exchanges", vhost=vhost, name=name)
    declare = m.ExchangeDeclare(
        exchange=name,
        type=body.type,
        durable=flag(body.durable),
        auto_delete=flag(body.auto_delete),
        internal=flag(body.internal),
        arguments=arguments,
    )
    asked.call(vhost, declare)
    return created(was_there)


def delete_exchange(asked: Asked) -> Answer:
    vhost, name = asked.name("vhost"), exchange_of(asked.name("exchange"))
    require(asked, "exchanges", vhost, name)
    asked.call(vhost, m.ExchangeDelete(exchange=name, if_unused=asked.query.get("if-unused") == "true"))
    return no_content()


ENDPOINTS = (
    Endpoint("GET", "/exchanges", list_exchanges, refused=(404,)),
    Endpoint("GET", "/exchanges/{vhost}", list_exchanges),
    Endpoint("GET", "/exchanges/{vhost}/{exchange}", show_exchange),
    Endpoint("PUT", "/exchanges/{vhost}/{exchange}", put_exchange, body=ExchangeBody),
    Endpoint("DELETE", "/exchanges/{vhost}/{exchange}", delete_exchange),
    Endpoint("POST", "/exchanges/{vhost}/{exchange}/publish", publish_message, body=PublishBody),
)
