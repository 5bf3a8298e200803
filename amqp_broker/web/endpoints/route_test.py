"""The route test: where a message would go from an exchange, and what would become of it there."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import integer, read_body
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of


class RouteTestBody(msgspec.Struct):
    """The message, as far as it decides where it goes. user: who would publish it; unless named, who asks. limit: so
    much is shown of each sort; skip: so many bindings are passed over."""

    routing_key: str = ""
    headers: JsonValue = None
    properties: JsonValue = None
    user: str | None = None
    size: JsonValue = None
    expiration: JsonValue = None
    limit: JsonValue = None
    skip: JsonValue = None


def test_route(asked: Asked) -> Answer:
    body = read_body(asked.body, RouteTestBody)
    numbers = {name: getattr(body, name) for name in ("size", "expiration", "limit", "skip")}
    fields: dict[str, JsonValue] = {
        name: integer(value, name) for name, value in numbers.items() if value is not None
    }
    fields |= {
        name: value for name in ("headers", "properties", "user") if (value := getattr(body, name)) is not None
    }
    exchange = exchange_of(asked.name("exchange"))
    answer = asked.verb(
        "route.test", vhost=asked.name("vhost"), exchange=exchange, routing_key=body.routing_key, **fields
    )
    return Answer(value={key: value for key, value in answer.items() if key != "ok"})


ENDPOINTS = (Endpoint("POST", "/v1/exchanges/{vhost}/{exchange}/route-test", test_route, body=RouteTestBody),)
