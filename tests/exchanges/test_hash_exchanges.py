"""x-consistent-hash and x-modulus-hash: who gets which key, and how many keys move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

import pytest

from exchanges.bindings import Destination
from exchanges.consistent_hash import MAX_WEIGHT, POINTS_PER_WEIGHT, ConsistentHashExchange, ring_points
from exchanges.modulus_hash import ModulusHashExchange
from tests.exchanges.facts import Facts

KEYS = [f"key {number}" for number in range(4000)]


def queue(name: object) -> Destination:
    return Destination("queue", str(name))


def ring(weights: Mapping[str, str]) -> ConsistentHashExchange:
    exchange = ConsistentHashExchange({})
    for name, weight in weights.items():
        exchange.bind(queue(name), weight, {})
    return exchange


def owners(exchange: ConsistentHashExchange) -> list[str]:
    return [exchange.matches(key, None)[0].name for key in KEYS]


def test_every_message_goes_to_one_destination() -> None:
    exchange = ring({"a": "1", "b": "1", "c": "1"})
    assert all(len(exchange.matches(key, None)) == 1 for key in KEYS)
    assert sorted(Counter(owners(exchange))) == ["a", "b", "c"]


def test_the_owner_of_a_key_is_the_same_in_every_process() -> None:
    exchange = ring({"a": "1", "b": "2", "c": "3"})
    found = [exchange.matches(key, None)[0].name for key in ("", "k", "order.1", "order.2", "\udcff")]
    assert found == ["a", "a", "b", "c", "a"]


def test_a_key_belongs_to_the_first_point_at_or_behind_its_hash() -> None:
    names = ("b", "c")
    owner_of = {int.from_bytes(point, "big"): name for name in names for point in ring_points(queue(name), 0, 1)}
    points = sorted(owner_of)
    assert len(points) == len(names) * POINTS_PER_WEIGHT
    around = 0
    for key, owner in zip(KEYS, owners(ring(dict.fromkeys(names, "1"))), strict=True):
        hashed = int.from_bytes(blake2b(key.encode(), digest_size=16).digest(), "big")
        behind = [point for point in points if point >= hashed]
        around += not behind
        assert owner == owner_of[min(behind or points)]
    # Some keys lie behind the last point, so that the circle is seen to close.
    assert around > 0
    assert owner_of[points[0]] != owner_of[points[-1]]


def test_the_owner_of_a_key_does_not_depend_on_the_order_of_binding() -> None:
    assert owners(ring({"a": "1", "b": "2", "c": "3"})) == owners(ring({"c": "3", "a": "1", "b": "2"}))


def test_a_binding_that_comes_takes_its_share_and_moves_no_other_key() -> None:
    exchange = ring({"a": "10", "b": "10", "c": "10"})
    before = owners(exchange)
    exchange.bind(queue("d"), "10", {})
    after = owners(exchange)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert all(new == "d" for _, new in moved)
    assert 0.2 < len(moved) / len(KEYS) < 0.3
    exchange.unbind(queue("d"), "10", {})
    assert owners(exchange) == before


def test_a_queue_that_goes_moves_only_its_own_keys() -> None:
    exchange = ring({"a": "10", "b": "10", "c": "10"})
    before = owners(exchange)
    exchange.remove_destination(queue("b"))
    after = owners(exchange)
    assert all(new == old for old, new in zip(before, after, strict=True) if old != "b")
    assert "b" not in after


def test_shares_follow_the_weights() -> None:
    shares = Counter(owners(ring({"a": "10", "b": "20", "c": "30"})))
    for name, weight in (("a", 1), ("b", 2), ("c", 3)):
        assert shares[name] / len(KEYS) == pytest.approx(weight / 6, rel=0.2)


def test_weights_of_one_queue_add_up() -> None:
    exchange = ring({"a": "3", "b": "3"})
    twice = ring({"a": "1", "b": "3"})
    twice.bind(queue("a"), "2", {})
    assert owners(twice) == owners(exchange)
    twice.unbind(queue("a"), "1", {})
    assert owners(twice) == owners(ring({"a": "2", "b": "3"}))


@pytest.mark.parametrize("weight", ["", "a", "-1", "0", "00", " 3", "3.0", "1_0", "٣", "0x1"])
def test_a_binding_key_that_is_no_weight_is_refused(weight: str) -> None:
    exchange = ConsistentHashExchange({})
    with pytest.raises(ValueError, match="must be a positive integer"):
        exchange.bind(queue("a"), weight, {})
    assert exchange.is_unused


@pytest.mark.parametrize("weight", [str(MAX_WEIGHT + 1), "9" * 200, "9" * 5000])
def test_a_weight_without_measure_is_refused(weight: str) -> None:
    with pytest.raises(ValueError, match=f"at most {MAX_WEIGHT}"):
        ConsistentHashExchange({}).bind(queue("a"), weight, {})


@pytest.mark.parametrize("weight", ["007", "+3", str(MAX_WEIGHT)])
def test_a_decimal_integer_is_a_weight(weight: str) -> None:
    exchange = ConsistentHashExchange({})
    assert exchange.bind(queue("a"), weight, {})
    assert len(exchange.matches("k", None)) == 1


def test_hash_header_decides_instead_of_the_routing_key() -> None:
    exchange = ConsistentHashExchange({"hash-header": "tenant"})
    assert exchange.routes_by_headers
    for name in "abcdefgh":
        exchange.bind(queue(name), "10", {})
    same = {exchange.matches(key, Facts({"tenant": "t1"}))[0] for key in KEYS[:50]}
    assert len(same) == 1
    spread = {exchange.matches("k", Facts({"tenant": value}))[0] for value in range(200)}
    assert len(spread) == 8
    absent = {tuple(exchange.matches(key, facts)) for key in KEYS[:50] for facts in (Facts(), None)}
    assert len(absent) == 1


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_hash_property_decides_instead_of_the_routing_key(name: str) -> None:
    exchange = ConsistentHashExchange({"hash-property": name})
    assert exchange.routes_by_headers
    for destination in "abcdefgh":
        exchange.bind(queue(destination), "10", {})
    assert len({exchange.matches(key, Facts({}, {name: 7}))[0] for key in KEYS[:50]}) == 1
    assert len({exchange.matches("k", Facts({}, {name: value}))[0] for value in range(200)}) == 8
    assert exchange.matches("k", None) == exchange.matches("other", Facts())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "mutually exclusive"),
        ({"hash-property": "user_id"}, "Unsupported property: user_id; expected correlation_id"),
        ({"hash-header": 1}, "'hash-header' must be a string, not 1"),
        ({"hash-property": True}, "'hash-property' must be a string, not True"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ConsistentHashExchange(arguments)


def test_without_arguments_routes_depend_on_the_key_alone() -> None:
    assert not ConsistentHashExchange({}).routes_by_headers


def test_modulus_hash_picks_one_destination_by_the_key() -> None:
    exchange = ModulusHashExchange({})
    assert exchange.matches("k", None) == []
    for name in ("c", "a", "b"):
        exchange.bind(queue(name), "ignored", {})
    # The CRC-32 of the keys, 3416140844 and 1385659798, leaves 2 and 1 modulo 3; destinations count by name.
    assert exchange.matches("order.1", None) == [queue("c")]
    assert exchange.matches("order.2", None) == [queue("b")]
    assert Counter(exchange.matches(key, None)[0].name for key in KEYS).keys() == {"a", "b", "c"}
    exchange.remove_destination(queue("a"))
    exchange.remove_destination(queue("c"))
    assert exchange.matches("order.1", None) == exchange.matches("order.2", None) == [queue("b")]
    exchange.unbind(queue("b"), "ignored", {})
    assert exchange.matches("order.1", None) == []
