"""Chunks: what goes in comes out, cut or changed octets are refused, and what is dropped leaves a whole chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets.checksum import crc32
from queues.message import Address, Message, build_message
from queues.page import AddressBook
from queues.stream.bloom import Bloom
from queues.stream.chunk import Chunk, ChunkBuilder, Run, encode_chunk, sum_before_zeroes
from queues.stream.record import get_record
from queues.wire.reader import Malformed


def message(body: bytes) -> Message:
    return build_message(Address(b"\0\1q"), b"\0\0", body, True, -1, -1, 0)


def bodies(chunk: Chunk) -> list[bytes]:
    return [get_record(chunk.octets, at, 0, 0, AddressBook()).body_bytes() for at in chunk.places()]


@st.composite
def built(draw: st.DrawFn) -> tuple[list[bytes], list[tuple[bytes, int]], bytes]:
    """Bodies, who produced each (b"" for nobody), and the chunk."""
    builder = ChunkBuilder(16)
    said = draw(st.lists(st.binary(max_size=50), min_size=1, max_size=12))
    produced: list[tuple[bytes, int]] = []
    for body in said:
        builder.add(message(body), 0, draw(st.integers(0, 5)))
        producer = draw(st.sampled_from([b"", b"a", b"bb"]))
        sequence = draw(st.integers(1, 5)) + len(produced) if producer else 0
        produced.append((producer, sequence))
        if producer:
            builder.produced(producer, sequence)
    return said, produced, builder.seal()


@given(built(), st.binary(max_size=5))
def test_a_chunk_has_what_was_added(made: tuple[list[bytes], list[tuple[bytes, int]], bytes], before: bytes) -> None:
    said, produced, octets = made
    chunk = Chunk(before + octets, len(before))
    chunk.check()
    assert bodies(chunk) == said
    numbered = {run.record + i: (run.producer, run.sequence + i) for run in chunk.runs for i in range(run.records)}
    assert [numbered.get(number, (b"", 0)) for number in range(len(said))] == produced


@given(built(), st.data())
def test_a_changed_octet_is_seen(made: tuple[list[bytes], list[tuple[bytes, int]], bytes], data: st.DataObject) -> None:
    octets = bytearray(made[2])
    if data.draw(st.booleans()):
        chunk = Chunk(made[2])
        places = list(chunk.places())
        octets = bytearray(chunk.keeping(places[: data.draw(st.integers(1, len(places)))], 16))
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Malformed):
        Chunk(bytes(octets))
    with pytest.raises(Malformed):
        Chunk(made[2][:place])


@given(built(), st.data())
def test_what_is_dropped_leaves_the_others(
    made: tuple[list[bytes], list[tuple[bytes, int]], bytes], data: st.DataObject
) -> None:
    said, _, octets = made
    chunk = Chunk(octets)
    dropped = [run for run in chunk.runs if data.draw(st.booleans())]
    gone = {number for run in dropped for number in range(run.record, run.record + run.records)}
    rest = chunk.without(dropped, 16)
    left = [body for number, body in enumerate(said) if number not in gone]
    if rest is None:
        assert not left
        return
    again = Chunk(rest)
    again.check()
    assert bodies(again) == left
    assert [run.producer for run in again.runs] == [run.producer for run in chunk.runs if run not in dropped]


def test_records_that_do_not_fit_are_refused() -> None:
    builder = ChunkBuilder(16)
    builder.add(message(b"one"), 0, 0)
    chunk = Chunk(builder.seal())
    packed = bytearray(chunk.octets[chunk.start : chunk.end])
    for place in range(len(packed)):
        changed = bytes(packed[:place]) + bytes([packed[place] ^ 0x80]) + bytes(packed[place + 1 :])
        found = Chunk(encode_chunk(b"", [], 1, changed))
        try:
            found.check()
        except ValueError:
            continue
        # What is not refused is a body, a name, or a number that nothing relies on: it can be delivered.
        assert len(bodies(found)) == 1
    with pytest.raises(Malformed, match="a producer's run"):
        Chunk(encode_chunk(b"", [Run(b"a", 1, 0, 2)], 1, bytes(packed))).check()


@given(st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=10), st.integers(16, 255))
def test_a_filter_lets_through_what_is_in_it(hashes: list[int], size: int) -> None:
    bloom = Bloom.of(hashes, size)
    assert all(bloom.may_have(value) for value in hashes)
    assert Bloom(b"").may_have(7)


@given(st.integers(0, 40), st.binary(max_size=100))
def test_a_sum_begins_so_that_the_place_of_the_head_does_not_count(count: int, octets: bytes) -> None:
    assert crc32(bytes(count) + octets, sum_before_zeroes(count)) == crc32(octets)
