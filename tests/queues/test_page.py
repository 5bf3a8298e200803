"""Pages and packed messages: every shape comes back as it was, and octets that do not add up raise ValueError only."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.flow.output import Output
from amqp_broker.octets.buffer import Buffer
from queues.message import Address, Message, build_message
from queues.page import AddressBook, Page, PageBuilder, get_message, put_message
from storage.page_store import PageLocation
from tests.queues.queue_world import ADDRESS, message_named

#: A method frame up to its delivery tag.
_DELIVER = b"\1\0\2\0\0\0\0\0\x3c\0\x3c\3tag"
U63 = st.integers(0, (1 << 63) - 1)
NAMES = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@st.composite
def addresses(draw: st.DrawFn) -> Address:
    exchange, key = draw(NAMES), draw(NAMES)
    raw = b""
    for name in (exchange, key):
        octets = name.encode("utf-8", "surrogateescape")
        raw += bytes([len(octets)]) + octets
    address = Address(raw)
    assert (address.exchange, address.routing_key) == (exchange, key)
    return address


@st.composite
def messages(draw: st.DrawFn) -> Message:
    body = draw(st.one_of(st.just(b""), st.binary(max_size=100), st.just(b"x" * 16_383), st.just(b"y" * 16_384)))
    return build_message(
        draw(addresses()),
        b"\x00\x00" + draw(st.binary(max_size=60)),
        body,
        draw(st.booleans()),
        draw(st.integers(-1, 255)),
        draw(st.integers(-1, (1 << 62))),
        draw(U63),
    )


def facts(message: Message) -> tuple[Any, ...]:
    """Everything that a message consists of."""
    return (
        message.address.exchange,
        message.address.routing_key,
        message.address.raw,
        message.content,
        message.header_end,
        message.body,
        message.body_size,
        message.is_persistent,
        message.priority,
        message.expiration,
        message.timestamp,
        message.size,
        message.properties(),
        message.body_bytes(),
    )


def packed(message: Message) -> bytes:
    buffer = Buffer()
    put_message(buffer, message)
    return buffer.take()


@given(messages(), st.binary(max_size=9), st.binary(max_size=9))
def test_a_message_comes_back_from_anywhere_in_a_blob(message: Message, before: bytes, after: bytes) -> None:
    blob = packed(message)
    found = get_message(before + blob + after, len(before), len(before) + len(blob), AddressBook())
    assert facts(found) == facts(message)


def test_a_body_of_several_chunks() -> None:
    message = build_message(ADDRESS, b"\x00\x00", b"z" * 20_000, True, 3, 5, 7)
    message.body = [b"z" * 12_000, b"", b"z" * 8_000]
    found = get_message(packed(message), 0, len(packed(message)), AddressBook())
    assert facts(found) == facts(message)


@st.composite
def page_records(draw: st.DrawFn) -> list[tuple[Message, int, int, int, int, bool]]:
    sequences = sorted(draw(st.sets(st.integers(1, (1 << 64) - 1), min_size=1, max_size=6)))
    return [
        (
            draw(messages()),
            sequence,
            draw(st.one_of(st.just(0), U63)),
            draw(st.integers(0, (1 << 32) - 1)),
            draw(st.integers(0, 70_000)),
            draw(st.booleans()),
        )
        for sequence in sequences
    ]


def page_of(records: list[tuple[Message, int, int, int, int, bool]]) -> Page:
    builder = PageBuilder()
    for record in records:
        builder.add(*record)
    return builder.seal()


@given(page_records())
def test_a_page_comes_back(records: list[tuple[Message, int, int, int, int, bool]]) -> None:
    page = page_of(records)
    durable = [message for message, *_ in records if message.is_persistent]
    segments = [segment for _, _, _, segment, _, _ in records if segment]
    assert (page.count, page.live, page.first, page.last) == (len(records), len(records), records[0][1], records[-1][1])
    assert page.message_bytes == sum(message.body_size for message, *_ in records)
    assert (page.durable_count, page.durable_bytes) == (len(durable), sum(each.body_size for each in durable))
    assert page.oldest_segment == min(segments, default=0)
    assert page.has_expiring == any(expires_at for _, _, expires_at, *_ in records)
    entries = page.entries(AddressBook())
    assert [
        (facts(each.message), each.sequence, each.expires_at, each.journal_segment, each.returns, each.is_redelivered)
        for each in entries
    ] == [(facts(record[0]), *record[1:4], min(record[4], 65_535), record[5]) for record in records]
    assert all(each.page is None and each.consumer is None for each in entries)


@given(page_records())
def test_entries_of_a_stored_page_rely_on_the_page(records: list[tuple[Message, int, int, int, int, bool]]) -> None:
    page = page_of(records)
    page.location = PageLocation(1, 0, page.size)
    entries = page.entries(AddressBook())
    assert len(entries) == len(records)
    assert all(each.page is page and each.journal_segment == 0 for each in entries)


@given(page_records())
def test_transient_messages_of_a_recovered_page_are_gone(
    records: list[tuple[Message, int, int, int, int, bool]],
) -> None:
    page = page_of(records)
    page.is_recovered = True
    expected = [sequence for message, sequence, *_ in records if message.is_persistent]
    assert [each.sequence for each in page.entries(AddressBook())] == expected


def test_a_builder_is_empty_after_the_seal() -> None:
    builder = PageBuilder()
    builder.add(message_named(1, 10), 1, 5, 3, 0, False)
    builder.seal()
    builder.add(message_named(2, 10, is_persistent=False), 9, 0, 0, 0, False)
    page = builder.seal()
    assert (page.count, page.first, page.last, page.durable_count, page.durable_bytes) == (1, 9, 9, 0, 0)
    assert (page.oldest_segment, page.has_expiring, page.message_bytes) == (0, False, 10)


def _damaged(blob: bytes, position: int, flip: int, cut: int) -> bytes:
    damaged = bytearray(blob)
    damaged[position % len(blob)] ^= flip
    return bytes(damaged[: len(blob) - cut % len(blob)])


def use(message: Message) -> None:
    """What a queue and a consumer do with it must not fail either."""
    message.properties()
    assert len(message.body_bytes()) == message.body_size
    for frame_max in (4096, 131_072):
        output = Output()
        output.put_deliver(_DELIVER, len(_DELIVER), 1, False, message, 2, frame_max)
        frames = -(-message.body_size // (frame_max - 8))
        method = len(_DELIVER) + 9 + len(message.address.raw) + 1
        assert len(b"".join(output.take())) == method + message.header_end + message.body_size + 8 * frames


@pytest.mark.parametrize(
    ("flags", "body_size", "header_end", "content", "behind"),
    [
        (0, 1, 30, 30, b""),
        (0, 0, 0, 0, b""),
        (0, 0, 21, 21, b""),
        (0, 0, 30, 31, b""),
        (0, (1 << 64) - 8, 30, 30, b""),
        (0, (1 << 64) - 1, 30, 37, b""),
        (2, 1, 30, 30, b"\0\0\0\1\0\0\0\2xx"),
        (2, 9, 30, 30, b""),
        (2, 9, 30, 30, b"\0\0\0"),
        (2, 9, 30, 31, b"\0\0\0\1\0\0\0\x09xxxxxxxxx"),
    ],
)
def test_parts_that_do_not_fit_together(
    flags: int, body_size: int, header_end: int, content: int, behind: bytes
) -> None:
    numbers = struct.pack(">BBQQQLLH", flags, 0, 0, 0, body_size, header_end, content, 2)
    blob = numbers + b"\0\0" + b"c" * content + behind
    with pytest.raises(ValueError, match=r"content of|body|ends before"):
        get_message(blob, 0, len(blob), AddressBook())


@given(messages(), st.integers(0, 1 << 20), st.integers(1, 255), st.one_of(st.just(0), st.integers(0, 1 << 20)))
def test_a_damaged_message_raises_value_error_or_is_readable(
    message: Message, position: int, flip: int, cut: int
) -> None:
    blob = _damaged(packed(message), position, flip, cut)
    try:
        found = get_message(blob, 0, len(blob), AddressBook())
    except ValueError:
        return
    use(found)


@given(page_records(), st.integers(0, 1 << 20), st.integers(1, 255), st.one_of(st.just(0), st.integers(0, 1 << 20)))
def test_a_damaged_page_raises_value_error_or_is_readable(
    records: list[tuple[Message, int, int, int, int, bool]], position: int, flip: int, cut: int
) -> None:
    page = page_of(records)
    assert page.data is not None
    page.data = _damaged(page.data, position, flip, cut)
    try:
        entries = page.entries(AddressBook())
    except ValueError:
        return
    for entry in entries:
        use(entry.message)


@given(st.binary(max_size=200))
def test_any_octets_raise_value_error_or_are_readable(blob: bytes) -> None:
    try:
        use(get_message(blob, 0, len(blob), AddressBook()))
    except ValueError:
        return


@pytest.mark.parametrize("count", range(1, 36))
def test_every_cut_is_noticed(count: int) -> None:
    blob = packed(message_named(1, 20))
    with pytest.raises(ValueError, match="packed message"):
        get_message(blob[:-count], 0, len(blob) - count, AddressBook())


def test_an_end_beyond_the_blob_is_noticed() -> None:
    blob = packed(message_named(1, 20))
    with pytest.raises(ValueError, match="packed message"):
        get_message(blob, 0, len(blob) + 1, AddressBook())


def copied(octets: bytes) -> bytes:
    """The same octets as another object."""
    return bytes(bytearray(octets))


def test_addresses_are_shared_until_another_has_their_place() -> None:
    book = AddressBook()
    raws = [bytes([1, 97, len(key)]) + key for key in (f"key.{number}".encode() for number in range(2000))]
    found = [book.find(copied(raw)) for raw in raws]
    assert [(each.exchange, each.routing_key, each.raw) for each in found] == [
        ("a", f"key.{number}", raws[number]) for number in range(2000)
    ]
    kept = [number for number in range(2000) if book.find(copied(raws[number])).raw is found[number].raw]
    assert kept, "not even the newest is shared"
    again = book.find(copied(raws[5]))
    assert again.raw is not found[5].raw
    assert book.find(copied(raws[5])).raw is again.raw
