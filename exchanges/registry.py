"""The exchange types by name, and the exchanges that every virtual host has from the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exchanges.consistent_hash import ConsistentHashExchange
from exchanges.delayed import DelayedExchange
from exchanges.direct import DirectExchange
from exchanges.exchange import Exchange
from exchanges.fanout import FanoutExchange
from exchanges.headers import HeadersExchange
from exchanges.modulus_hash import ModulusHashExchange
from exchanges.topic import TopicExchange

EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    DirectExchange.type_name: DirectExchange,
    FanoutExchange.type_name: FanoutExchange,
    TopicExchange.type_name: TopicExchange,
    HeadersExchange.type_name: HeadersExchange,
    ConsistentHashExchange.type_name: ConsistentHashExchange,
    ModulusHashExchange.type_name: ModulusHashExchange,
    DelayedExchange.type_name: DelayedExchange,
}


class Predeclared(NamedTuple):
    """An exchange that exists in every virtual host: durable, never deleted."""

    name: str
    type_name: str
    internal: bool


DEFAULT_EXCHANGE = ""

PREDECLARED = (
    Predeclared(DEFAULT_EXCHANGE, "direct", False),
    Predeclared("amq.direct", "direct", False),
    Predeclared("amq.fanout", "fanout", False),
    Predeclared("amq.topic", "topic", False),
    Predeclared("amq.headers", "headers", False),
    Predeclared("amq.match", "headers", False),
    Predeclared("amq.rabbitmq.trace", "topic", True),
)


def create_exchange(type_name: str, arguments: Mapping[str, object]) -> Exchange:
    """A new exchange of a type; raises ValueError with a text for a 406 where type or arguments are wrong."""
    exchange_type = EXCHANGE_TYPES.get(type_name)
    if exchange_type is None:
        raise ValueError(f"unknown exchange type {type_name!r}; known are {', '.join(EXCHANGE_TYPES)}")
    return exchange_type(arguments)
