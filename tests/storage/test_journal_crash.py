"""A crash at any moment: what was synced is there, and then a prefix of what was written."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.journal import Journal
from tests.example_counts import examples
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.journal_driver import Entry, append, open_journal

SEGMENT_BYTES = 400
RECORD_BYTES = 120


@dataclass
class Model:
    """All entries; `synced` of them are durable, the first `retired` need not be there."""

    entries: list[tuple[int, Entry]] = field(default_factory=list)
    synced: int = 0
    retired: int = 0

    def accept(self, found: list[Entry]) -> None:
        """Check what a recovery has found, and go on from it."""
        for first in range(self.retired + 1):
            last = first + len(found)
            if last >= self.synced and found == [entry for _, entry in self.entries[first:last]]:
                break
        else:
            raise AssertionError(f"{found} is neither all that was synced nor more: {self}")
        del self.entries[last:]
        self.synced = last


def work(journal: Journal, model: Model, chance: random.Random) -> None:
    """A few turns of a node, until SimulatedCrash comes out of the disk, or they are over."""
    for _ in range(chance.randint(1, 8)):
        for _ in range(chance.randint(0, 4)):
            entry = (chance.randrange(256), chance.randbytes(chance.choice((0, 3, 40, 150))))
            model.entries.append((journal.current_segment, entry))
            append(journal, [entry])
        if chance.random() < 0.3 and journal.oldest_segment < journal.current_segment:
            model.retired = sum(1 for segment, _ in model.entries if segment <= journal.oldest_segment)
            journal.retire(journal.oldest_segment)
        if chance.random() < 0.1:
            journal.mark()
        batch = journal.take_batch()
        if batch is None:
            continue
        count = len(model.entries)
        batch.write_and_sync()
        journal.batch_done(batch)
        model.synced = count


def play(seed: int) -> None:
    """Work, crash, recover, again and again on one disk; now and then the crash comes while it recovers."""
    chance = random.Random(seed)
    disk = SimulatedDisk(chance)
    model = Model()
    for _ in range(12):
        try:
            disk.crash_at = chance.randint(1, 12) if chance.random() < 0.3 else None
            room = chance.choice((0, 50, 1000))
            journal, found = open_journal(disk, SEGMENT_BYTES, record_bytes=RECORD_BYTES, room_bytes=room)
            model.accept(found)
            disk.crash_at = chance.randint(1, 30) if chance.random() < 0.7 else None
            work(journal, model, chance)
        except SimulatedCrash:
            pass
        if chance.random() < 0.8:
            disk.crash()
        else:
            disk.come_back()
    _, found = open_journal(disk, SEGMENT_BYTES)
    model.accept(found)


@settings(deadline=None, max_examples=examples(300))
@given(st.integers(0, 2**64))
def test_nothing_synced_is_lost_or_changed_by_a_crash(seed: int) -> None:
    play(seed)


@pytest.mark.long
def test_nothing_synced_is_lost_or_changed_by_many_crashes() -> None:
    for seed in range(20_000):
        play(seed)


def test_what_a_recovery_has_read_survives_the_next_crash() -> None:
    """A process dies before its sync, the page cache survives and is read; then the machine goes down."""
    for seed in range(50):
        disk = SimulatedDisk(random.Random(seed))
        journal, _ = open_journal(disk)
        append(journal, [(1, b"x" * 2000)])
        batch = journal.take_batch()
        assert batch is not None
        disk.crash_at = 2  # after the append, in the sync
        with pytest.raises(SimulatedCrash):
            batch.write_and_sync()
        disk.come_back()
        _, found = open_journal(disk)
        assert found == [(1, b"x" * 2000)]
        disk.crash()
        assert open_journal(disk)[1] == found


def test_a_batch_whose_end_was_written_and_its_beginning_not_is_a_torn_tail() -> None:
    """A disk may write a batch's records in any order: a good one behind a bad one proves nothing."""
    disk = SimulatedDisk(random.Random(1))
    journal, _ = open_journal(disk, record_bytes=50)
    append(journal, [(1, b"before")])
    batch = journal.take_batch()
    assert batch is not None
    batch.write_and_sync()
    journal.batch_done(batch)
    start = disk.size("journal/00000001.log")
    append(journal, [(2, b"a" * 40), (3, b"b" * 40), (4, b"c" * 40)])
    batch = journal.take_batch()
    assert batch is not None
    batch.write_and_sync()
    octets = bytearray(disk.contents("journal/00000001.log"))
    octets[start : start + 30] = bytes(30)
    disk.overwrite("journal/00000001.log", bytes(octets))
    journal, found = open_journal(disk)
    assert found == [(1, b"before")]
    assert journal.torn_tail == ("journal/00000001.log", start, len(octets) - start)
