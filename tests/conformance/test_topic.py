"""The topic exchange: words, * and #."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]


@pytest.fixture
def exchange(channel: Channel, named: Named) -> str:
    name = named("topic")
    channel.call("exchange.declare", exchange=name, type="topic")
    return name


@pytest.mark.holds("topic exchange: * is one word, # is any number of words")
@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "b.a", "ab", ""]),
        ("a.*", ["a.b", "a.", "a.*"], ["a", "a.b.c", "b.a"]),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
        ("*", ["a", "abc"], ["a.b", "."]),
        ("#", ["", "a", "a.b.c", ".", ".."], []),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["b", "b.a", "ab"]),
        ("#.b", ["b", "a.b", "a.a.b", ".b"], ["a", "b.a"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b", "a..b"], ["a", "b", "a.x", "x.a.b"]),
        ("#.a.#", ["a", "x.a", "a.x", "x.a.y"], ["x", "", "x.y"]),
        ("*.*", ["a.b", "."], ["a", "a.b.c"]),
        ("*.#", ["a", "a.b", "."], []),
        ("#.*", ["a", "a.b", "."], []),
        ("#.#", ["", "a", "a.b"], []),
        ("*.#.*", ["a.b", "a.b.c", "."], ["a"]),
        ("a*.b", ["a*.b"], ["ab.b", "a.b"]),
        ("a#", ["a#"], ["a", "a.b"]),
        ("", [""], ["a", "."]),
        (".", ["."], ["", "a.b"]),
        ("ü.*", ["ü.ö"], ["u.o"]),
    ],
)
def test_patterns(channel: Channel, exchange: str, pattern: str, matching: list[str], others: list[str]) -> None:
    """The routing key's own * and # are ordinary characters."""
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=pattern)
    for key in [*matching, *others]:
        channel.publish(exchange, key, key.encode())
    if pattern == "":
        # queue and key both empty would mean the queue's name; the queue is named here, so the key is empty
        assert matching == [""]
    assert channel.get_bodies(queue) == [key.encode() for key in matching]


@pytest.mark.holds("topic exchange: the empty routing key has no words: # matches it, * does not")
def test_the_empty_key_has_no_words(channel: Channel, exchange: str) -> None:
    """Zero words, not one empty word."""
    queues = {pattern: channel.declare(exclusive=True) for pattern in ("#", "*", "#.*", "*.#")}
    for pattern, queue in queues.items():
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=pattern)
    channel.publish(exchange, "", b"m")
    assert {pattern for pattern, queue in queues.items() if channel.get_bodies(queue)} == {"#"}


@pytest.mark.holds("topic exchange: unbinding one of several patterns leaves the others")
def test_unbinding_one_pattern(channel: Channel, exchange: str) -> None:
    """Patterns that share words do not share their fate."""
    queue = channel.declare(exclusive=True)
    patterns = ["a.b.c", "a.b.*", "a.#", "a.b", "*.b.c"]
    for pattern in patterns:
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=pattern)
    for index, pattern in enumerate(patterns):
        channel.publish(exchange, "a.b.c", b"%d" % index)
        assert channel.get_bodies(queue) == [b"%d" % index]
        channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key=pattern)
    channel.publish(exchange, "a.b.c", b"unbound")
    assert channel.get_bodies(queue) == []


@pytest.mark.octets_too_slow
@pytest.mark.holds("topic exchange: patterns with many # are matched in reasonable time")
@pytest.mark.ours_only("takes minutes of processor time")
def test_many_hashes_are_not_exponential(channel: Channel, exchange: str) -> None:
    """Twelve # between words, against sixty-one words that almost match."""
    queue = channel.declare(exclusive=True)
    pattern = ".".join(["#", "a"] * 12) + ".#.z"
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=pattern)
    channel.publish(exchange, ".".join(["a"] * 61), b"almost")
    channel.publish(exchange, ".".join(["a"] * 60 + ["z"]), b"exactly")
    assert channel.get_bodies(queue) == [b"exactly"]
