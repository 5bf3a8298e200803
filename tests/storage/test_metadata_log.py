"""The metadata log: commands come back in order; snapshots replace them whole or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import CorruptRecord
from storage.journal import Journal
from storage.metadata_log import SPARE_BYTES, Command, MetadataEntry, MetadataLog
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.journal_driver import new_disk, open_journal, write


def open_log(disk: SimulatedDisk) -> tuple[MetadataLog, list[Command]]:
    log = MetadataLog(disk, segment_bytes=500)
    return log, log.recover()


def flush(log: MetadataLog) -> None:
    batch = log.take_batch()
    assert batch is not None
    batch.write_and_sync()
    log.batch_done(batch)


def test_commands_come_back_in_order() -> None:
    disk = new_disk()
    log, found = open_log(disk)
    assert found == []
    commands: list[Command] = [
        {"op": "queue.declare", "queue": "q\udcff \u00e4", "arguments": {"x-max-length": 10, "n": None}},
        {"op": "bind", "list": [1, 2.5, True, "x"]},
    ]
    positions = [log.append(command) for command in commands]
    assert positions == sorted(set(positions))
    assert log.position == positions[-1]
    assert log.has_pending
    flush(log)
    assert not log.has_pending
    assert open_log(disk)[1] == commands


def test_what_is_not_json_is_refused_and_the_log_stays_usable() -> None:
    disk = new_disk()
    log, _ = open_log(disk)
    with pytest.raises(TypeError):
        log.append({"op": b"octets"})
    log.append({"op": "fine"})
    flush(log)
    assert open_log(disk)[1] == [{"op": "fine"}]


def test_a_snapshot_replaces_everything_before_it() -> None:
    disk = new_disk()
    log, _ = open_log(disk)
    for number in range(50):
        log.append({"op": "old", "number": number})
        flush(log)
    log.append({"op": "pending"})
    log.rewrite([{"op": "state"}])
    log.append({"op": "new"})
    flush(log)
    assert len(disk.list("metadata")) == 1
    assert open_log(disk)[1] == [{"op": "state"}, {"op": "new"}]


def test_the_log_wants_to_be_rewritten_when_it_has_outgrown_its_snapshot() -> None:
    disk = new_disk()
    log = MetadataLog(disk)
    log.recover()
    state: list[Command] = [{"op": "state", "text": "x" * 1000}] * 500
    log.rewrite(state)
    flush(log)
    assert not log.wants_rewrite()
    again = MetadataLog(disk)
    assert again.recover() == state
    while not again.wants_rewrite():
        again.append({"op": "more", "text": "y" * 1000})
        flush(again)
    snapshot_bytes = 500 * (len('{"op":"state","text":""}') + 1000)
    assert 2 * snapshot_bytes + SPARE_BYTES <= again.total_bytes < 2 * snapshot_bytes + SPARE_BYTES + 30_000
    again.rewrite(state)
    flush(again)
    assert again.total_bytes < 1.1 * snapshot_bytes
    assert not again.wants_rewrite()


def test_a_snapshot_without_its_end_counts_for_nothing() -> None:
    disk = new_disk()
    log, _ = open_log(disk)
    log.append({"op": "old"})
    flush(log)
    log.rewrite([{"op": "state"}])
    batch = log.take_batch()
    assert batch is not None
    batch.removals.clear()
    batch.write_and_sync()
    second = "metadata/00000002.log"
    disk.overwrite(second, disk.contents(second)[:-1])
    log, found = open_log(disk)
    assert found == [{"op": "old"}]
    log.append({"op": "new"})
    flush(log)
    assert open_log(disk)[1] == [{"op": "old"}, {"op": "new"}]


def test_what_follows_an_unfinished_snapshot_is_no_part_of_it() -> None:
    """A large snapshot is several records, of which a crash may leave the first ones."""
    disk = new_disk()
    log, _ = open_log(disk)
    log.append({"op": "old"})
    flush(log)
    journal = Journal(disk, "metadata")
    list(journal.recover())
    write(journal, [(MetadataEntry.SNAPSHOT_BEGIN, b""), (MetadataEntry.COMMAND, b'{"op":"half"}')])
    log, found = open_log(disk)
    assert found == [{"op": "old"}]
    log.append({"op": "new"})
    flush(log)
    log, found = open_log(disk)
    assert found == [{"op": "old"}, {"op": "new"}]
    log.rewrite(found)
    flush(log)
    assert open_log(disk)[1] == found


def test_a_snapshot_that_cannot_be_written_changes_nothing() -> None:
    disk = new_disk()
    log, _ = open_log(disk)
    log.append({"op": "old"})
    with pytest.raises(TypeError):
        log.rewrite([{"op": "fine"}, {"op": b"octets"}])
    log.append({"op": "new"})
    flush(log)
    assert open_log(disk)[1] == [{"op": "old"}, {"op": "new"}]


def test_an_entry_of_another_log_is_damage() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, [(77, b"{}")])
    with pytest.raises(CorruptRecord, match="kind 77 does not belong into a metadata log"):
        MetadataLog(disk, "journal").recover()


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**64))
def test_against_a_list_with_crashes(seed: int) -> None:
    """A state of one list, of which the commands append and the snapshot is the whole."""
    chance = random.Random(seed)
    disk = SimulatedDisk(chance)
    state: list[object] = []
    synced = 0
    for _ in range(6):
        try:
            log, found = open_log(disk)
            numbers = [command["number"] for command in found]
            assert numbers == state[: len(numbers)]
            assert len(numbers) >= synced
            state = numbers
            synced = len(state)
            disk.crash_at = chance.randint(1, 25)
            while True:
                for _ in range(chance.randint(1, 5)):
                    state.append(len(state))
                    log.append({"op": "append", "number": state[-1], "text": "x" * chance.randrange(100)})
                if chance.random() < 0.3:
                    log.rewrite({"op": "append", "number": number} for number in list(state))
                flush(log)
                synced = len(state)
        except SimulatedCrash:
            disk.crash()
