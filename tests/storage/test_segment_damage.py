"""What no crash can do is refused, never cut, never accepted; what a crash can do is cut."""

from __future__ import annotations

import random

import pytest

from storage.errors import CorruptRecord
from storage.records import RecordKind, pack_header, pack_segment
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.journal_driver import (
    RECORD_HEAD,
    SEGMENT_HEAD,
    append,
    flush,
    joined,
    new_disk,
    open_journal,
    write,
)

FIRST = "journal/00000001.log"
SECOND = "journal/00000002.log"
THIRD = "journal/00000003.log"
BATCHES = [[(1, b"first"), (2, b"")], [(3, b"second" * 3)], [(4, b"third")]]


def written(segment_bytes: int = 1 << 20) -> tuple[SimulatedDisk, list[int]]:
    """A disk with three batches, and the size of the last file after each."""
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes)
    ends = []
    for batch in BATCHES:
        write(journal, batch)
        ends.append(disk.size(disk.files()[-1]))
    return disk, ends


def test_a_batch_cut_at_any_octet_is_a_torn_tail() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    for size in range(ends[1], ends[2] + 1):
        disk.overwrite(FIRST, whole[:size])
        journal, found = open_journal(disk)
        if size in ends:
            assert journal.torn_tail is None
        else:
            assert journal.torn_tail == (FIRST, ends[1], size - ends[1])
        assert found == joined(BATCHES[:3] if size == ends[2] else BATCHES[:2])
        # It goes on as if the torn batch had never been.
        write(journal, [(9, b"next")])
        assert open_journal(disk)[1] == [*found, (9, b"next")]


def test_the_very_first_batch_cut_at_any_octet_is_a_torn_tail() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    for size in range(ends[0]):
        disk.overwrite(FIRST, whole[:size])
        journal, found = open_journal(disk)
        assert found == []
        assert journal.position == 0
        write(journal, [(9, b"next")])
        assert open_journal(disk)[1] == [(9, b"next")]


def test_zeros_with_anything_behind_them_are_a_torn_tail() -> None:
    disk, ends = written()
    disk.overwrite(FIRST, disk.contents(FIRST) + bytes(5000) + b"x")
    journal, found = open_journal(disk)
    assert found == joined(BATCHES)
    assert journal.torn_tail == (FIRST, ends[2], 5001)


