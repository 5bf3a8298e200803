"""StoredMetadata: the metadata as a data folder has them, without a running node.

What the log has beyond its last checkpoint counts, also where it is not known whether it is committed: a node alone
commits it at its next start.
"""

from __future__ import annotations

from amqp_broker.cluster.commands import Command
from amqp_broker.cluster.metadata import Metadata
from amqp_broker.cluster.metadata_machine import MetadataMachine
from raft.entry import REGULAR
from raft.journal_records import group_of
from raft.recovery import RecoveredGroup

_METADATA_GROUP = 0


class StoredMetadata:
    """Fed with the journal's entries of raft's kinds by `take`; then `read`."""

    def __init__(self) -> None:
        self._recovered = RecoveredGroup(_METADATA_GROUP)

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        """An entry of the journal, in order. Raises CorruptLog, ValueError."""
        if group_of(payload) == _METADATA_GROUP:
            self._recovered.take(segment, kind, payload)

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes of the cluster that this folder belongs to."""
        configuration = self._recovered.configuration
        return (*configuration.voters, *configuration.learners)

    def read(self) -> Metadata:
        """What was taken makes these metadata. Raises CorruptLog, ValueError."""
        metadata = Metadata()
        if self._recovered.is_nothing:
            return metadata
        machine = MetadataMachine(metadata, _Nobody())
        machine.restore(self._recovered.finish().chunks)
        for data, index, term, kind in self._recovered.entries:
            if kind == REGULAR:
                machine.apply(index, term, data, 0)
        return metadata


class _Nobody:
    """A listener who does nothing."""

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        pass

    def replaced(self, index: int) -> None:
        pass

    def leads(self, is_leader: bool, leader: str | None) -> None:
        pass
