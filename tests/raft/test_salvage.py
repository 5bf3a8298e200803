"""A damaged log of a node alone: what is left of it, that it is told what is lost, and that it can be read again."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets.buffer import Buffer
from raft.configuration import make_configuration
from raft.entry import REGULAR
from raft.errors import CorruptLog
from raft.host import RaftHost
from raft.journal_records import (
    RAFT_CHECKPOINT,
    RAFT_ENTRY,
    RAFT_STATE,
    put_checkpoint,
    put_entry,
    put_state,
)
from raft.outbox import Outbox
from raft.recovery import RecoveredGroup
from raft.settings import RaftSettings
from storage.journal import Journal
from tests.raft.raft_node import JournalPort, ListMachine
from tests.simulation.simulated_disk import SimulatedDisk

ALONE = make_configuration(["n1"])
Record = tuple[int, bytes]


def entry(index: int, term: int = 1) -> Record:
    buffer = Buffer()
    put_entry(buffer, 1, (b"%d" % index, index, term, REGULAR))
    return RAFT_ENTRY, buffer.take()


def state(term: int) -> Record:
    buffer = Buffer()
    put_state(buffer, 1, term, "n1")
    return RAFT_STATE, buffer.take()


def checkpoint(index: int, term: int = 1, replaces: bool = False) -> list[Record]:
    """In three parts: the configuration and two chunks."""
    records = []
    for number, data in enumerate((ALONE.encode(), b"state", b" at %d" % index)):
        buffer = Buffer()
        put_checkpoint(buffer, 1, index, term, replaces, number, 3, data)
        records.append((RAFT_CHECKPOINT, buffer.take()))
    return records


def read(records: list[Record]) -> RecoveredGroup:
    group = RecoveredGroup(1)
    for kind, payload in records:
        group.take(1, kind, payload)
    return group


def salvaged(records: list[Record]) -> tuple[list[str], int | None, list[int]]:
    """What is lost, the checkpoint, and the indexes above it."""
    group = read(records)
    lost = group.salvage(ALONE, [b"empty"])
    if group.checkpoint is None:
        return lost, None, []
    assert not group.is_damaged
    return lost, group.finish().index, [each[1] for each in group.entries]


def entries(first: int, last: int, term: int = 1) -> list[Record]:
    return [entry(index, term) for index in range(first, last + 1)]


def test_a_whole_log_loses_nothing() -> None:
    records = [state(1), *checkpoint(0, 0), *entries(1, 5), *checkpoint(3), *entries(6, 7)]
    assert salvaged(records) == ([], 3, [4, 5, 6, 7])


def test_entries_behind_a_gap_are_lost() -> None:
    lost, index, left = salvaged([state(1), *checkpoint(0, 0), *entries(1, 5), *entries(8, 9)])
    assert (index, left) == (0, [1, 2, 3, 4, 5])
    assert lost == [
        "group 1: its entries begin at 8, and the checkpoint is at 0",
        "group 1: entries 6 to 9 are lost",
    ]


def test_a_gap_below_a_later_checkpoint_costs_nothing() -> None:
    assert salvaged([state(1), *checkpoint(0, 0), *entries(1, 5), *entries(8, 9), *checkpoint(8)]) == ([], 8, [9])


def test_a_gap_between_a_checkpoint_and_its_entries() -> None:
    """The checkpoint lies below the gap: what is before it counts, from the checkpoint on."""
    lost, index, left = salvaged([state(1), *checkpoint(0, 0), *entries(1, 5), *entries(8, 9), *checkpoint(3)])
    assert (index, left) == (3, [4, 5])
    assert lost[-1] == "group 1: entries 6 to 9 are lost"


def test_entries_that_were_written_again_fill_the_gap() -> None:
    records = [state(1), *checkpoint(0, 0), *entries(1, 5), *entries(8, 9), *checkpoint(3), *entries(4, 7)]
    lost, index, left = salvaged(records)
    assert (index, left) == (3, [4, 5, 6, 7, 8, 9])
    assert lost == ["group 1: its log ends at 7, and there were entries above that"]


def test_a_checkpoint_that_lacks_a_part_counts_for_nothing() -> None:
    whole = checkpoint(4)
    for missing in range(3):
        records = [state(1), *checkpoint(0, 0), *entries(1, 5)]
        records += [each for number, each in enumerate(whole) if number != missing]
        records += entries(6, 7)
        _, index, left = salvaged(records)
        assert (index, left) == (0, [1, 2, 3, 4, 5, 6, 7]), missing


def test_the_first_checkpoint_can_be_done_without() -> None:
    """It is that of an empty group."""
    group = read([state(1), *entries(1, 3)])
    assert group.salvage(ALONE, [b"empty"])
    assert group.finish().chunks == [b"empty"]
    assert group.finish().configuration == ALONE
    assert [each[1] for each in group.entries] == [1, 2, 3]


def test_nothing_is_left_without_a_checkpoint() -> None:
    lost, index, left = salvaged([state(3), *entries(7, 9, 3)])
    assert (index, left) == (None, [])
    assert lost[-1] == "group 1: all of it is lost, up to entry 9"


def test_a_lost_term_is_taken_from_the_entries() -> None:
    group = read([*checkpoint(0, 0), *entries(1, 3, 5)])
    assert group.salvage(ALONE, [])
    assert group.term == 5


def test_what_replaces_the_log_makes_damage_before_it_void() -> None:
    records = [state(1), *checkpoint(0, 0), *entries(1, 5), *entries(8, 9), *checkpoint(20)[1:]]
    assert read(records).is_damaged
    group = read([*records, *checkpoint(3, replaces=True), *entries(4, 5)])
    assert group.finish().index == 3
    assert [each[1] for each in group.entries] == [4, 5]


@given(st.randoms(use_true_random=False), st.integers(0, 60), st.integers(0, 60))
def test_whatever_part_of_the_journal_is_lost_the_rest_is_a_beginning(
    chance: random.Random, start: int, length: int
) -> None:
    """It ends where the whole log ends, or the loss is told; and written again it is read as it is."""
    records: list[Record] = [state(1), *checkpoint(0, 0)]
    last, term, base = 0, 1, 0
    for _ in range(20):
        draw = chance.random()
        if draw < 0.1:
            term += 1
            records.append(state(term))
        elif draw < 0.25 and last > base:
            base = chance.randint(base + 1, last)
            records += checkpoint(base, 0)  # the term is of no account here
        elif draw < 0.35:
            records += entries(base + 1, last)
        else:
            count = chance.randint(1, 4)
            records += entries(last + 1, last + count)
            last += count
    records = [each for each in records if each[0] != RAFT_CHECKPOINT or _term_of(each) == 0]
    start = min(start, len(records))
    left = records[:start] + records[start + length :]
    group = read(left)
    if group.is_nothing:
        return
    was_damaged = group.is_damaged
    lost = group.salvage(ALONE, [b"empty"])
    assert bool(lost) == was_damaged
    if group.checkpoint is None:
        return
    index = group.finish().index
    found = [each[1] for each in group.entries]
    assert found == list(range(index + 1, index + 1 + len(found)))
    again = [*left, state(group.term), *checkpoint(index, group.finish().term, replaces=True)]
    again += [entry(each[1], each[2]) for each in group.entries]
    reread = read(again)
    assert reread.finish().index == index
    assert reread.entries == group.entries


def _term_of(record: Record) -> int:
    return int.from_bytes(record[1][12:20], "big")


class Alone:
    """A host with one group on a disk whose journal is cut into small segments."""

    def __init__(self, disk: SimulatedDisk, *, salvages: bool = False, members: tuple[str, ...] = ("n1",)) -> None:
        self.journal = Journal(disk, segment_bytes=300, record_bytes=200)
        self.host = RaftHost("n1", JournalPort(self.journal, 1 << 20), RaftSettings(), random.Random(1), Outbox())
        self.host.salvages = salvages
        for segment, kind, payload in self.journal.recover(recover_damaged=salvages):
            self.host.feed_recovered(segment, kind, bytes(payload))
        self.machine = ListMachine()
        self.group = self.host.open_group(1, self.machine, members, 0)
        self.sync()

    def sync(self) -> None:
        for _ in range(3):
            self.host.end_turn(0)
            while (batch := self.journal.take_batch()) is not None:
                batch.write_and_sync()
                self.journal.batch_done(batch)
                self.host.synced(batch.position, 0)

    def propose(self, data: bytes) -> None:
        assert self.group.propose(data)
        self.sync()


@pytest.mark.parametrize("segment", range(1, 8))
def test_a_host_goes_on_with_what_is_left_and_its_next_start_needs_no_help(segment: int) -> None:
    disk = SimulatedDisk(random.Random(1))
    before = Alone(disk)
    wanted = [b"entry %d" % number for number in range(40)]
    for data in wanted:
        before.propose(data)
    disk.remove(f"journal/{segment:08d}.log")
    disk.append(f"journal/{segment:08d}.log", [b"x" * 300])
    damaged = Alone(disk, salvages=True)
    left = [each for each in damaged.machine.data if each]
    assert left == wanted[: len(left)]
    assert len(left) < len(wanted)
    assert damaged.host.losses
    damaged.propose(b"new")
    for salvages in (False, True, False):
        again = Alone(disk, salvages=salvages)
        assert again.host.losses == []
        assert [each for each in again.machine.data if each] == [*left, b"new"]


def test_a_member_of_several_does_not_guess() -> None:
    """The others have it all."""
    disk = SimulatedDisk(random.Random(1))
    Alone(disk)
    host = RaftHost("n1", JournalPort(Journal(disk), 1 << 20), RaftSettings(), random.Random(1), Outbox())
    host.salvages = True
    for kind, payload in [state(1), *entries(4, 5)]:
        host.feed_recovered(1, kind, payload)
    with pytest.raises(CorruptLog, match="amqp-broker cluster rejoin"):
        host.open_group(1, ListMachine(), ("n1", "n2", "n3"), 0)
