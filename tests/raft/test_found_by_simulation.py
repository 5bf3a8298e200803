"""What seeds have found, each as a case of its own with its cause: a seed replays only while the storm draws the same.

Seeds are those of tests/raft/simulate.py when they failed.
"""

from __future__ import annotations

import pytest

from amqp_broker.octets.buffer import Buffer
from raft.configuration import make_configuration
from raft.entry import NO_OP
from raft.errors import CorruptLog
from raft.install import InstallSender
from raft.journal_records import RAFT_CHECKPOINT, RAFT_ENTRY, RAFT_STATE, put_checkpoint, put_entry, put_state
from raft.recovery import RecoveredGroup
from raft.settings import RaftSettings
from tests.raft.cluster import Cluster
from tests.raft.simulation_faults import Storm

MEMBERS = make_configuration(["n1"])


class Records:
    """Journal records of group 1, read back as they are given."""

    def __init__(self) -> None:
        self.group = RecoveredGroup(1)

    def entries(self, segment: int, first: int, last: int, term: int = 1) -> Records:
        for index in range(first, last + 1):
            buffer = Buffer()
            put_entry(buffer, 1, (b"%d" % index, index, term, NO_OP))
            self.group.take(segment, RAFT_ENTRY, buffer.take())
        return self

    def checkpoint(self, segment: int, index: int, term: int = 1, replaces: bool = False) -> Records:
        buffer = Buffer()
        put_checkpoint(buffer, 1, index, term, replaces, 0, 1, MEMBERS.encode())
        self.group.take(segment, RAFT_CHECKPOINT, buffer.take())
        return self

    def state(self, segment: int, term: int) -> Records:
        buffer = Buffer()
        put_state(buffer, 1, term, None)
        self.group.take(segment, RAFT_STATE, buffer.take())
        return self

    def found(self) -> tuple[int, list[int]]:
        """The checkpoint, and the indexes above it."""
        return self.group.finish().index, [entry[1] for entry in self.group.entries]


def test_entries_behind_a_gap_are_kept_for_a_later_checkpoint() -> None:
    """Seed 2, size 5: a crash while entries were written again left the first of them behind a checkpoint; later all
    was written again further on, and the segment with the rest retired. The node took the gap for damage."""
    records = Records().state(12, 1).checkpoint(12, 53).entries(12, 54, 60).entries(13, 81, 90)
    assert records.checkpoint(14, 85).found() == (85, [86, 87, 88, 89, 90])


def test_a_checkpoint_behind_a_gap_is_taken() -> None:
    """Seed 6, size 3: between two checkpoints all entries were in a segment that is gone."""
    assert Records().state(71, 1).checkpoint(71, 1644).checkpoint(71, 1648).found() == (1648, [])


def test_entries_are_kept_when_a_checkpoint_does_not_reach_them() -> None:
    """Seed 13, size 5: with the oldest segment gone, entries began above a checkpoint that was superseded later. They
    were thrown away there, and missing behind the later checkpoint."""
    records = Records().state(16, 1).entries(6, 51, 169).checkpoint(16, 40).entries(17, 170, 187)
    assert records.checkpoint(17, 116).entries(18, 188, 190).found() == (116, list(range(117, 191)))


def test_a_gap_at_the_end_is_damage() -> None:
    with pytest.raises(CorruptLog, match="its entries begin at 60, and the checkpoint is at 50"):
        Records().state(1, 1).checkpoint(1, 50).entries(1, 60, 61).found()


def test_a_torn_rewrite_does_not_cut_what_follows() -> None:
    """Seed 1202 of the log's model, with that rule turned off."""
    records = Records().state(1, 1).checkpoint(1, 0).entries(1, 1, 9).checkpoint(2, 4).entries(2, 5, 6)
    assert records.found() == (4, [5, 6, 7, 8, 9])


def test_an_install_voids_the_entries_before_it() -> None:
    """A conflicting tail whose beginning is in a retired segment would otherwise fit behind the installed state."""
    assert Records().state(4, 3).entries(5, 501, 600).checkpoint(5, 500, 3, replaces=True).found() == (500, [])


def test_a_late_reply_does_not_begin_the_install_anew() -> None:
    """Seed 21, size 5: parts arrived in disorder; for each that came before the first one the receiver said that it
    knew of no install, and each time the sender began another one, for ever."""
    cluster = Cluster(1, settings=RaftSettings(install_in_flight_bytes=400))
    cluster.settle()
    for _ in range(100):
        cluster.propose(bytes(50))
    cluster.settle()
    member = cluster["n1"].group().member
    sender = InstallSender(member, 1, member.last_applied, 1, MEMBERS)
    assert [chunk.number for chunk in sender.take_chunks()] == [0, 1]
    assert sender.acknowledged(1)
    assert sender.acknowledged(0), "it came late"
    member.clock += member.settings.election_timeout_min_ms
    assert [chunk.number for chunk in sender.take_again()] == [1]
    assert not sender.acknowledged(0), "the receiver has forgotten all"


def test_events_of_a_paused_node_stay_in_order() -> None:
    """Seed 165, size 3, a fault of the simulation: when peace came to a paused node, a link that was made after the
    pause was undone by one that had been lost before it."""
    Storm(165, 3).run()
