"""Streams are looked at by offset, forwards and back, whatever is in RAM; nothing comes of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.leases.test_stream_reads import a_stream, publish


def peek(service: Any, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = service.ask("queue.peek", vhost="/", name="s", **fields).fields
    assert found["ok"], found
    return found


def bodies(found: dict[str, Any]) -> list[tuple[int, bytes]]:
    return [(each["position"], base64.b64decode(each["payload"])) for each in found["messages"]]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 3, 20_000]), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(0, 12), st.integers(1, 6), st.booleans(),
)  # fmt: skip
def test_a_page_from_anywhere_is_what_lies_there(
    chunks: list[list[int]], start: int, limit: int, is_backwards: bool
) -> None:
    service = a_stream()
    published: list[bytes] = []
    for sizes in chunks:
        new = [b"%d:" % (len(published) + number) + b"x" * size for number, size in enumerate(sizes)]
        publish(service, *new)
        published += new
    found = peek(service, from_=start, limit=limit, backwards=is_backwards)
    offsets = list(range(min(start, len(published) - 1), -1, -1) if is_backwards else range(start, len(published)))
    assert bodies(found) == [(offset, published[offset]) for offset in offsets[:limit]]
    assert found["next"] == (offsets[limit] if len(offsets) > limit else None)


def test_a_message_as_it_was_published() -> None:
    service = a_stream()
    publish(service, b"", b"one", b"y" * 20_000, type="t", headers={"a": 1})
    first, second, third = peek(service)["messages"]
    assert (second["routing_key"], second["properties"]) == ("s", {"type": "t", "headers": {"a": 1}})
    assert (first["payload_bytes"], second["payload_bytes"], third["payload_bytes"]) == (0, 3, 20_000)
    assert second["arrived"] is not None
    part = peek(service, from_=2, limit=1, body_from=19_998, max_body_bytes=10)
    assert bodies(part) == [(2, b"yy")]
    assert [position for position, _ in bodies(peek(service, from_="newest", limit=2))] == [2, 1]
    assert bodies(peek(service, filter="one")) == [(1, b"one")]


def test_what_was_trimmed_is_passed_over_and_an_empty_stream_has_nothing() -> None:
    service = a_stream()
    assert bodies(peek(service)) == []
    assert bodies(peek(service, from_="newest")) == []
    publish(service, b"0", b"1", b"2")
    service.ask("stream.trim", vhost="/", name="s", before=1)
    assert bodies(peek(service)) == [(1, b"1"), (2, b"2")]
    assert bodies(peek(service, from_="newest")) == [(2, b"2"), (1, b"1")]
    assert bodies(peek(service, state="unacked")) == []
    service.ask("stream.trim", vhost="/", name="s", before=3)
    assert bodies(peek(service)) == []


@pytest.mark.parametrize("begin", ["oldest", "newest"])
def test_pages_that_are_cold_are_seen_too(begin: str) -> None:
    service = a_stream()
    page = service.driver.node.store.pager.page_bytes
    for number in range(40):
        publish(service, b"%02d" % number + b"x" * page)
    seen = []
    found = peek(service, from_=begin, limit=100, max_body_bytes=2)
    while True:
        seen += [position for position, _ in bodies(found)]
        if found["next"] is None:
            break
        found = peek(service, from_=found["next"], limit=100, max_body_bytes=2, backwards=begin == "newest")
    assert seen == (list(range(40)) if begin == "oldest" else list(range(39, -1, -1)))
