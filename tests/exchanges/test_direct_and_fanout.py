"""Direct and fanout exchanges."""

from __future__ import annotations

from exchanges.bindings import Destination
from exchanges.direct import DirectExchange
from exchanges.fanout import FanoutExchange

A = Destination("queue", "a")
B = Destination("queue", "b")
X = Destination("exchange", "a")


def test_direct_goes_where_the_key_is_equal() -> None:
    direct = DirectExchange({})
    direct.bind(A, "red", {})
    direct.bind(B, "red", {})
    direct.bind(B, "", {})
    direct.bind(X, "red", {})
    assert direct.matches("red", None) == [A, B, X]
    assert direct.matches("", None) == [B]
    assert direct.matches("re", None) == []
    assert direct.matches("#", None) == []


def test_direct_names_a_destination_once_until_its_last_binding_goes() -> None:
    direct = DirectExchange({})
    direct.bind(A, "red", {})
    direct.bind(A, "red", {"n": 1})
    assert direct.matches("red", None) == [A]
    direct.unbind(A, "red", {})
    assert direct.matches("red", None) == [A]
    direct.unbind(A, "red", {"n": 1})
    assert direct.matches("red", None) == []


def test_direct_forgets_a_destination() -> None:
    direct = DirectExchange({})
    for key in ("red", "green"):
        direct.bind(A, key, {})
        direct.bind(B, key, {})
    direct.remove_destination(A)
    assert direct.matches("red", None) == direct.matches("green", None) == [B]


def test_fanout_goes_everywhere_once() -> None:
    fanout = FanoutExchange({})
    assert fanout.matches("any", None) == []
    fanout.bind(B, "x", {})
    fanout.bind(A, "", {})
    fanout.bind(B, "y", {})
    assert fanout.matches("any", None) == [B, A]
    fanout.unbind(B, "x", {})
    assert fanout.matches("", None) == [B, A]
    fanout.unbind(B, "y", {})
    assert fanout.matches("", None) == [A]
    fanout.remove_destination(A)
    assert fanout.is_unused


def test_what_matches_returns_belongs_to_the_caller() -> None:
    direct = DirectExchange({})
    fanout = FanoutExchange({})
    for exchange in (direct, fanout):
        exchange.bind(A, "k", {})
        exchange.matches("k", None).append(B)
        assert exchange.matches("k", None) == [A]
