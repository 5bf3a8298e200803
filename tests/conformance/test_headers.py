"""The headers exchange: which messages match which arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Named = Callable[[str], str]


@pytest.fixture
def exchange(channel: Channel, named: Named) -> str:
    name = named("headers")
    channel.call("exchange.declare", exchange=name, type="headers")
    return name


def _matches(channel: Channel, exchange: str, arguments: dict[str, Any], headers: dict[str, Any] | None) -> bool:
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=exchange, arguments=arguments)
    properties = {} if headers is None else {"headers": headers}
    channel.publish(exchange, "ignored", b"m", False, False, **properties)
    return channel.get_bodies(queue) == [b"m"]


@pytest.mark.holds("headers exchange: x-match all is the default: every argument is a header of that value")
@pytest.mark.parametrize("mode", [{}, {"x-match": "all"}], ids=["default", "all"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"a": 1, "b": "two"}, True),
        ({"a": 1, "b": "two", "c": 3}, True),
        ({"a": 1}, False),
        ({"a": 1, "b": "TWO"}, False),
        ({"a": "1", "b": "two"}, False),
        ({}, False),
        (None, False),
    ],
    ids=str,
)
def test_all_must_match(
    channel: Channel, exchange: str, mode: dict[str, Any], headers: dict[str, Any] | None, expected: bool
) -> None:
    """Types count: the string 1 is not the number 1."""
    assert _matches(channel, exchange, {"a": 1, "b": "two", **mode}, headers) is expected


@pytest.mark.holds("headers exchange: x-match any: one of the arguments is a header of that value")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"a": 1}, True),
        ({"b": "two", "c": 3}, True),
        ({"a": 2, "b": "no"}, False),
        ({}, False),
        (None, False),
    ],
    ids=str,
)
def test_any_may_match(channel: Channel, exchange: str, headers: dict[str, Any] | None, expected: bool) -> None:
    """Nothing present, nothing matched."""
    arguments = {"x-match": "any", "a": 1, "b": "two"}
    assert _matches(channel, exchange, arguments, headers) is expected


@pytest.mark.holds("headers exchange: without arguments, all matches every message and any matches none")
@pytest.mark.parametrize(("mode", "expected"), [("all", True), ("any", False)])
@pytest.mark.parametrize("headers", [None, {}, {"a": 1}], ids=str)
def test_no_arguments(
    channel: Channel, exchange: str, mode: str, headers: dict[str, Any] | None, expected: bool
) -> None:
    """The empty and, the empty or."""
    assert _matches(channel, exchange, {"x-match": mode}, headers) is expected


@pytest.mark.holds("headers exchange: arguments that begin with x- are ignored, unless all-with-x or any-with-x")
@pytest.mark.parametrize(
    ("mode", "headers", "expected"),
    [
        ("all", {"a": 1}, True),
        ("all", {"a": 1, "x-b": 3}, True),
        ("all-with-x", {"a": 1}, False),
        ("all-with-x", {"a": 1, "x-b": 2}, True),
        ("any", {"x-b": 2}, False),
        ("any-with-x", {"x-b": 2}, True),
        ("any-with-x", {"x-b": 3}, False),
    ],
)
def test_x_headers(channel: Channel, exchange: str, mode: str, headers: dict[str, Any], expected: bool) -> None:
    """x-match itself is never compared."""
    assert _matches(channel, exchange, {"x-match": mode, "a": 1, "x-b": 2}, headers) is expected


@pytest.mark.holds("headers exchange: an argument without a value (void) asks for presence only")
@pytest.mark.parametrize(("headers", "expected"), [({"a": 1}, True), ({"a": None}, True), ({"b": 1}, False)])
def test_void_asks_for_presence(channel: Channel, exchange: str, headers: dict[str, Any], expected: bool) -> None:
    """Any value will do."""
    assert _matches(channel, exchange, {"a": None}, headers) is expected


@pytest.mark.holds("headers exchange: numbers are compared by value, whatever their type")
@pytest.mark.parametrize("bound", ["b", "s", "I", "l", "d"])
@pytest.mark.parametrize("sent", ["b", "B", "s", "u", "I", "i", "l", "f", "d"])
def test_numbers_compare_by_value(channel: Channel, exchange: str, bound: str, sent: str) -> None:
    """All integer sizes match each other, and 1 matches 1.0."""
    arguments, headers = {"n": Typed(bound, 1)}, {"n": Typed(sent, 1)}
    assert _matches(channel, exchange, arguments, headers)
    assert not _matches(channel, exchange, arguments, {"n": Typed(sent, 2)})


@pytest.mark.holds("headers exchange: other types match by value")
@pytest.mark.parametrize("value", [True, "text", "", [1, "a"], {"k": "v"}, Typed("T", 17)], ids=str)
def test_other_types_match_by_value(channel: Channel, exchange: str, value: Any) -> None:
    """Strings, booleans, times, arrays and tables."""
    assert _matches(channel, exchange, {"k": value}, {"k": value})
    assert not _matches(channel, exchange, {"k": value}, {"k": "something else"})


@pytest.mark.holds("headers exchange: x-match of another value or type -> 406")
@pytest.mark.parametrize("value", ["some", 5, True])
def test_a_bad_x_match_is_a_406(channel: Channel, exchange: str, value: Any) -> None:
    """The text speaks of x-match."""
    queue = channel.declare(exclusive=True)
    channel.send("queue.bind", queue=queue, exchange=exchange, arguments={"x-match": value})
    assert "Invalid x-match field" in channel.expect_close(406, by="queue.bind")


@pytest.mark.holds("headers exchange: bindings to exchanges match likewise")
def test_exchanges_can_be_bound_by_headers(channel: Channel, exchange: str, named: Named) -> None:
    """A fanout behind a headers exchange."""
    fanout = named("fanout")
    channel.call("exchange.declare", exchange=fanout, type="fanout")
    channel.call("exchange.bind", destination=fanout, source=exchange, arguments={"a": 1})
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=fanout)
    channel.publish(exchange, "", b"yes", headers={"a": 1})
    channel.publish(exchange, "", b"no", headers={"a": 2})
    assert channel.get_bodies(queue) == [b"yes"]
