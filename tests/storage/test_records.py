"""The record envelope: code and grammar agree, and nothing but what was packed is accepted."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.entries import entries_of
from storage.records import (
    HEADER_BYTES,
    SEGMENT_BYTES,
    Fault,
    Record,
    RecordKind,
    check_record,
    pack_gap,
    pack_header,
    pack_segment,
    unpack_gap,
    unpack_segment,
)
from tests.storage.journal_driver import append, new_disk, open_journal
from tests.storage.records_grammar import ENTRY, GAP_PAYLOAD, RECORD_HEADER, RECORD_KIND, SEGMENT_PAYLOAD

kinds = st.sampled_from(list(RecordKind))
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)


@given(kinds, u32, u64, st.binary(max_size=200))
def test_a_packed_header_is_what_the_grammar_says(
    kind: RecordKind, context: int, position: int, payload: bytes
) -> None:
    header = pack_header(kind, context, position, payload)
    parsed = RECORD_HEADER.parse(header)
    assert len(header) == HEADER_BYTES == RECORD_HEADER.sizeof()
    assert (parsed.length, parsed.kind, parsed.context) == (len(payload), kind.name, context)
    assert parsed.position == position
    assert parsed.crc == zlib.crc32(header[:4] + header[8:] + payload)
    assert RECORD_HEADER.build(parsed) == header


@given(kinds, u32, u64, st.binary(max_size=200), st.binary(max_size=20), st.binary(max_size=20))
def test_a_record_reads_back_wherever_it_lies(
    kind: RecordKind, context: int, position: int, payload: bytes, before: bytes, after: bytes
) -> None:
    data = before + pack_header(kind, context, position, payload) + payload + after
    record = check_record(data, len(before), 1000)
    assert isinstance(record, Record)
    assert (record.kind, record.context, record.position) == (kind, context, position)
    assert bytes(record.payload) == payload
    assert record.end == 1000 + HEADER_BYTES + len(payload)


@given(kinds, u32, u64, st.binary(max_size=40), st.data())
def test_a_flipped_bit_anywhere_is_seen(
    kind: RecordKind, context: int, position: int, payload: bytes, data: st.DataObject
) -> None:
    octets = bytearray(pack_header(kind, context, position, payload) + payload)
    bit = data.draw(st.integers(0, 8 * len(octets) - 1).filter(lambda bit: bit >= 32))
    octets[bit // 8] ^= 1 << bit % 8
    assert check_record(bytes(octets), 0, 0) == Fault.CRC


def test_every_kind_is_in_the_grammar_under_the_same_number() -> None:
    assert {kind.name: int(kind) for kind in RecordKind} == RECORD_KIND.encmapping


@pytest.mark.parametrize(("octet", "fault"), [(8, Fault.VERSION), (9, Fault.KIND)])
def test_a_newer_version_or_kind_is_told_from_a_torn_record(octet: int, fault: Fault) -> None:
    octets = bytearray(pack_header(RecordKind.BATCH, 0, 7, b"payload"))
    octets[octet] = 77
    octets[4:8] = zlib.crc32(octets[:4] + octets[8:] + b"payload").to_bytes(4, "little")
    assert check_record(bytes(octets) + b"payload", 0, 0) == fault


@given(u64, u64)
def test_segment_heads_and_gaps_are_what_the_grammar_says(first: int, second: int) -> None:
    head = pack_segment(first, second)
    assert len(head) == SEGMENT_BYTES
    assert unpack_segment(memoryview(head)[HEADER_BYTES:]) == (first, second)
    assert head[HEADER_BYTES:] == SEGMENT_PAYLOAD.build({"number": first, "start_position": second})
    gap = pack_gap(first, second)
    assert unpack_gap(memoryview(gap)[HEADER_BYTES:]) == second
    assert gap[HEADER_BYTES:] == GAP_PAYLOAD.build({"next_position": second})


@pytest.mark.parametrize("unpack", [unpack_segment, unpack_gap])
def test_a_fixed_payload_of_another_size_is_refused(unpack: object) -> None:
    assert callable(unpack)
    with pytest.raises(ValueError, match="of 3 octets instead of"):
        unpack(memoryview(b"abc"))


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), min_size=1, max_size=20))
def test_entries_are_written_and_read_as_the_grammar_says(entries: list[tuple[int, bytes]]) -> None:
    journal, _ = open_journal(new_disk())
    append(journal, entries)
    octets = bytes(journal.buffer.view())
    assert octets == b"".join(
        ENTRY.build({"kind": kind, "length": len(payload), "payload": payload}) for kind, payload in entries
    )
    found = entries_of(9, b"xy" + octets, 2, 2 + len(octets))
    assert [(segment, kind, bytes(payload)) for segment, kind, payload in found] == [
        (9, kind, payload) for kind, payload in entries
    ]


@given(st.integers(0, 255), st.binary(max_size=20), st.data())
def test_entries_that_do_not_fill_their_record_are_refused(
    kind: int, payload: bytes, data: st.DataObject
) -> None:
    octets = ENTRY.build({"kind": kind, "length": len(payload), "payload": payload})
    cut = data.draw(st.integers(1, len(octets) - 1))
    with pytest.raises(ValueError, match="the record ends inside"):
        entries_of(1, octets + octets[:cut], 0, len(octets) + cut)


def test_an_entry_longer_than_two_gigabytes_is_read_as_such() -> None:
    with pytest.raises(ValueError, match="entry of 4294967295 octets"):
        entries_of(1, b"\x01\xff\xff\xff\xff", 0, 5)
