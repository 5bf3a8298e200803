"""The headers index against a brute-force matcher, and RabbitMQ's rules for x-match."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchanges.bindings import Destination
from exchanges.headers import HeadersExchange
from tests.exchanges.facts import Facts

Table = dict[str, object]


def queue(name: object) -> Destination:
    return Destination("queue", str(name))


def is_same(one: object, other: object) -> bool:
    """Equality of header values as RabbitMQ has it, case by case."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return isinstance(one, Decimal) and isinstance(other, Decimal) and one == other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(is_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return plain(one) == plain(other)


def plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)).total_seconds()
    return value


def is_match(binding: Table, headers: Table) -> bool:
    """The rule, one field after the other."""
    mode = str(binding.get("x-match", "all"))
    checks = []
    for name, wanted in binding.items():
        if name == "x-match" or (name.startswith("x-") and not mode.endswith("-with-x")):
            continue
        checks.append(name in headers and (wanted is None or is_same(wanted, headers[name])))
    return any(checks) if mode.startswith("any") else all(checks)


@pytest.mark.parametrize(
    ("binding", "headers", "expected"),
    [
        ({}, {}, True),
        ({}, {"a": 1}, True),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}, False),
        ({"x-match": "any", "x-foo": 1}, {"x-foo": 1}, False),
        ({"x-match": "any-with-x", "x-foo": 1}, {"x-foo": 1}, True),
        ({"x-match": "all", "x-foo": 1}, {}, True),
        ({"x-match": "all-with-x", "x-foo": 1}, {}, False),
        ({"x-match": "all-with-x", "x-foo": None}, {"x-foo": 3}, True),
        ({"X-foo": 1}, {}, False),
        ({"a": None}, {"a": 5}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": 5}, {"a": None}, False),
        ({"x-match": "any", "a": None, "b": 2}, {"a": 7}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "x"}, {"a": b"x"}, True),
        ({"a": datetime(2020, 1, 1)}, {"a": 1577836800}, True),
        ({"a": Decimal("1")}, {"a": 1}, False),
        ({"a": ["x", 1]}, {"a": ["x", 1]}, True),
        ({"a": {"p": 1}}, {"a": {"p": 2}}, False),
    ],
)
def test_one_binding(binding: Table, headers: Table, expected: bool) -> None:
    exchange = HeadersExchange({})
    exchange.bind(queue(1), "ignored", binding)
    assert exchange.matches("any", Facts(headers)) == ([queue(1)] if expected else [])
    assert is_match(binding, headers) is expected


NAMES = st.sampled_from(["a", "b", "c", "x-d", "x-e"])
VALUES = st.sampled_from(
    [
        None,
        0,
        1,
        1.0,
        2,
        True,
        False,
        "1",
        b"1",
        "x",
        Decimal(1),
        Decimal("1.0"),
        datetime(1970, 1, 1, 0, 0, 1),
    ]
) | st.sampled_from([[1], [True], ["1"], {"k": 1}, {"k": 1.0}, {}, []]).map(lambda value: value)
TABLES = st.dictionaries(NAMES, VALUES, max_size=4)
MODES = st.sampled_from([{}, *({"x-match": mode} for mode in ("all", "any", "all-with-x", "any-with-x"))])
BINDINGS = st.builds(lambda mode, table: {**mode, **table}, MODES, TABLES)


@given(bindings=st.lists(BINDINGS, max_size=12), messages=st.lists(TABLES, min_size=1, max_size=8))
def test_the_index_agrees_with_brute_force(bindings: list[Table], messages: list[Table]) -> None:
    exchange = HeadersExchange({})
    for number, binding in enumerate(bindings):
        exchange.bind(queue(number), "", binding)
    for headers in messages:
        expected = [queue(number) for number, binding in enumerate(bindings) if is_match(binding, headers)]
        assert sorted(exchange.matches("", Facts(headers))) == sorted(expected)


# Few names and values, and many bindings: places of the tree fill up and are split, and empty again.
NARROW = st.dictionaries(NAMES, st.sampled_from([None, 0, 1, True, "x"]), max_size=5)


