"""GroupPlaces: which worker of a node has which group of queues: its log, its state, and the node's part in it.

A member of a group is a node, whose name is that of its worker 0. What it does is done by one of its processes, the one
that has the log. The others are guests of the group (guest.py), worker 0 like any. Of this node its folder says which
worker has what (WORKERS); of the others the metadata do, in which each node has said it.

Invariants:
1. One process of a node has the log of a group, and never another one.
2. Without a word a group is worker 0's, and group 0, of the metadata, always is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.settings.workers import node_of_worker, worker_name

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.settings.config import Config
    from raft.host import RaftHost


class GroupPlaces:
    """See raft's Routes. is_spread: some groups of this node are at another worker than worker 0. own_groups: which of
    its workers has each group, from group 1 to the last that is not worker 0's. has_groups: this process has one."""

    def __init__(self, config: Config, raft: RaftHost, metadata: Metadata) -> None:
        self._raft = raft
        self._metadata = metadata
        self._worker = config.worker
        last = max((group for group, worker in enumerate(config.group_workers, 1) if worker), default=0)
        self.own_groups = self._workers = config.group_workers[:last]
        self._has_workers = config.has_workers
        self.is_spread = bool(self._workers)
        self.has_groups = not self._worker or self._worker in self._workers

    @property
    def is_needed(self) -> bool:
        """See Routes."""
        return self.is_spread or self._has_workers or bool(self._metadata.member_workers())

    @property
    def own_host(self) -> str:
        """The name of this node as a member of groups."""
        return self._raft.node_id

    @property
    def own_process(self) -> str:
        """The name of this process."""
        return worker_name(self._raft.node_id, self._worker)

    @property
    def others_with_groups(self) -> list[str]:
        """The workers of this node that have groups, worker 0 left out."""
        return [worker_name(self._raft.node_id, each) for each in sorted({*self._workers} - {0})]

    def worker_of(self, group_id: int) -> int:
        """Which of this node's workers has a group."""
        return _worker_of(self._workers, group_id)

    def is_here(self, group_id: int) -> bool:
        """See Routes."""
        return self.worker_of(group_id) == self._worker

    def process_of(self, group_id: int, member: str) -> str:
        """See Routes."""
        is_own = member == self._raft.node_id
        workers = self._workers if is_own else self._metadata.workers_of(member).groups
        return worker_name(member, _worker_of(workers, group_id)) if workers else member

    def member_of(self, process: str) -> str:
        """See Routes."""
        return node_of_worker(process)


def _worker_of(workers: tuple[int, ...], group_id: int) -> int:
    return workers[group_id - 1] if 0 < group_id <= len(workers) else 0
