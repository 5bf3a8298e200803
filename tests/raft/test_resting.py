"""Members that are not needed for a majority get entries a little later, many at once (decision 0047)."""

from __future__ import annotations

import pytest

from raft.leadership import REST_BYTES
from raft.messages import Append
from raft.settings import RaftSettings
from raft.wire import decode
from tests.raft.cluster import Cluster
from tests.raft.raft_node import RaftNode


class Room:
    """A group that n1 leads, whose machine concerns nobody; what goes to each other member is noted."""

    def __init__(self, size: int = 3, settings: RaftSettings | None = None) -> None:
        self.cluster = Cluster(size, settings=settings)
        self.cluster.elect("n1")
        self.leader: RaftNode = self.cluster["n1"]
        for node in self.cluster.up:
            node.machines[1].concerned = ()
        self.cluster.propose(b"first")
        for _ in range(500):  # until it is forgotten how long the start took
            self.cluster.now += 1
            self.cluster.propose(b"")
            self.cluster.settle()
            if self.needed():
                break
        self.cluster.pass_time(1000)
        self.appends: dict[str, list[int]] = {name: [] for name in self.cluster.nodes if name != "n1"}
        self.silent = ""
        self.cluster.passes = self._passes

    def _passes(self, sender: str, receiver: str, frame: bytes) -> bool:
        message = decode(frame)
        if sender == "n1" and isinstance(message, Append):
            self.appends[receiver].append(len(message.entries))
        return self.silent not in (sender, receiver)

    def carry(self, data: bytes, milliseconds: int = 1) -> None:
        """An entry, and so much time."""
        self.cluster.propose(data)
        self.cluster.settle()
        self.wait(milliseconds)

    def wait(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.cluster.now += 1
            for node in self.cluster.up:
                node.host.tick(self.cluster.now)
            self.cluster.settle()

    def said(self, name: str) -> list[bytes]:
        return [data for data in self.cluster.machine(name).data if data]

    def needed(self) -> list[str]:
        progress = self.leader.group().member.role.progress
        return [name for name in progress if progress[name].is_needed]

    @property
    def unneeded(self) -> str:
        return next(name for name in self.appends if name not in self.needed())


def test_a_lone_entry_is_committed_by_the_leader_and_one_other_and_the_third_has_it_with_those_that_follow() -> None:
    room = Room()
    for number in range(20):
        room.carry(bytes([number]))
        assert room.leader.machines[1].data[-1] == bytes([number])
        assert room.leader.group().member.log.synced_index == room.leader.group().last_index
    assert len(room.needed()) == 1
    assert room.appends[room.needed()[0]] == [1] * 20
    assert len(room.appends[room.unneeded]) <= 20 // 4
    room.wait(2 * room.cluster.settings.notice_ms)
    assert sum(room.appends[room.unneeded]) == 20
    assert len({tuple(room.cluster.machine(name).data) for name in room.cluster.nodes}) == 1


def test_whom_a_commit_concerns_gets_the_entry_with_the_word_that_it_is_committed() -> None:
    room = Room()
    room.carry(b"a")
    third = room.unneeded
    room.leader.machines[1].concerned = {third}
    room.cluster.propose(b"b")
    room.cluster.settle()  # no time passes
    assert room.cluster.machine(third).data[-1] == b"b"


def test_a_member_that_goes_silent_is_needed_no_more_after_notice_ms() -> None:
    room = Room()
    room.carry(b"a")
    silent = room.needed()[0]
    room.silent = silent
    room.cluster.propose(b"b")
    room.cluster.settle()
    assert room.leader.machines[1].data[-1] == b"a"
    room.wait(room.cluster.settings.notice_ms)
    assert room.leader.machines[1].data[-1] == b"b"
    room.carry(b"c", 0)
    assert room.leader.machines[1].data[-1] == b"c"
    assert silent not in room.needed()


def test_a_member_whose_link_goes_is_needed_no_more_at_once() -> None:
    room = Room()
    room.carry(b"a", 0)
    room.cluster.crash(room.needed()[0])
    room.carry(b"b", 0)
    assert room.leader.machines[1].data[-1] == b"b"


def test_much_does_not_rest() -> None:
    room = Room()
    room.carry(b"a", 10)
    sent = len(room.appends[room.unneeded])
    room.carry(bytes(REST_BYTES + 1), 0)
    assert len(room.appends[room.unneeded]) == sent + 1


@pytest.mark.parametrize("size", [2, 4, 5])
def test_as_many_are_needed_as_make_a_majority_with_the_leader(size: int) -> None:
    room = Room(size)
    for number in range(10):
        room.carry(bytes([number]))
    at_once = [name for name, entries in room.appends.items() if entries == [1] * 10]
    assert len(at_once) == size // 2
    room.wait(10)
    assert all(sum(entries) == 10 for entries in room.appends.values())


def test_without_notice_ms_nothing_rests() -> None:
    room = Room(settings=RaftSettings(notice_ms=0))
    for number in range(5):
        room.carry(bytes([number]))
    assert list(room.appends.values()) == [[1] * 5] * 2


def test_what_the_leader_and_one_other_have_survives_the_leader() -> None:
    room = Room()
    room.carry(b"a", 0)
    room.carry(b"b", 0)
    room.cluster.crash("n1")
    room.cluster.pass_time(5000)
    assert [room.said(name) for name in room.appends] == [[b"first", b"a", b"b"]] * 2
