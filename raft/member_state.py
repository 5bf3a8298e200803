"""MemberState: what a member of a group is at the moment, and what happens to it in nearly every turn.

Commit index, last applied index, term and vote stand here; the stock class finds them under its own names. It knows
its log and its machine, and no roles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from raft.configuration import Configuration
from raft.entry import REGULAR
from raft.errors import NotNow, RaftStopped
from raft.log import EntryLog
from raft.machine import Machine
from raft.messages import GroupMessage
from raft.settings import NEVER, RaftSettings

# A name of another module as an integer of this one, which a compiled one compares in C.
_REGULAR = REGULAR


class MemberState:
    """See the module's docstring. `post` takes messages for other members; `machine` is what the log drives.

    clock: what counts for time-outs, ms. now: the node's time, ms. deadline: of `clock`, when the time-out has passed.
    """

    def __init__(
        self,
        node_id: str,
        log: EntryLog,
        machine: Machine,
        settings: RaftSettings,
        post: Callable[[str, GroupMessage], None],
        is_connected: Callable[[str], bool],
    ) -> None:
        self.node_id = node_id
        self.group_id = log.group_id
        self.log = log
        self.machine = machine
        self.settings = settings
        self.log_bytes = settings.log_bytes
        self.is_connected = is_connected
        self.clock = 0
        self.now = 0
        self.deadline = NEVER
        self.timeout = settings.election_timeout_max_ms
        self.is_stopped = False
        self.current_term = log.current_term
        self.voted_for = log.voted_for
        self.commit_index = log.checkpoint_index
        self.last_applied = log.checkpoint_index
        self.role: Any = None
        self.is_leader = False
        self._post = post

    def take_role(self, role: Any, is_leader: bool) -> None:
        """It has another role from now on."""
        self.role = role
        self.is_leader = is_leader

    def send(self, peer: str, message: GroupMessage) -> None:
        """Post a message to another member."""
        self._post(peer, message)

    @property
    def configuration(self) -> Configuration:
        """The latest in the log."""
        return self.log.configuration

    # -- commit and apply ----------------------------------------------------------------------------------------------

    def set_commit(self, index: int) -> None:
        """Everything up to `index` is committed."""
        if index > self.log.last_index:
            self.stop(f"index {index} is said to be committed, and the log ends at {self.log.last_index}")
        if index > self.commit_index:
            self.commit_index = index

    def apply_committed(self) -> None:
        """Give the machine what is committed and not applied."""
        machine = self.machine
        is_waiting = False
        while self.last_applied < self.commit_index and not is_waiting:
            for entry in self.log.entries_between(self.last_applied + 1, self.commit_index):
                data, index, term, kind = entry
                self.last_applied = index
                if kind == _REGULAR:
                    try:
                        machine.apply(index, term, data, self.now)
                    except NotNow:
                        self.last_applied = index - 1
                        is_waiting = True
                        break
                    except Exception as error:
                        raise self.failed(f"applying entry {index} of term {term}", error) from error

    # -- stopping ------------------------------------------------------------------------------------------------------

    def stop(self, reason: str) -> NoReturn:
        """An invariant is broken."""
        self.is_stopped = True
        raise RaftStopped(self.group_id, reason)

    def failed(self, what: str, error: Exception) -> RaftStopped:
        """The machine has raised: nobody knows what state it is in."""
        self.is_stopped = True
        if isinstance(error, RaftStopped):
            return error
        return RaftStopped(self.group_id, f"{what} failed: {type(error).__name__}: {error}")

    # -- under the names of the stock class ----------------------------------------------------------------------------

    @property
    def _SyncObj__raftCommitIndex(self) -> int:  # noqa: N802
        return self.commit_index

    @_SyncObj__raftCommitIndex.setter
    def _SyncObj__raftCommitIndex(self, index: int) -> None:  # noqa: N802
        self.commit_index = index

    @property
    def _SyncObj__raftLastApplied(self) -> int:  # noqa: N802
        return self.last_applied

    @_SyncObj__raftLastApplied.setter
    def _SyncObj__raftLastApplied(self, index: int) -> None:  # noqa: N802
        self.last_applied = index

    @property
    def _SyncObj__raftCurrentTerm(self) -> int:  # noqa: N802
        return self.current_term

    @_SyncObj__raftCurrentTerm.setter
    def _SyncObj__raftCurrentTerm(self, term: int) -> None:  # noqa: N802
        self.current_term = term

    @property
    def _SyncObj__votedForNodeId(self) -> str | None:  # noqa: N802
        return self.voted_for

    @_SyncObj__votedForNodeId.setter
    def _SyncObj__votedForNodeId(self, node_id: str | None) -> None:  # noqa: N802
        self.voted_for = node_id
