"""--recover: damaged parts are set aside, never deleted, and everything that is intact is still there."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import CorruptRecord
from storage.inspect import inspect_folder
from storage.records import SEGMENT_BYTES
from tests.example_counts import examples
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.journal_driver import Entry, flush, joined, new_disk, open_journal, write

FIRST = "journal/00000001.log"
SECOND = "journal/00000002.log"
THIRD = "journal/00000003.log"


def numbered(count: int) -> list[list[Entry]]:
    """Batches of one entry each, every entry different."""
    return [[(1, b"entry %d;" % number)] for number in range(count)]


def written(count: int, segment_bytes: int) -> SimulatedDisk:
    disk = new_disk()
    journal, _ = open_journal(disk, segment_bytes)
    write(journal, *numbered(count))
    return disk


def test_a_bad_batch_is_set_aside_and_the_others_stay() -> None:
    disk = written(5, segment_bytes=1 << 20)
    octets = bytearray(disk.contents(FIRST))
    place = octets.index(b"entry 2;")
    octets[place] ^= 255
    disk.overwrite(FIRST, bytes(octets))
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined(numbered(2) + numbered(5)[3:])
    (report,) = journal.set_aside
    assert (report.file, report.reason) == (FIRST, "the checksum does not match")
    assert disk.contents(report.copy) == octets[report.offset : report.offset + report.bytes]
    assert b"ntry 2;" in disk.contents(report.copy)
    # From now on it starts without being told to recover, and goes on where it had come to.
    write(journal, [(2, b"more")])
    journal, again = open_journal(disk)
    assert again == [*found, (2, b"more")]
    assert journal.set_aside == []


def test_a_missing_segment_is_replaced_by_a_gap() -> None:
    disk = written(3, segment_bytes=1)
    position = open_journal(disk)[0].position
    disk.remove(SECOND)
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == numbered(3)[0] + numbered(3)[2]
    assert [(one.file, one.bytes, one.reason) for one in journal.set_aside] == [
        (SECOND, 0, "the segment is missing")
    ]
    assert journal.position == position
    assert open_journal(disk)[1] == found


@pytest.mark.parametrize("path", [FIRST, SECOND])
@pytest.mark.parametrize("contents", [b"", b"garbage" * 100])
def test_a_segment_of_garbage_is_set_aside_as_a_whole(path: str, contents: bytes) -> None:
    disk = written(3, segment_bytes=1)
    disk.overwrite(path, contents)
    with pytest.raises(CorruptRecord):
        open_journal(disk)
    journal, found = open_journal(disk, recover_damaged=True)
    lost = {FIRST: 0, SECOND: 1}[path]
    assert found == joined((batch for number, batch in enumerate(numbered(3)) if number != lost))
    assert [one.bytes for one in journal.set_aside] == [len(contents)]
    if contents:
        assert disk.contents(journal.set_aside[0].copy) == contents
    assert open_journal(disk)[1] == found


def test_a_torn_tail_is_cut_as_ever() -> None:
    disk = written(3, segment_bytes=1 << 20)
    disk.overwrite(FIRST, disk.contents(FIRST)[:-1])
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined(numbered(2))
    assert journal.set_aside == []
    assert journal.torn_tail is not None
    assert disk.list("damaged") == []


def test_nothing_is_done_to_a_journal_in_good_health() -> None:
    disk = written(4, segment_bytes=60)
    before = {path: disk.contents(path) for path in disk.files()}
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined(numbered(4))
    assert journal.set_aside == []
    assert {path: disk.contents(path) for path in before} == before


def test_a_name_in_damaged_is_never_used_twice() -> None:
    disk = written(3, segment_bytes=1)
    whole = disk.contents(SECOND)
    copies = []
    for filler in (b"one", b"two"):
        disk.overwrite(SECOND, filler * 50)
        journal, _ = open_journal(disk, recover_damaged=True)
        copies += [one.copy for one in journal.set_aside]
        disk.overwrite(SECOND, whole)
    assert [disk.contents(copy)[:3] for copy in copies] == [b"one", b"two"]


def damage(disk: SimulatedDisk, chance: random.Random) -> None:
    """Harm the journal in a few places: flips, cuts, zeros, removed files."""
    for _ in range(chance.randint(1, 4)):
        path = chance.choice([path for path in disk.files() if path.startswith("journal/")])
        octets = bytearray(disk.contents(path))
        start = chance.randrange(len(octets) + 1)
        match chance.randrange(6):
            case 0 if path != FIRST:  # that the oldest segment is gone cannot be seen
                disk.remove(path)
                disk.sync_folder("journal")
                continue
            case 1:
                del octets[start:]
            case 2:
                octets[start : start + 30] = bytes(len(octets[start : start + 30]))
            case 3:
                del octets[start : start + chance.randint(1, 100)]
            case _ if octets:
                octets[start % len(octets)] ^= 1 << chance.randrange(8)
        disk.overwrite(path, bytes(octets))


def is_subsequence(found: list[Entry], whole: list[Entry]) -> bool:
    rest = iter(whole)
    return all(entry in rest for entry in found)


@settings(deadline=None, max_examples=examples(300))
@given(st.integers(0, 2**64))
def test_any_damage_is_seen_and_can_be_recovered_from(seed: int) -> None:
    chance = random.Random(seed)
    segment_bytes = chance.choice((1, 200, 1000, 1 << 20))
    disk = written(chance.randint(1, 30), segment_bytes)
    whole = open_journal(disk, segment_bytes)[1]
    files = {path: disk.contents(path) for path in disk.files()}
    damage(disk, chance)
    damaged_files = {path: disk.contents(path) for path in disk.files()}
    report = inspect_folder(disk)
    assert {path: disk.contents(path) for path in disk.files()} == damaged_files
    bad = report.journal.first_bad
    damaged_file = ""
    try:
        journal, found = open_journal(disk, segment_bytes)
    except CorruptRecord as error:
        damaged_file = error.file
    else:
        # Nothing but the end can be missing, and if a torn tail was cut, it was told of.
        assert bad is None or bad.is_torn_tail
        assert found == whole[: len(found)]
        assert (journal.torn_tail is None) == (bad is None)
    if damaged_file:
        # Inspection agrees about where it is, and nothing was touched.
        assert bad is not None
        assert (bad.file, bad.is_torn_tail) == (damaged_file, False)
        assert {path: disk.contents(path) for path in disk.files()} == damaged_files
        if chance.random() < 0.5:
            crash_while_repairing(disk, segment_bytes, chance)
        journal, found = open_journal(disk, segment_bytes, recover_damaged=True)
        assert is_subsequence(found, whole)
        # What was set aside, and what was put in its place, is durable.
        copies = {one.copy: disk.contents(one.copy) for one in journal.set_aside if one.copy}
        disk.crash()
        assert {copy: disk.contents(copy) for copy in copies} == copies
        journal, again = open_journal(disk, segment_bytes)
        assert again == found
        for path, octets in files.items():
            if damaged_files.get(path) == octets:
                kept = [entry for entry in whole if entry[1] in octets]
                assert is_subsequence(kept, found)
    write(journal, [(9, b"more")])
    journal.mark()
    flush(journal)
    assert open_journal(disk, segment_bytes)[1] == [*found, (9, b"more")]
    assert inspect_folder(disk).journal.first_bad is None


def crash_while_repairing(disk: SimulatedDisk, segment_bytes: int, chance: random.Random) -> None:
    disk.crash_at = chance.randint(1, 15)
    try:
        open_journal(disk, segment_bytes, recover_damaged=True)
    except SimulatedCrash:
        disk.crash()
    disk.crash_at = None


def test_a_damaged_last_segment_is_followed_by_a_new_one() -> None:
    """A segment with a gap is never the last: the search for proofs relies on positions in a row."""
    disk = written(5, segment_bytes=1 << 20)
    octets = bytearray(disk.contents(FIRST))
    octets[SEGMENT_BYTES + 3] ^= 255
    disk.overwrite(FIRST, bytes(octets))
    journal, found = open_journal(disk, recover_damaged=True)
    assert found == joined(numbered(5)[1:])
    assert journal.current_segment == 2
    assert disk.list("journal") == ["00000001.log", "00000002.log"]
