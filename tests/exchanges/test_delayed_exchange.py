"""x-delayed-message: which messages wait, and that everything else is the inner type's."""

from __future__ import annotations

from decimal import Decimal

import pytest

from exchanges.bindings import Destination
from exchanges.delayed import MAX_DELAY_MS, DelayedExchange, delay_of
from tests.exchanges.facts import Facts

Q = Destination("queue", "q")
OTHER = Destination("queue", "other")


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [
        (5000, 5000),
        (1, 1),
        (0, 0),
        (-5000, 0),
        ("5000", 5000),
        ("0", 0),
        ("-5", 0),
        (" 5", 0),
        ("5_0", 0),
        ("٥", 0),
        ("", 0),
        ("soon", 0),
        ("9" * 5000, 0),
        (1500.9, 1500),
        (0.5, 0),
        (float("nan"), 0),
        (float("inf"), 0),
        (float("-inf"), 0),
        (Decimal("20.5"), 20),
        (True, 0),
        (None, 0),
        ([5], 0),
        (MAX_DELAY_MS, MAX_DELAY_MS),
        (MAX_DELAY_MS + 1, 0),
    ],
)
def test_the_delay_of_a_message(value: object, delay_ms: int) -> None:
    assert delay_of({"x-delay": value}) == delay_ms


def test_a_message_without_the_header_need_not_wait() -> None:
    assert delay_of({}) == 0


@pytest.mark.parametrize("inner_type", [None, "nonsense", "x-delayed-message", 5])
def test_the_inner_type_must_be_a_known_one(inner_type: object) -> None:
    arguments = {} if inner_type is None else {"x-delayed-type": inner_type}
    with pytest.raises(ValueError, match=f"must be an existing exchange type .*, not {inner_type!r}"):
        DelayedExchange(arguments)


def test_arguments_of_the_inner_type_are_checked() -> None:
    with pytest.raises(ValueError, match="Unsupported property"):
        DelayedExchange({"x-delayed-type": "x-consistent-hash", "hash-property": "user_id"})


def test_bindings_and_routes_are_those_of_the_inner_type() -> None:
    exchange = DelayedExchange({"x-delayed-type": "topic"})
    assert exchange.delays
    assert exchange.routes_by_headers
    assert exchange.reads_every_key
    assert exchange.is_unused
    assert exchange.bind(Q, "a.*", {})
    assert not exchange.bind(Q, "a.*", {})
    assert exchange.bind(OTHER, "#", {})
    assert not exchange.is_unused
    assert exchange.is_bound_to(Q)
    assert sorted(exchange.matches("a.b", None)) == [OTHER, Q]
    assert exchange.matches("b", Facts({"x-delay": 5})) == [OTHER]
    assert [binding.binding_key for binding in exchange.bindings()] == ["a.*", "#"]
    assert [binding.binding_key for binding in exchange.bindings_to(OTHER)] == ["#"]
    assert exchange.unbind(Q, "a.*", {})
    assert not exchange.is_bound_to(Q)
    assert exchange.remove_destination(OTHER) == 1
    assert exchange.is_unused


def test_bindings_are_checked_by_the_inner_type() -> None:
    exchange = DelayedExchange({"x-delayed-type": "headers"})
    assert not exchange.reads_every_key
    with pytest.raises(ValueError, match="Invalid x-match field value 'some'"):
        exchange.bind(Q, "", {"x-match": "some"})
    with pytest.raises(ValueError, match="Invalid x-match field value 'some'"):
        exchange.check_binding("", {"x-match": "some"})