@given(data=st.data(), bindings=st.lists(st.tuples(MODES, NARROW), min_size=20, max_size=60))
@settings(max_examples=25)
def test_a_deep_tree_agrees_with_brute_force(data: st.DataObject, bindings: list[tuple[Table, Table]]) -> None:
    exchange = HeadersExchange({})
    alive: dict[int, Table] = {}
    for number, (mode, table) in enumerate(bindings):
        alive[number] = {**mode, **table}
        assert exchange.bind(queue(number), "", alive[number])
    for _ in range(3):
        headers = data.draw(NARROW)
        expected = {queue(number) for number, binding in alive.items() if is_match(binding, headers)}
        assert set(exchange.matches("", Facts(headers))) == expected
        for number in data.draw(st.sets(st.sampled_from(sorted(alive)))) if alive else ():
            assert exchange.unbind(queue(number), "", alive.pop(number))
    for number, binding in alive.items():
        assert exchange.unbind(queue(number), "", binding)
    assert exchange.index_size == 0


@given(
    bindings=st.lists(st.tuples(st.integers(0, 3), BINDINGS), max_size=12),
    taken=st.lists(st.integers(0, 11), max_size=8),
    removed=st.integers(0, 5),
    headers=TABLES,
)
def test_what_is_unbound_matches_no_more(
    bindings: list[tuple[int, Table]], taken: list[int], removed: int, headers: Table
) -> None:
    exchange = HeadersExchange({})
    alive = [(number, binding) for number, binding in bindings if exchange.bind(queue(number), "", binding)]
    for index in taken:
        if index < len(alive):
            number, binding = alive.pop(index)
            assert exchange.unbind(queue(number), "", binding)
    assert exchange.remove_destination(queue(removed)) == sum(number == removed for number, _ in alive)
    alive = [(number, binding) for number, binding in alive if number != removed]
    expected = {queue(number) for number, binding in alive if is_match(binding, headers)}
    assert sorted(exchange.matches("", Facts(headers))) == sorted(expected)
    for number, binding in alive:
        assert exchange.unbind(queue(number), "", binding)
    assert exchange.is_unused
    before = exchange.examined
    assert exchange.matches("", Facts(headers)) == []
    assert exchange.examined == before


def test_a_message_without_headers_meets_only_bindings_without_conditions() -> None:
    exchange = HeadersExchange({})
    exchange.bind(queue("all"), "", {})
    exchange.bind(queue("any"), "", {"x-match": "any", "a": 1})
    assert exchange.matches("", None) == [queue("all")]
    assert exchange.matches("", Facts()) == [queue("all")]


def test_a_queue_bound_twice_is_named_once() -> None:
    exchange = HeadersExchange({})
    exchange.bind(queue(1), "one", {"a": 1})
    exchange.bind(queue(1), "two", {"a": 1})
    exchange.bind(queue(1), "", {"x-match": "any", "a": 1, "b": 2})
    assert exchange.matches("", Facts({"a": 1, "b": 2})) == [queue(1)]
    exchange.unbind(queue(1), "one", {"a": 1})
    assert exchange.matches("", Facts({"a": 1})) == [queue(1)]


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("foo", "Invalid x-match field value 'foo'; expected all, any, all-with-x, or any-with-x"),
        ("ALL", "Invalid x-match field value 'ALL'; expected all, any, all-with-x, or any-with-x"),
        (1, r"Invalid x-match field type int \(value 1\); expected longstr"),
        (None, r"Invalid x-match field type NoneType \(value None\); expected longstr"),
    ],
)
def test_a_wrong_x_match_is_refused_and_changes_nothing(mode: object, text: str) -> None:
    exchange = HeadersExchange({})
    with pytest.raises(ValueError, match=text):
        exchange.bind(queue(1), "", {"x-match": mode, "a": 1})
    assert exchange.is_unused
    assert exchange.matches("", Facts({"a": 1})) == []
