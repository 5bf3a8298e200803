"""GroupPlaces: which worker of this node has which group of queues: its log, its state, and the node's part in it.

A member of a group is a node, whose name is that of its worker 0. What it does is done by one of its processes, the one
that has the log. The others are guests of the group (guest.py), worker 0 like any.

Invariants:
1. One process of a node has the log of a group, and never another one.
2. Without a word of the folder (WORKERS) a group is worker 0's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.settings.workers import worker_name

if TYPE_CHECKING:
    from amqp_broker.settings.config import Config
    from raft.host import RaftHost


class GroupPlaces:
    """is_spread: some are at another worker than worker 0."""

    def __init__(self, config: Config, raft: RaftHost) -> None:
        self._raft = raft
        self._worker = config.worker
        self._workers = config.group_workers
        self.is_spread = any(self._workers)

    @property
    def own_host(self) -> str:
        """The name of this node as a member of groups."""
        return self._raft.node_id

    @property
    def own_process(self) -> str:
        """The name of this process."""
        return worker_name(self._raft.node_id, self._worker)

    def worker_of(self, group_id: int) -> int:
        """Which of this node's workers has a group."""
        return self._workers[group_id - 1] if 0 < group_id <= len(self._workers) else 0

    def is_here(self, group_id: int) -> bool:
        """Whether this process has it."""
        return self.worker_of(group_id) == self._worker

    def process_of(self, group_id: int, host: str) -> str:
        """The process that has a group at a member of it."""
        if not self.is_spread or host != self._raft.node_id:
            return host
        return worker_name(host, self.worker_of(group_id))
