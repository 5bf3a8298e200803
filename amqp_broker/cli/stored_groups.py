"""The Raft groups of a data folder, read without a running node: how far each log goes, and what it has made of its
quorum queues.

What a log has beyond its last checkpoint counts, although it is not known whether a majority has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from queues.pager import Pager
from queues.quorum.machine import QueueGroupMachine
from raft.entry import REGULAR
from raft.journal_records import group_of
from raft.recovery import RecoveredGroup


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group. Indexes are of its log; entries: how many the journal has above the checkpoint."""

    group: int
    term: int
    checkpoint_index: int
    last_index: int
    entries: int
    voters: tuple[str, ...]
    learners: tuple[str, ...]


class StoredGroups:
    """Fed with the journal's entries of raft's kinds by `take`. Group 0, the metadata, is among them."""

    def __init__(self) -> None:
        self._recovered: dict[int, RecoveredGroup] = {}

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        """An entry of the journal, in order. Raises CorruptLog, ValueError."""
        group_id = group_of(payload)
        if group_id not in self._recovered:
            self._recovered[group_id] = RecoveredGroup(group_id)
        self._recovered[group_id].take(segment, kind, payload)

    def reports(self) -> list[GroupReport]:
        """One for each group, ascending."""
        found = []
        for group_id, group in sorted(self._recovered.items()):
            base = group.checkpoint.index if group.checkpoint is not None else 0
            configuration = group.configuration
            found.append(
                GroupReport(
                    group_id,
                    group.term,
                    base,
                    group.entries[-1][1] if group.entries else base,
                    len(group.entries),
                    configuration.voters,
                    configuration.learners,
                )
            )
        return found

    def queue_groups(self, pager: Pager) -> list[QueueGroupMachine]:
        """What the logs of the groups of quorum queues make. Raises CorruptLog, CorruptRecord, ValueError, OSError."""
        machines = []
        for group_id, group in sorted(self._recovered.items()):
            if group_id == 0 or group.is_nothing:
                continue
            machine = QueueGroupMachine("", pager)
            machine.restore(group.finish().chunks)
            for data, index, term, kind in group.entries:
                if kind == REGULAR:
                    machine.apply(index, term, data, 0)
            machines.append(machine)
        return machines
