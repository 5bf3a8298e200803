"""When two field values, and two bindings, are the same."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from exchanges.bindings import Destination, comparable
from exchanges.direct import DirectExchange
from exchanges.exchange import Exchange

Q = Destination("queue", "q")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (2**53, float(2**53)),
        (0.0, -0.0),
        ("x", b"x"),
        (b"\xff", bytearray(b"\xff")),
        (b"\xff", "\udcff"),
        (datetime(2020, 1, 1), 1577836800),
        (datetime(1969, 12, 31, 23, 59, 59), -1),
        (Decimal("1.0"), Decimal("1.00")),
        ([1, ["a"]], [1.0, [b"a"]]),
        ({"p": 1, "q": 2}, {"q": 2.0, "p": 1}),
        (float("nan"), float("nan")),
        (None, None),
    ],
)
def test_values_that_are_the_same(one: object, other: object) -> None:
    assert comparable(one) == comparable(other)
    assert hash(comparable(one)) == hash(comparable(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (2**53 + 1, float(2**53)),
        (Decimal(1), 1),
        (Decimal("1.5"), 1.5),
        (None, ""),
        (None, 0),
        ([1, 2], [2, 1]),
        ([True], [1]),
        ([1], [[1]]),
        ({"p": 1}, {"p": 2}),
        ({"p": 1}, {"q": 1}),
        ("a", "A"),
    ],
)
def test_values_that_differ(one: object, other: object) -> None:
    assert comparable(one) != comparable(other)


def test_a_value_that_no_field_can_hold_is_named() -> None:
    with pytest.raises(ValueError, match="of type complex is no AMQP field value"):
        comparable(1j)


def test_a_binding_is_held_once_and_told_apart_by_key_and_arguments() -> None:
    exchange = DirectExchange({})
    assert exchange.bind(Q, "k", {})
    assert not exchange.bind(Q, "k", {})
    assert exchange.bind(Q, "k", {"a": 1})
    assert not exchange.bind(Q, "k", {"a": 1.0})
    assert exchange.bind(Q, "k", {"a": True})
    assert exchange.bind(Q, "other", {})
    assert [(binding.binding_key, binding.arguments) for binding in exchange.bindings()] == [
        ("k", {}),
        ("k", {"a": 1}),
        ("k", {"a": True}),
        ("other", {}),
    ]


def test_unbinding_takes_the_binding_with_the_same_key_and_arguments() -> None:
    exchange = DirectExchange({})
    exchange.bind(Q, "k", {})
    exchange.bind(Q, "k", {"a": 1})
    assert not exchange.unbind(Q, "k", {"a": 2})
    assert not exchange.unbind(Q, "other", {})
    assert not exchange.unbind(Destination("exchange", "q"), "k", {})
    assert exchange.unbind(Q, "k", {})
    assert not exchange.unbind(Q, "k", {})
    assert exchange.matches("k", None) == [Q]
    assert not exchange.is_unused
    assert exchange.unbind(Q, "k", {"a": 1})
    assert exchange.matches("k", None) == []
    assert exchange.is_unused
    assert not exchange.is_bound_to(Q)


def test_a_binding_with_not_a_number_can_be_unbound() -> None:
    exchange = DirectExchange({})
    exchange.bind(Q, "k", {"a": float("nan")})
    assert exchange.unbind(Q, "k", {"a": float("nan")})


def test_bindings_come_by_destination_in_the_order_of_binding() -> None:
    exchange = DirectExchange({})
    other = Destination("queue", "other")
    for destination, key in ((Q, "2"), (other, "1"), (Q, "1")):
        exchange.bind(destination, key, {})
    assert [(binding.destination.name, binding.binding_key) for binding in exchange.bindings()] == [
        ("q", "2"),
        ("q", "1"),
        ("other", "1"),
    ]
    assert [binding.binding_key for binding in exchange.bindings_to(Q)] == ["2", "1"]
    assert exchange.remove_destination(Q) == 2
    assert (exchange.bindings_to(Q), exchange.remove_destination(Q)) == ([], 0)
    assert [binding.destination for binding in exchange.bindings()] == [other]


def test_a_type_without_matches_says_so() -> None:
    with pytest.raises(NotImplementedError, match="define it"):
        Exchange({}).matches("k", None)
