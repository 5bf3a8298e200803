"""The journal in good health: positions, segments, batches, retirement, and a full disk."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import SyncFailed
from storage.journal import RECORD_BYTES, Journal
from storage.record_reader import RecordReader
from storage.records import Record
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.journal_driver import (
    ENTRY_HEAD,
    RECORD_HEAD,
    SEGMENT_HEAD,
    Entry,
    append,
    flush,
    new_disk,
    open_journal,
    write,
)


def extent_of(journal: Journal) -> tuple[int, int, int]:
    """Its oldest segment, its last one, and how much is in all of them."""
    return journal.oldest_segment, journal.current_segment, journal.total_bytes


def test_what_was_written_is_read_back_in_order() -> None:
    disk = new_disk()
    journal, found = open_journal(disk)
    assert found == []
    write(journal, [(1, b"one"), (2, b"")], [(255, b"three")])
    _, found = open_journal(disk)
    assert found == [(1, b"one"), (2, b""), (255, b"three")]


def test_a_position_counts_the_octets_of_entries() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    assert append(journal, [(1, b"12345")]) == ENTRY_HEAD + 5
    assert append(journal, [(1, b"")]) == 2 * ENTRY_HEAD + 5
    batch = journal.take_batch()
    assert batch is not None
    assert batch.position == journal.position == 2 * ENTRY_HEAD + 5
    assert append(journal, [(1, b"1")]) == 3 * ENTRY_HEAD + 6
    batch.write_and_sync()
    journal.batch_done(batch)
    flush(journal)
    again, _ = open_journal(disk)
    assert again.position == 3 * ENTRY_HEAD + 6


def test_nothing_is_on_the_disk_before_the_batch_is_written() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    writes = disk.append_count
    append(journal, [(1, b"x")])
    assert journal.take_batch() is not None
    assert disk.append_count == writes


def test_a_batch_costs_one_write_and_one_sync() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    writes, syncs = disk.append_count, disk.sync_count
    write(journal, [(1, b"x" * 100)] * 50)
    assert (disk.append_count, disk.sync_count) == (writes + 1, syncs + 1)


def test_only_one_batch_is_in_flight() -> None:
    journal, _ = open_journal(new_disk())
    assert journal.take_batch() is None
    append(journal, [(1, b"a")])
    first = journal.take_batch()
    assert first is not None
    append(journal, [(1, b"b")])
    assert journal.has_pending
    assert journal.take_batch() is None
    first.write_and_sync()
    journal.batch_done(first)
    second = journal.take_batch()
    assert second is not None
    with pytest.raises(RuntimeError, match="not the one in flight"):
        journal.batch_done(first)


def test_misuse_is_refused() -> None:
    disk = new_disk()
    journal = Journal(disk)
    with pytest.raises(RuntimeError, match="exhaust recover"):
        journal.take_batch()
    list(journal.recover())
    with pytest.raises(RuntimeError, match="recovered already"):
        list(journal.recover())
    with pytest.raises(RuntimeError, match="no entry is open"):
        journal.close_entry()
    journal.open_entry(1)
    with pytest.raises(RuntimeError, match="open already"):
        journal.open_entry(1)
    with pytest.raises(RuntimeError, match="close it before"):
        journal.take_batch()


def test_current_segment_tells_where_the_next_entry_goes() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=500)
    noted: list[int] = []
    chance = random.Random(4)
    for count in range(60):
        noted.append(journal.current_segment)
        append(journal, [(1, b"%d" % count + b"x" * chance.randrange(100))])
        if chance.random() < 0.4:
            flush(journal)
    flush(journal)
    again = Journal(disk, segment_bytes=500)
    assert [segment for segment, _, _ in again.recover()] == noted
    assert extent_of(again) == extent_of(journal)
    assert again.current_segment == journal.current_segment > 3
    assert again.total_bytes == sum(disk.size(path) for path in disk.files()) == journal.total_bytes


def test_a_segment_in_the_list_has_the_size_of_its_file() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, [(1, b"abc"), (1, b"d")])
    assert extent_of(journal) == (1, 1, SEGMENT_HEAD + RECORD_HEAD + 2 * ENTRY_HEAD + 4)
    assert disk.size("journal/00000001.log") == journal.total_bytes


def test_a_large_batch_is_split_at_entries() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=1 << 30)
    sizes = [RECORD_BYTES // 3] * 7 + [RECORD_BYTES + 1, 5, RECORD_BYTES - ENTRY_HEAD, 1]
    entries = [(number, bytes([number]) * size) for number, size in enumerate(sizes)]
    write(journal, entries, [(1, b"after")])
    reader = RecordReader(disk, "journal/00000001.log")
    records = []
    while (record := reader.next()) is not None:
        assert isinstance(record, Record)
        records.append(record)
    lengths = [record.length for record in records[1:]]
    third = RECORD_BYTES // 3 + ENTRY_HEAD
    assert lengths == [
        2 * third,
        2 * third,
        2 * third,
        third,
        RECORD_BYTES + 1 + ENTRY_HEAD,
        5 + ENTRY_HEAD,
        RECORD_BYTES,
        1 + ENTRY_HEAD,
        5 + ENTRY_HEAD,
    ]
    start = records[1].offset
    assert [record.context for record in records[1:]] == [
        record.offset - start for record in records[1:-1]
    ] + [0]
    _, found = open_journal(disk)
    assert found == [*entries, (1, b"after")]


def test_every_batch_is_split_anew() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, record_bytes=100)
    counts = []
    for _ in range(3):
        append(journal, [(1, b"x" * 40)] * 6)
        batch = journal.take_batch()
        assert batch is not None
        batch.write_and_sync()
        journal.batch_done(batch)
        counts.append(len(batch.splits))
    assert counts == [2, 2, 2]


def test_retired_segments_go_with_the_next_batch_after_its_sync() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"x" * 100)], [(2, b"y" * 100)], [(3, b"z")])
    assert journal.oldest_segment == 1
    assert not journal.has_pending
    journal.retire(1)
    journal.retire(2)
    assert journal.has_pending
    assert journal.oldest_segment == 3
    assert disk.list("journal") == ["00000001.log", "00000002.log", "00000003.log"]
    flush(journal)
    assert disk.list("journal") == ["00000003.log"]
    again, found = open_journal(disk, segment_bytes=100)
    assert found == [(3, b"z")]
    assert again.position == journal.position
    assert again.oldest_segment == 3


def test_only_the_oldest_segment_can_be_retired_and_never_the_current_one() -> None:
    journal, _ = open_journal(new_disk(), segment_bytes=100)
    write(journal, [(1, b"x" * 100)], [(1, b"x" * 100)])
    assert journal.current_segment == 3
    for segment in (0, 2, 3):
        with pytest.raises(ValueError, match="retire the oldest first"):
            journal.retire(segment)
    journal.retire(1)
    journal.retire(2)
    with pytest.raises(ValueError, match="3 is being written"):
        journal.retire(3)


def test_the_position_survives_when_every_segment_is_retired() -> None:
    # Once, a batch of nothing but removals left an empty folder, and the journal began at position 0 again.
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"x" * 100)])
    journal.retire(1)
    flush(journal)
    disk.crash()
    again, found = open_journal(disk)
    assert found == []
    assert again.position == journal.position == 100 + ENTRY_HEAD
    assert again.current_segment == 2


def test_a_full_disk_can_be_waited_out() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=1000)
    write(journal, [(1, b"a" * 200)])
    append(journal, [(2, b"b" * 200)])
    batch = journal.take_batch()
    assert batch is not None
    disk.capacity = 350
    for _ in range(3):
        with pytest.raises(OSError, match="No space left") as raised:
            batch.write_and_sync()
        assert raised.value.errno == errno.ENOSPC
    append(journal, [(3, b"c")])
    disk.capacity = 1000
    batch.write_and_sync()
    journal.batch_done(batch)
    flush(journal)
    assert journal.total_bytes == disk.size("journal/00000001.log")
    _, found = open_journal(disk)
    assert found == [(1, b"a" * 200), (2, b"b" * 200), (3, b"c")]


def test_a_full_disk_at_the_start_of_a_segment_can_be_waited_out() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"a" * 200)])
    append(journal, [(2, b"b" * 200)])
    batch = journal.take_batch()
    assert batch is not None
    disk.capacity = 280
    with pytest.raises(OSError, match="No space left"):
        batch.write_and_sync()
    disk.capacity = 1000
    batch.write_and_sync()
    journal.batch_done(batch)
    _, found = open_journal(disk)
    assert found == [(1, b"a" * 200), (2, b"b" * 200)]


def test_a_failed_removal_does_not_touch_what_was_synced() -> None:
    class StubbornDisk(SimulatedDisk):
        """A disk that refuses to remove a file until it is told otherwise."""

        is_stubborn = True

        def remove(self, path: str) -> None:
            if self.is_stubborn:
                raise PermissionError(errno.EPERM, "not now", path)
            super().remove(path)

    disk = StubbornDisk(random.Random(1))
    journal, _ = open_journal(disk, segment_bytes=100)
    write(journal, [(1, b"x" * 100)])
    append(journal, [(2, b"y")])
    journal.retire(1)
    batch = journal.take_batch()
    assert batch is not None
    with pytest.raises(PermissionError):
        batch.write_and_sync()
    writes = disk.append_count
    disk.is_stubborn = False
    batch.write_and_sync()
    journal.batch_done(batch)
    assert disk.append_count == writes
    _, found = open_journal(disk)
    assert found == [(2, b"y")]


def test_after_a_failed_sync_nothing_is_written_any_more() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    append(journal, [(1, b"x")])
    batch = journal.take_batch()
    assert batch is not None
    disk.fail_sync_at = 1
    for _ in range(2):
        with pytest.raises(SyncFailed):
            batch.write_and_sync()


entry_lists = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=60)), max_size=6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(entry_lists, st.sampled_from(["flush", "restart", "retire", "mark"])), max_size=25),
    st.sampled_from([0, 60, 1000]),
)
def test_against_a_list(steps: list[tuple[list[Entry], str]], room_bytes: int) -> None:
    """Whatever the order of appends, batches, retirements and restarts: what is there is what a list says."""
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes=150, room_bytes=room_bytes)
    model: list[tuple[int, Entry]] = []
    for entries, action in steps:
        model += [(journal.current_segment, entry) for entry in entries]
        append(journal, entries)
        if action == "mark":
            journal.mark()
        if action == "retire" and journal.oldest_segment < journal.current_segment:
            model = [one for one in model if one[0] != journal.oldest_segment]
            journal.retire(journal.oldest_segment)
        if journal.has_pending:
            flush(journal)
        if action == "restart":
            position, extent = journal.position, extent_of(journal)
            journal, found = open_journal(disk, segment_bytes=150, room_bytes=room_bytes)
            assert found == [entry for _, entry in model]
            assert (journal.position, extent_of(journal)) == (position, extent)
            assert journal.torn_tail is None
