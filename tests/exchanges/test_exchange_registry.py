"""The exchange types by name, and the predeclared exchanges."""

from __future__ import annotations

import pytest

from exchanges.registry import EXCHANGE_TYPES, PREDECLARED, create_exchange


def test_every_type_is_listed_under_its_own_name() -> None:
    assert {name: exchange_type.type_name for name, exchange_type in EXCHANGE_TYPES.items()} == {
        name: name
        for name in (
            "direct",
            "fanout",
            "topic",
            "headers",
            "x-consistent-hash",
            "x-modulus-hash",
            "x-delayed-message",
        )
    }


@pytest.mark.parametrize("type_name", list(EXCHANGE_TYPES))
def test_an_exchange_is_made_with_its_arguments(type_name: str) -> None:
    arguments: dict[str, object] = {"x-delayed-type": "direct", "alternate-exchange": "other"}
    exchange = create_exchange(type_name, arguments)
    assert exchange.type_name == type_name
    assert exchange.arguments == arguments
    assert exchange.is_unused


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ValueError, match="unknown exchange type 'x-random'; known are direct, fanout"):
        create_exchange("x-random", {})


def test_the_predeclared_exchanges() -> None:
    assert [(name, type_name) for name, type_name, _ in PREDECLARED] == [
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
    ]
    assert [name for name, _, internal in PREDECLARED if internal] == ["amq.rabbitmq.trace"]
