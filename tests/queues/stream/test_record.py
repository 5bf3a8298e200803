"""Records: what a stream delivers is what was published, with the offset let in; copied or made, it is the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.flow.output import Output
from amqp_broker.octets.buffer import Buffer
from amqp_broker.protocol.fields import Table, join_table, typed
from amqp_broker.protocol.properties import decode_properties, encode_properties, replace_properties
from queues.message import Address, Message, build_message, remake_message
from queues.page import AddressBook
from queues.stream.record import (
    OFFSET_HEADER,
    PARTITION_HEADER,
    get_record,
    next_record,
    place_of_header,
    put_record,
    write_record,
)

_PREFIX = b"\1\0\7\0\0\0\0\0\x3c\0\x3c\3tag"
_NAMES = st.text(max_size=80).filter(lambda name: len(name.encode()) <= 255)
_VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=20), st.booleans(), st.just(Decimal("1.5")))


@st.composite
def properties(draw: st.DrawFn) -> dict[str, Any]:
    """Of a message, as a client sets them."""
    found: dict[str, Any] = {}
    for name in ("content_type", "content_encoding", "message_id", "app_id"):
        if draw(st.booleans()):
            found[name] = draw(st.text(max_size=20))
    if draw(st.booleans()):
        keys = _NAMES.filter(lambda name: name not in ("", OFFSET_HEADER))
        found["headers"] = draw(st.dictionaries(keys, _VALUES, max_size=4))
    if draw(st.booleans()):
        found["delivery_mode"] = draw(st.sampled_from([1, 2]))
    return found


@st.composite
def messages(draw: st.DrawFn, largest: int = 300) -> tuple[dict[str, Any], Message]:
    raw = b"".join(bytes([len(name.encode())]) + name.encode() for name in (draw(_NAMES), draw(_NAMES)))
    said = draw(properties())
    body = draw(st.binary(max_size=largest))
    return said, build_message(Address(raw), encode_properties(said), body, True, -1, -1, 0)


def packed(*records: Message) -> bytes:
    buffer = Buffer()
    for number, message in enumerate(records):
        put_record(buffer, message, number, 0, 0, 0)
    return buffer.take()


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(0, 2**63 - 1))
def test_a_record_is_the_message_with_its_offset(made: list[tuple[dict[str, Any], Message]], offset: int) -> None:
    octets = packed(*[message for _, message in made])
    at = 0
    for said, message in made:
        found = get_record(octets, at, offset, 7, AddressBook())
        headers = {OFFSET_HEADER: offset, **said.get("headers", {})}
        assert found.raw == message.raw
        assert found.body_bytes() == message.body_bytes()
        read = decode_properties(found.properties())
        wanted = {**said, **({"headers": headers} if "headers" in said else {})}
        assert {name: getattr(read, name) for name in said} == wanted
        assert dict(read.headers or {}) == headers
        assert read.headers.kind(OFFSET_HEADER) == "l"
        at = next_record(octets, at)
    assert at == len(octets)


def delivered(message: Message, tag: int, channel: int) -> bytes:
    output = Output()
    output.put_deliver(_PREFIX, len(_PREFIX), tag, False, message, channel, 131_072)
    return output.buffer.take()


@given(messages(), st.integers(0, 2**63 - 1), st.integers(1, 2**64 - 1), st.integers(1, 65535))
def test_a_copied_delivery_is_what_a_made_one_is(
    made: tuple[dict[str, Any], Message], offset: int, tag: int, channel: int
) -> None:
    octets = packed(made[1])
    copied = Buffer()
    copied.put_bytes(b"before")
    assert write_record(copied, _PREFIX, len(_PREFIX), tag, octets, 0, offset, channel, b"") == len(octets)
    message = get_record(octets, 0, offset, 0, AddressBook())
    assert copied.take() == b"before" + delivered(message, tag, channel)


@given(messages(), st.integers(0, 2**63 - 1), st.integers(0, 10_000))
def test_one_of_a_partition_has_a_header_more(
    made: tuple[dict[str, Any], Message], offset: int, partition: int
) -> None:
    """Behind the offset; all else is as without."""
    octets = packed(made[1])
    field = join_table([(PARTITION_HEADER, typed("l", partition))])
    copied = Buffer()
    assert write_record(copied, _PREFIX, len(_PREFIX), 7, octets, 0, offset, 3, field) == len(octets)
    message = get_record(octets, 0, offset, 0, AddressBook())
    offset_field = join_table([(OFFSET_HEADER, typed("l", offset))])
    headers = decode_properties(message.properties()).headers
    assert headers is not None
    raw = headers.raw.replace(offset_field, offset_field + field, 1)
    properties = replace_properties(message.properties(), headers=Table({}, raw))
    wanted = remake_message(message, message.raw, properties, message.expiration)
    assert copied.take() == delivered(wanted, 7, 3)


def test_a_long_body_lies_behind_its_header() -> None:
    message = build_message(Address(b"\0\1q"), b"\0\0", b"x" * 20_000, True, -1, -1, 0)
    octets = packed(message, message)
    found = get_record(octets, next_record(octets, 0), 3, 0, AddressBook())
    assert found.body_bytes() == message.body_bytes()
    assert found.body is not None
    assert decode_properties(found.properties()).headers == {OFFSET_HEADER: 3}


def test_properties_that_are_cut_are_refused() -> None:
    message = build_message(Address(b"\0\1q"), b"\xc0\0\xff", b"", True, -1, -1, 0)
    with pytest.raises(ValueError, match="ends before its properties do"):
        place_of_header(message.content, message.header_end)
