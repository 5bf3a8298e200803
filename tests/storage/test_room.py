"""Room: zeroes behind what was written, into which small batches go. No octet of it is ever taken for a batch, and none
hides that a batch is damaged."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from storage.disk import FileDisk
from storage.errors import CorruptRecord
from storage.inspect import inspect_folder
from storage.journal import ROOM_BATCH_BYTES, ROOM_BYTES
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.journal_driver import append, flush, joined, new_disk, open_journal, write

FIRST = "journal/00000001.log"
SECOND = "journal/00000002.log"
ROOM = 1000
BATCHES = [[(1, b"first"), (2, b"")], [(3, b"second" * 3)], [(4, b"third")]]


def written(room_bytes: int = ROOM) -> tuple[SimulatedDisk, list[int]]:
    """A disk with three batches in room, and where each ends."""
    disk = new_disk()
    journal, _ = open_journal(disk, room_bytes=room_bytes)
    ends = []
    for batch in BATCHES:
        write(journal, batch)
        ends.append(journal.total_bytes)
    return disk, ends


def test_small_batches_make_room_once_and_write_into_it() -> None:
    disk, ends = written()
    assert disk.size(FIRST) == ends[0] + ROOM
    assert disk.contents(FIRST)[ends[2] :] == bytes(ROOM - (ends[2] - ends[0]))
    journal, found = open_journal(disk)
    assert found == joined(BATCHES)
    assert journal.torn_tail is None
    assert disk.size(FIRST) == journal.total_bytes == ends[2]


def test_a_batch_goes_past_the_end_of_its_room() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, room_bytes=100)
    batches = [[(number, b"x" * 70)] for number in range(9)]
    write(journal, *batches)
    assert open_journal(disk)[1] == joined(batches)


def test_large_batches_make_no_room() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, room_bytes=ROOM_BYTES)
    write(journal, [(1, b"x" * ROOM_BATCH_BYTES)])
    assert disk.size(FIRST) == journal.total_bytes
    write(journal, [(1, b"x")])
    assert disk.size(FIRST) == journal.total_bytes + ROOM_BYTES
    write(journal, [(1, b"x" * ROOM_BYTES)])
    assert disk.size(FIRST) == journal.total_bytes


def test_a_batch_in_room_that_is_cut_at_any_octet_was_never_there() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    for end in range(ends[1], ends[2]):
        disk.overwrite(FIRST, whole[:end] + bytes(len(whole) - end))
        journal, found = open_journal(disk, room_bytes=ROOM)
        assert found == joined(BATCHES[:2])
        assert disk.size(FIRST) == ends[1]
        write(journal, [(9, b"next")])
        assert open_journal(disk)[1] == [*found, (9, b"next")]


def test_a_flipped_bit_before_the_last_batch_is_damage_though_room_follows() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    for bit in range(8 * ends[1]):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(FIRST, bytes(octets))
        with pytest.raises(CorruptRecord):
            open_journal(disk)
        assert disk.contents(FIRST) == octets


def test_a_flipped_bit_in_the_last_batch_or_in_the_room_is_told_of() -> None:
    disk, ends = written(room_bytes=300)
    whole = disk.contents(FIRST)
    for bit in range(8 * ends[1], 8 * len(whole)):
        octets = bytearray(whole)
        octets[bit // 8] ^= 1 << bit % 8
        disk.overwrite(FIRST, bytes(octets))
        journal, found = open_journal(disk)
        begin = ends[1] if bit < 8 * ends[2] else ends[2]
        assert found == joined(BATCHES[:2] if bit < 8 * ends[2] else BATCHES)
        assert journal.torn_tail == (FIRST, begin, len(whole) - begin)


def test_a_batch_of_zeroes_between_others_is_damage() -> None:
    disk, ends = written()
    whole = disk.contents(FIRST)
    disk.overwrite(FIRST, whole[: ends[0]] + bytes(ends[1] - ends[0]) + whole[ends[1] :])
    with pytest.raises(CorruptRecord) as raised:
        open_journal(disk)
    assert (raised.value.file, raised.value.offset) == (FIRST, ends[0])


def test_zeroes_behind_an_earlier_segment_are_damage() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"x" * 100)], [(2, b"y")])
    end = disk.size(FIRST)
    disk.overwrite(FIRST, disk.contents(FIRST) + bytes(300))
    with pytest.raises(CorruptRecord) as raised:
        open_journal(disk)
    assert (raised.value.file, raised.value.offset) == (FIRST, end)


def test_a_file_of_nothing_but_zeroes_is_told_of() -> None:
    disk = new_disk()
    disk.make_folder("journal")
    disk.append(FIRST, [bytes(300)])
    journal, found = open_journal(disk)
    assert found == []
    assert journal.torn_tail == (FIRST, 0, 300)


def test_a_full_segment_has_no_room() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=500, room_bytes=ROOM)
    while journal.current_segment == 1:
        write(journal, [(1, b"x" * 20)])
    assert disk.size(FIRST) == journal.total_bytes


def test_a_clean_stop_leaves_no_room() -> None:
    disk, _ = written()
    journal, _ = open_journal(disk, room_bytes=ROOM)
    write(journal, [(5, b"more")])
    assert disk.size(FIRST) > journal.total_bytes
    journal.mark()
    flush(journal)
    assert disk.size(FIRST) == journal.total_bytes
    write(journal, [(6, b"the rest")])
    assert disk.size(FIRST) == journal.total_bytes
    assert disk.unsynced() == []


def test_a_disk_without_space_for_room_has_space_for_the_batch() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, room_bytes=ROOM)
    disk.capacity = 300
    append(journal, [(1, b"x" * 100)])
    batch = journal.take_batch()
    assert batch is not None
    with pytest.raises(OSError, match="No space left") as raised:
        batch.write_and_sync()
    assert raised.value.errno == errno.ENOSPC
    batch.write_and_sync()
    journal.batch_done(batch)
    write(journal, [(2, b"y" * 20)])
    assert open_journal(disk)[1] == [(1, b"x" * 100), (2, b"y" * 20)]


def test_a_report_and_a_repair_know_room() -> None:
    disk, ends = written()
    report = inspect_folder(disk)
    assert report.journal.first_bad is None
    assert report.journal.records == 4
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined(BATCHES)
    assert journal.set_aside == []
    octets = bytearray(written()[0].contents(FIRST))
    octets[ends[0] + 4] ^= 1
    disk.overwrite(FIRST, bytes(octets))
    assert inspect_folder(disk).journal.first_bad is not None
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined([BATCHES[0], BATCHES[2]])
    assert len(journal.set_aside) == 1


def test_a_killed_process_leaves_room_and_another_goes_on(tmp_path: Path) -> None:
    chance = random.Random(7)
    expected = []
    for _ in range(20):
        disk = FileDisk(tmp_path)
        journal, found = open_journal(disk, segment_bytes=5000, room_bytes=ROOM)
        assert found == expected
        for _ in range(chance.randint(1, 5)):
            entry = (chance.randrange(256), chance.randbytes(chance.choice((0, 40, 700))))
            write(journal, [entry])
            expected.append(entry)
        disk.close()
