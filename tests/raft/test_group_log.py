"""The group's log against a list, with crashes at every write of the journal, and segments that are retired."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raft.configuration import Configuration, make_configuration
from raft.entry import MEMBERSHIP, REGULAR, Entry
from raft.errors import CorruptLog
from raft.journal_records import RAFT_ENTRY, RAFT_STATE
from raft.log import GroupLog
from raft.recovery import RecoveredGroup
from storage.journal import Journal
from storage.page_store import PageLocation, PageStore
from tests.example_counts import examples
from tests.raft.raft_node import JournalPort
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk

FIRST = make_configuration(["n1", "n2", "n3"])


@dataclass(frozen=True)
class Shape:
    """What a log is, as far as it has to survive."""

    term: int
    voted_for: str | None
    checkpoint: tuple[int, bytes]
    entries: tuple[Entry, ...]
    configuration: Configuration


def shape_of(log: GroupLog, checkpoint: bytes) -> Shape:
    entries = tuple(log.entries_between(log.checkpoint_index + 1, log.last_index))
    return Shape(log.current_term, log.voted_for, (log.checkpoint_index, checkpoint), entries, log.configuration)


class FilePlacer:
    """Puts whole entries into page files. What dies is given up when a checkpoint that was captured later is synced."""

    least_bytes = 50

    def __init__(self, disk: SimulatedDisk) -> None:
        self.store = PageStore(disk, 400)
        self.places: dict[int, PageLocation] = {}
        self.dead: list[PageLocation] = []
        self.captured: list[tuple[int, list[PageLocation]]] = []

    def place(self, index: int, data: bytes) -> bytes | None:
        if data[0] % 4 == 0:
            return None
        self.places[index] = self.store.place(7, data)
        return struct.pack(">LQL", *self.places[index])

    def put_together(self, index: int, short: bytes) -> bytes:
        self.places[index] = PageLocation(*struct.unpack(">LQL", short))
        self.store.adopt(7, [self.places[index]])
        return self.store.read(7, self.places[index])

    def take_back(self, index: int) -> None:
        self._bury([each for each in self.places if each >= index])

    def _bury(self, indexes: list[int]) -> None:
        self.dead += [self.places.pop(each) for each in indexes]

    def checkpoint(self, index: int, position: int) -> None:
        """One is written that ends at this position: entries up to the index are applied, and their places are dead."""
        self._bury([each for each in self.places if each <= index])
        self.captured.append((position, self.dead))
        self.dead = []

    def synced(self, position: int) -> None:
        while self.captured and self.captured[0][0] <= position:
            for location in self.captured.pop(0)[1]:
                self.store.release(7, location)

    def salvage(self) -> None:
        raise NotImplementedError

    def take_losses(self) -> list[str]:
        raise NotImplementedError


@dataclass(eq=False)
class Life:
    """A log on a journal, and every shape that it has had since the last sync, the synced one first. places: large
    entries lie in page files."""

    disk: SimulatedDisk
    places: bool = False
    placer: FilePlacer | None = None
    shapes: list[Shape] = field(default_factory=list)
    checkpoint: bytes = b""
    was_synced: bool = False

    is_deleted = False

    def open(self) -> None:
        """Recover, and check that it is one of the shapes that it may be."""
        journal = Journal(self.disk, segment_bytes=500, record_bytes=200)
        self.port = JournalPort(journal, 1500)
        recovered: RecoveredGroup | None = None
        for segment, kind, payload in journal.recover():
            recovered = recovered or RecoveredGroup(1)
            recovered.take(segment, kind, bytes(payload))
        self.placer = FilePlacer(self.disk) if self.places else None
        self.log = GroupLog(1, self.port, self, self.placer)
        if recovered is None or recovered.is_nothing:
            assert not self.was_synced, "all is gone"
            self.checkpoint = b"0"
            self.log.begin(FIRST, [b"0"])
        else:
            self.log.adopt(recovered)
            assert recovered.checkpoint is not None
            self.checkpoint = b"".join(recovered.checkpoint.chunks)
            found = shape_of(self.log, self.checkpoint)
            self.was_synced = True  # recovery syncs what it has read
            assert found in self.shapes, f"{found} is none of {self.shapes}"
        if self.placer is not None:
            self.placer.store.drop_orphans([7])
        self.shapes = [shape_of(self.log, self.checkpoint)]

    def note(self) -> None:
        self.shapes.append(shape_of(self.log, self.checkpoint))

    def sync(self) -> None:
        while (batch := self.port.journal.take_batch()) is not None:
            if self.placer is not None and (pages := self.placer.store.take_writes()) is not None:
                pages.run()
                pages.finish()
            batch.write_and_sync()
            self.port.journal.batch_done(batch)
            self.port.synced(batch.position)
            self.log.synced(batch.position)
            if self.placer is not None:
                self.placer.synced(batch.position)
            self.was_synced = True
        assert self.log.synced_index == self.log.last_index
        self.shapes = self.shapes[-1:]

    def take_checkpoint(self, index: int) -> None:
        """In two chunks, of which one alone would be noticed."""
        term = self.log.term_at(index)
        assert term is not None
        self.checkpoint = b"state at %d of %d" % (index, term)
        self.log.write_checkpoint(index, term, [self.checkpoint[:8], self.checkpoint[8:]])
        if self.placer is not None:
            self.placer.checkpoint(index, self.log.position)

    def leave_segment(self, segment: int) -> None:
        """As a member does it, with everything up to the middle of the log applied."""
        log = self.log
        if log.oldest_needed_segment() <= segment:
            self.take_checkpoint((log.checkpoint_index + log.last_index) // 2)
            self.note()
            if log.oldest_entry_segment() <= segment:
                log.rewrite_entries()
        if log.state_segment <= segment:
            log.rewrite_state()
        self.note()


def work(life: Life, chance: random.Random) -> None:
    """What a member does to its log."""
    for _ in range(chance.randint(1, 40)):
        log = life.log
        draw = chance.random()
        if draw < 0.45:
            if log.last_term > log.current_term or log.current_term == 0:
                log.set_state(log.current_term + 1, "n1")
                life.note()
            data, kind = chance.randbytes(chance.choice([0, 10, 90, 300])), REGULAR
            if chance.random() < 0.1:
                data, kind = FIRST.with_learner(f"n{chance.randint(4, 9)}").encode(), MEMBERSHIP
            log.add(data, log.last_index + 1, log.current_term, kind)
        elif draw < 0.55:
            log.set_state(log.current_term + chance.randint(0, 1), chance.choice([None, "n1", "n2"]))
        elif draw < 0.65 and log.last_index > log.checkpoint_index:
            log.set_state(log.current_term + 1, None)
            life.note()
            index = chance.randint(log.checkpoint_index + 1, log.last_index)
            log.cut_from(index)
            log.add(b"instead", index, log.current_term)
        elif draw < 0.72:
            life.take_checkpoint(chance.randint(log.checkpoint_index, log.last_index))
        elif draw < 0.75:
            log.set_state(log.current_term + 1, None)
            life.note()
            index = max(1, log.checkpoint_index + chance.randint(1, 20))
            life.checkpoint = b"installed at %d" % index
            if life.placer is not None:
                life.placer.checkpoint(log.checkpoint_index, log.position)
            log.replace(index, log.current_term, FIRST, [life.checkpoint])
        elif draw < 0.8:
            log.trim(chance.randint(log.base_index, log.checkpoint_index))
        elif draw < 0.9:
            life.port.shorten()
        else:
            life.sync()
        life.note()


def play(seed: int, *, places: bool) -> None:
    chance = random.Random(seed)
    life = Life(SimulatedDisk(chance), places)
    for _ in range(10):
        life.disk.crash_at = chance.randint(1, 40) if chance.random() < 0.7 else None
        try:
            life.open()
            work(life, chance)
        except SimulatedCrash:
            pass
        if chance.random() < 0.8:
            life.disk.crash()
        else:
            life.disk.come_back()
    life.open()


@settings(deadline=None, max_examples=examples(250))
@given(st.integers(0, 2**64))
def test_the_log_survives_a_crash_at_any_write(seed: int) -> None:
    play(seed, places=False)


@settings(deadline=None, max_examples=examples(250))
@given(st.integers(0, 2**64))
def test_the_log_survives_a_crash_at_any_write_with_parts_elsewhere(seed: int) -> None:
    play(seed, places=True)


def test_an_entry_is_written_in_short_again_and_whole_to_others() -> None:
    life = Life(SimulatedDisk(random.Random(1)), places=True)
    life.open()
    log, data = life.log, b"\1" + b"x" * 400
    before = log.live_bytes
    log.set_state(1, "n1")
    log.add(data, 1, 1)
    assert log.live_bytes - before < 400 < log.appended_bytes
    for _ in range(3):
        life.sync()
        assert log.entries_from(1, 1 << 20) == [(data, 1, 1, REGULAR)]
        log.rewrite_entries()
    assert life.port.position < 400
    life.note()
    life.disk.crash()
    life.open()
    assert life.log.entries_from(1, 1 << 20) == [(data, 1, 1, REGULAR)]
    assert life.log.live_bytes - before < 400


def test_who_puts_nothing_elsewhere_refuses_an_entry_with_a_part_there() -> None:
    life = Life(SimulatedDisk(random.Random(1)), places=True)
    life.open()
    life.log.set_state(1, "n1")
    life.log.add(b"\1" + b"x" * 400, 1, 1)
    life.sync()
    life.places = False
    with pytest.raises(CorruptLog, match="entry 1 has a part elsewhere"):
        life.open()


def new_log() -> GroupLog:
    life = Life(SimulatedDisk(random.Random(1)))
    life.open()
    return life.log


def test_the_hint_goes_back_one_term_at_a_time() -> None:
    log = new_log()
    for index, term in enumerate([1, 1, 1, 4, 4, 5, 5, 6], start=1):
        log.add(b"", index, term)
    assert log.last_match(8, 6) == 8
    assert log.last_match(8, 3) == 3
    assert log.last_match(5, 4) == 5
    assert log.last_match(100, 5) == 7
    assert log.last_match(2, 9) == 2
    assert log.last_match(8, 0) == 0


def test_an_entry_must_follow() -> None:
    log = new_log()
    log.add(b"", 1, 3)
    with pytest.raises(ValueError, match="entry 3 of term 3 cannot follow 1 of 3"):
        log.add(b"", 3, 3)
    with pytest.raises(ValueError, match="entry 2 of term 2 cannot follow 1 of 3"):
        log.add(b"", 2, 2)


def test_nothing_is_cut_below_the_checkpoint() -> None:
    log = new_log()
    for index in (1, 2, 3):
        log.add(b"", index, 1)
    log.write_checkpoint(2, 1, [])
    with pytest.raises(ValueError, match="below the checkpoint"):
        log.cut_from(2)


def records(recovered: RecoveredGroup, *entries: tuple[int, int, bytes]) -> None:
    for index, term, data in entries:
        head = (1).to_bytes(4, "big") + index.to_bytes(8, "big") + term.to_bytes(8, "big") + b"\0"
        recovered.take(1, RAFT_ENTRY, head + data)


def test_a_log_without_its_checkpoint_is_refused() -> None:
    recovered = RecoveredGroup(1)
    records(recovered, (5, 1, b"a"))
    with pytest.raises(CorruptLog, match="group 1: its entries are there, but no checkpoint"):
        recovered.finish()


def test_the_same_entry_with_other_contents_is_refused() -> None:
    recovered = RecoveredGroup(1)
    records(recovered, (5, 1, b"a"), (5, 1, b"b"))
    with pytest.raises(CorruptLog, match="entry 5 of term 1 is there twice"):
        recovered.finish()


def test_a_record_of_nonsense_is_refused() -> None:
    recovered = RecoveredGroup(1)
    recovered.take(3, RAFT_STATE, b"12345")
    assert not recovered.is_nothing
    with pytest.raises(CorruptLog, match="journal segment 3: a state of 5 octets is too short"):
        recovered.finish()
