"""x-stream-offset: where a consumer of a stream begins; x-stream-filter: what it wants of it."""

from __future__ import annotations

import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from amqp_broker.protocol.fields import Table, decode_table, typed
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.queue_types.stream.filters import ReaderFilter, parse_filter, value_of
from amqp_broker.queue_types.stream.offsets import parse_start
from queues.arguments import ArgumentError
from queues.message import Address, Message, build_message
from queues.pager import Pager
from queues.stream.chunk import Chunk, ChunkBuilder
from queues.stream.record import hash_of
from queues.stream.settings import StreamSettings
from queues.stream.start import place_of
from queues.stream.stream import Stream
from storage.page_store import PageStore
from tests.simulation.simulated_disk import SimulatedDisk

BEGIN = 1_700_000_000_000
HOUR = 3_600_000


def as_received(arguments: dict[str, Any]) -> Table:
    return decode_table(Table(arguments).raw)


def message(body: bytes = b"x", **headers: Any) -> Message:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    properties = encode_properties({"headers": named} if named else {})
    return build_message(Address(b"\0\1k"), properties, body, True, -1, -1, 0)


def chunk(*messages: Message) -> bytes:
    builder = ChunkBuilder(16)
    for each in messages:
        value = value_of(each)
        builder.add(each, 0, hash_of(value) if value is not None else 0)
    return builder.seal()


def a_pager() -> Pager:
    return Pager(PageStore(SimulatedDisk(random.Random(1)), 3000), 1 << 20, 1000, 10, 1000)


@pytest.fixture
def stream() -> Stream:
    """Offsets 10 to 39 in three chunks, an hour after each other: 10.., 20.., 30.."""
    found = Stream(1, StreamSettings(), a_pager())
    for number in range(4):
        found.append(Chunk(chunk(*[message()] * 10)), BEGIN + number * HOUR)
    found.trim(10)
    return found


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        ("first", 10), ("last", 30), ("next", 40),
        (0, 10), (10, 10), (25, 25), (39, 39), (40, 40),
        (typed("b", 25), 25), (typed("B", 25), 25), (typed("u", 25), 25), (typed("l", 25), 25), (typed("L", 25), 25),
        (-1, 39), (-30, 10), (-1000, 10),
        (datetime(2001, 1, 1), 10), (datetime(2023, 11, 14, 23, 13, 20), 10), (datetime(2023, 11, 15), 20),
        (datetime(2023, 11, 15, 0, 30), 30), (datetime(2100, 1, 1), 40), (typed("T", (1 << 63)), 40),
        ("1h", 40), ("2h", 30), ("90m", 40), ("3h", 20), ("1Y", 10),
    ],
    ids=str,
)  # fmt: skip
def test_where_it_begins(stream: Stream, value: Any, offset: int) -> None:
    now = BEGIN + 5 * HOUR
    assert place_of(parse_start(as_received({"x-stream-offset": value})), stream, now) == offset


@pytest.mark.parametrize("offset", [41, 1000, 1 << 62])
def test_what_is_beyond_the_end_is_left_to_who_knows_whether_this_node_is_behind(stream: Stream, offset: int) -> None:
    assert place_of(parse_start(as_received({"x-stream-offset": offset})), stream, BEGIN) == offset


def test_without_an_offset_it_begins_behind_the_last_message(stream: Stream) -> None:
    assert place_of(parse_start(Table({})), stream, BEGIN) == 40


@pytest.mark.parametrize("value", ["first", "last", "next", 0, -7, "1h", datetime(2100, 1, 1)], ids=str)
def test_of_an_empty_stream_there_is_one_offset(value: Any) -> None:
    empty = Stream(1, StreamSettings(), a_pager())
    assert place_of(parse_start(as_received({"x-stream-offset": value})), empty, BEGIN) == 0


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("12", '{longstr,<<"12">>}'),
        ("1X", '{longstr,<<"1X">>}'),
        ("foo", '{longstr,<<"foo">>}'),
        ("", '{longstr,<<"">>}'),
        ("0s", '{longstr,<<"0s">>}'),
        (True, "{bool,true}"),
        (None, "{void,undefined}"),
        (1.5, "{double,1.5}"),
        (Decimal("1.5"), "{decimal,...}"),
        ({"a": 1}, "{table,...}"),
        ([1], "{array,...}"),
    ],
    ids=str,
)
def test_what_is_no_offset(value: Any, term: str) -> None:
    with pytest.raises(ArgumentError) as found:
        parse_start(as_received({"x-stream-offset": value}))
    assert found.value.reason == f"{{invalid_stream_offset_arg,{term}}}"


def wanted(**arguments: Any) -> ReaderFilter:
    found = parse_filter(Table({key.replace("_", "-"): value for key, value in arguments.items()}))
    assert found is not None
    return found


def test_no_filter_is_no_filter() -> None:
    assert parse_filter(Table({})) is None
    assert parse_filter(Table({"x-stream-match-unfiltered": True})) is None


@pytest.mark.parametrize("value", [5, True, None, [], ["a", 5], {"a": "b"}], ids=str)
def test_what_is_no_filter(value: Any) -> None:
    with pytest.raises(ArgumentError, match="x-stream-filter': expected a string or an array of strings"):
        parse_filter(Table({"x-stream-filter": value}))
    with pytest.raises(ArgumentError, match="x-stream-match-unfiltered"):
        parse_filter(Table({"x-stream-filter": "a", "x-stream-match-unfiltered": "yes"}))


def test_a_filter_passes_over_chunks() -> None:
    has_a = Chunk(chunk(message(x_stream_filter_value="a"), message()))
    has_none = Chunk(chunk(message(), message()))
    assert wanted(x_stream_filter="a").may_want(has_a)
    assert not wanted(x_stream_filter="a").may_want(has_none)
    assert not wanted(x_stream_filter="b").may_want(has_a)
    assert wanted(x_stream_filter=["b", "a"]).may_want(has_a)
    assert wanted(x_stream_filter="a", x_stream_match_unfiltered=True).may_want(has_none)


def test_what_a_filter_lets_through_is_what_was_asked_for() -> None:
    """Two values with the same hash are told apart by their octets."""
    of_a, of_none = message(x_stream_filter_value="a"), message()
    asked = wanted(x_stream_filter="a")
    assert asked.wants(hash_of(b"a"), lambda: of_a)
    assert not asked.wants(hash_of(b"a"), lambda: message(x_stream_filter_value="another"))
    assert not asked.wants(0, lambda: of_none)
    assert wanted(x_stream_filter="b", x_stream_match_unfiltered=True).wants(0, lambda: of_none)
    assert hash_of(b"") == 1
    assert value_of(message(x_stream_filter_value=5)) is None