def test_a_flipped_bit_anywhere_before_the_last_batch_is_damage() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    starts = [0, SEGMENT_HEAD, ends[0]]
    for bit in range(8 * ends[1]):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(FIRST, bytes(octets))
        with pytest.raises(CorruptRecord) as raised:
            open_journal(disk)
        assert (raised.value.file, raised.value.offset) == (
            FIRST,
            max(one for one in starts if one <= bit // 8),
        )
        assert disk.contents(FIRST) == octets


def test_a_flipped_bit_anywhere_in_an_earlier_segment_is_damage() -> None:
    disk, _ = written(segment_bytes=1)
    assert disk.files() == [FIRST, SECOND, THIRD]
    for path in (FIRST, SECOND):
        whole = disk.contents(path)
        for bit in range(8 * len(whole)):
            octets = bytearray(whole)
            octets[bit // 8] ^= 1 << bit % 8
            disk.overwrite(path, bytes(octets))
            with pytest.raises(CorruptRecord) as raised:
                open_journal(disk)
            assert raised.value.file == path
        disk.overwrite(path, whole)


def test_a_flipped_bit_in_the_last_batch_is_told_of_and_never_accepted() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    for bit in range(8 * ends[1], 8 * ends[2]):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(FIRST, bytes(octets))
        journal, found = open_journal(disk)
        assert found == joined(BATCHES[:2])
        assert journal.torn_tail == (FIRST, ends[1], ends[2] - ends[1])


def test_once_a_mark_follows_a_flipped_bit_in_the_last_batch_is_damage() -> None:
    disk, ends = written()
    journal, found = open_journal(disk)
    journal.mark()
    flush(journal)
    whole = disk.contents(FIRST)
    assert len(whole) == ends[2] + RECORD_HEAD
    for bit in range(8 * ends[1], 8 * ends[2]):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(FIRST, bytes(octets))
        with pytest.raises(CorruptRecord):
            open_journal(disk)
    disk.overwrite(FIRST, whole)
    assert open_journal(disk)[1] == found


def test_a_bad_mark_does_not_let_what_follows_it_be_cut() -> None:
    # A mark has no octets of its own, so that positions alone could not tell what was written after it.
    disk, ends = written()
    journal, _ = open_journal(disk)
    journal.mark()
    flush(journal)
    write(journal, [(5, b"later")])
    octets = bytearray(disk.contents(FIRST))
    octets[ends[2]] ^= 1
    disk.overwrite(FIRST, bytes(octets))
    with pytest.raises(CorruptRecord) as raised:
        open_journal(disk)
    assert raised.value.offset == ends[2]


def test_a_missing_segment_is_damage() -> None:
    disk, _ = written(segment_bytes=1)
    disk.remove(SECOND)
    with pytest.raises(CorruptRecord, match=r"00000002\.log at offset 0: the segment is missing"):
        open_journal(disk)


def test_a_damaged_head_of_the_only_segment_is_damage_when_others_were_retired() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=1)
    write(journal, [(1, b"x")])
    journal.retire(1)
    flush(journal)
    whole = disk.contents(SECOND)
    for octets in (b"", whole[: SEGMENT_HEAD - 1], bytes(len(whole))):
        disk.overwrite(SECOND, octets)
        with pytest.raises(CorruptRecord, match=r"00000002\.log at offset 0"):
            open_journal(disk)


def test_an_intact_record_in_the_wrong_place_is_damage() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    second = whole[ends[0] : ends[1]]
    for octets in (whole + second, whole[: ends[0]] + whole[ends[1] :], whole[:SEGMENT_HEAD] + second):
        disk.overwrite(FIRST, octets)
        with pytest.raises(CorruptRecord, match="belongs to another place"):
            open_journal(disk)


def test_segments_that_have_changed_places_are_damage() -> None:
    disk, _ = written(segment_bytes=1)
    first, second = disk.contents(FIRST), disk.contents(SECOND)
    disk.overwrite(FIRST, second)
    disk.overwrite(SECOND, first)
    with pytest.raises(CorruptRecord, match="the head of segment 2"):
        open_journal(disk)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (pack_header(RecordKind.PAGE, 0, 0, b"x") + b"x", "kind 3 does not belong into a journal"),
        (pack_header(RecordKind.BATCH, 0, 0, b"\1\0\0") + b"\1\0\0", "ends inside the header of an entry"),
        (pack_header(RecordKind.GAP, 0, 0, b"x") + b"x", "a gap of 1 octets instead of 8"),
        (pack_header(RecordKind.SEGMENT, 0, 0, b"x") + b"x", "kind 0 does not belong into a journal"),
        (pack_header(9, 0, 0, b""), "of a kind that this program does not know"),
    ],
)
def test_an_intact_record_that_makes_no_sense_is_damage_even_at_the_end(octets: bytes, reason: str) -> None:
    disk = new_disk()
    disk.make_folder("journal")
    disk.append(FIRST, [pack_segment(1, 0) + octets])
    with pytest.raises(CorruptRecord, match=reason):
        open_journal(disk)
    assert disk.contents(FIRST) == pack_segment(1, 0) + octets


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (pack_header(RecordKind.SEGMENT, 0, 0, b"x") + b"x", "a segment head of 1 octets instead of 16"),
        (pack_header(RecordKind.BATCH, 0, 0, b""), "does not begin with its head"),
    ],
)
def test_a_head_that_makes_no_sense_is_damage(octets: bytes, reason: str) -> None:
    disk = new_disk()
    disk.make_folder("journal")
    disk.append(FIRST, [octets])
    with pytest.raises(CorruptRecord, match=reason):
        open_journal(disk)


def test_a_message_that_holds_a_journal_does_not_turn_a_torn_tail_into_damage() -> None:
    """Somebody sends the journal itself through the broker; the batch with it is torn."""
    disk, ends = written()
    journal, found = open_journal(disk)
    append(journal, [(7, b"x" * 100 + disk.contents(FIRST) + b"x" * 100)])
    flush(journal)
    whole = disk.contents(FIRST)
    disk.overwrite(FIRST, whole[: ends[2]] + b"\0" + whole[ends[2] + 1 :])
    journal, again = open_journal(disk)
    assert again == found
    assert journal.torn_tail == (FIRST, ends[2], len(whole) - ends[2])


def test_a_message_that_holds_another_journal_does_not_turn_a_torn_tail_into_damage() -> None:
    """Its records are intact, and further on than this journal can have come in so few octets."""
    disk, ends = written()
    journal, found = open_journal(disk)
    stranger = pack_header(RecordKind.BATCH, 0, 1 << 40, b"strange") + b"strange"
    append(journal, [(7, b"x" * 100 + stranger + b"x" * 100)])
    flush(journal)
    whole = disk.contents(FIRST)
    disk.overwrite(FIRST, whole[: ends[2]] + b"\0" + whole[ends[2] + 1 :])
    journal, again = open_journal(disk)
    assert again == found
    assert journal.torn_tail == (FIRST, ends[2], len(whole) - ends[2])


def test_a_segment_that_ends_too_early_is_damage_even_between_two_records() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"first")])
    end = disk.size(FIRST)
    write(journal, [(1, b"second" * 20)], [(1, b"third")])
    disk.overwrite(FIRST, disk.contents(FIRST)[:end])
    with pytest.raises(CorruptRecord, match="begins at position 135 and the one before ends at 10") as raised:
        open_journal(disk)
    assert raised.value.file == SECOND


def test_random_garbage_at_the_end_is_cut() -> None:
    chance = random.Random(5)
    for _ in range(200):
        disk, ends = written()
        garbage = chance.randbytes(chance.randint(1, 300))
        disk.overwrite(FIRST, disk.contents(FIRST) + garbage)
        journal, found = open_journal(disk)
        assert found == joined(BATCHES)
        assert journal.torn_tail == (FIRST, ends[2], len(garbage))
