"""StoredGroups: what a data folder holds of the node's groups, without a running node and without changing anything.

What a log has beyond its last checkpoint counts, also where it is not known whether it is committed: a node alone
commits it at its next start.
"""

from __future__ import annotations

from typing import NamedTuple

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.machine import MetadataMachine
from amqp_broker.metadata.metadata import Metadata
from queues.pager import Pager
from queues.quorum.commands import NodeDown, encode_leader_batch
from queues.quorum.machine import QueueGroupMachine
from raft.entry import PLACED, REGULAR
from raft.journal_records import MEMORY_KINDS, group_of
from raft.machine import Machine, Placer
from raft.memory import Memory
from raft.recovery import RecoveredGroup

METADATA_GROUP = 0


class StoredGroup(NamedTuple):
    """A group in figures. entries: those above the checkpoint; last_index: the index of the last of them."""

    group: int
    voters: tuple[str, ...]
    learners: tuple[str, ...]
    term: int
    checkpoint_index: int
    entries: int
    last_index: int


class StoredGroups:
    """Fed with the journal's entries of raft's kinds by `take`; then asked."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._recovered: dict[int, RecoveredGroup] = {}

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        """An entry of the journal, in order. Raises CorruptLog, ValueError."""
        if kind in MEMORY_KINDS:
            self.memory.take(kind, payload)
            return
        group_id = group_of(payload)
        recovered = self._recovered.get(group_id)
        if recovered is None:
            self._recovered[group_id] = recovered = RecoveredGroup(group_id)
        recovered.take(segment, kind, payload)

    def describe(self) -> list[StoredGroup]:
        """All groups of which there is something, in order."""
        return [_describe(self._recovered[group_id]) for group_id in self.group_ids()]

    def group_ids(self) -> list[int]:
        """The groups of which the journal holds something, in order."""
        return sorted(group_id for group_id, each in self._recovered.items() if not each.is_nothing)

    def metadata(self) -> Metadata:
        """What the metadata group says. Raises CorruptLog, ValueError."""
        metadata = Metadata()
        self._replay(METADATA_GROUP, MetadataMachine(metadata, _Nobody()))
        return metadata

    def queue_group(self, group_id: int, pager: Pager) -> QueueGroupMachine:
        """The quorum queues of a group, with everything that was handed out given back, as a start does. Raises
        CorruptLog, CorruptRecord, ValueError, OSError."""
        machine = QueueGroupMachine("", pager)
        self._replay(group_id, machine, machine.placer)
        downs = [NodeDown(node, session) for node, session in machine.open_sessions().items()]
        if downs:
            machine.apply(0, 0, encode_leader_batch(machine.clock, downs), 0)
        return machine

    def _replay(self, group_id: int, machine: Machine, placer: Placer | None = None) -> None:
        recovered = self._recovered.get(group_id)
        if recovered is None or recovered.is_nothing:
            return
        machine.restore(recovered.finish().chunks)
        for data, index, term, kind in recovered.entries:
            if kind == PLACED and placer is not None:
                machine.apply(index, term, placer.put_together(index, data), 0)
            elif kind == REGULAR:
                machine.apply(index, term, data, 0)


def _describe(recovered: RecoveredGroup) -> StoredGroup:
    configuration = recovered.configuration
    checkpoint_index = recovered.checkpoint.index if recovered.checkpoint is not None else 0
    last_index = recovered.entries[-1][1] if recovered.entries else checkpoint_index
    return StoredGroup(
        recovered.group_id,
        configuration.voters,
        configuration.learners,
        recovered.term,
        checkpoint_index,
        len(recovered.entries),
        last_index,
    )


class _Nobody:
    """A listener who does nothing."""

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        pass

    def replaced(self, index: int) -> None:
        pass

    def leads(self, is_leader: bool, leader: str | None) -> None:
        pass
