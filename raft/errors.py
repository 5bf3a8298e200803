"""What can go wrong in replication. Each error names the thing, the value and the way out."""

from __future__ import annotations

from storage.errors import StorageError


class RaftError(Exception):
    """Anything below."""


class UnsafeEngine(RaftError, ImportError):
    """The installed pysyncobj is not the one whose parts are overridden here."""


class PeerProtocolError(RaftError):
    """A peer has sent octets that are no frame of this protocol: close the link to it."""


class CorruptLog(RaftError, StorageError):
    """What the journal holds of a group does not fit together: the group must not start from it."""

    def __init__(self, group_id: int, reason: str) -> None:
        super().__init__(
            f"group {group_id}: {reason}; the journal is damaged or was changed by another program: a member of a "
            f"cluster has to rejoin it with a new folder (amqp-broker cluster rejoin); for a node alone restore the "
            f"data folder from a copy, or start with --recover, and it goes on with what is left"
        )
        self.group_id = group_id
        self.reason = reason


class NotNow(RaftError):
    """A machine cannot do this before something has come that it waits for; nothing has changed."""


class FolderGivenUp(RaftError, StorageError):
    """A folder that must not be used any more: it has forgotten, or its node was removed. The text says which."""


class RaftStopped(RaftError):
    """An invariant is broken, or applying an entry has failed: the node must stop, and nothing more is done."""

    def __init__(self, group_id: int, reason: str) -> None:
        super().__init__(f"group {group_id}: {reason}; this node stops so that no wrong answer leaves it")
        self.group_id = group_id
        self.reason = reason
