"""MemberWorkers: which members of the cluster are several processes: the workers that each has besides worker 0.

A member without a record here is one process, or of a version that has no workers. Workers are homes of classic queues
and have links of their own, and count for nothing that is about members. Which of them has the logs of which groups is
said once, with the first record of a folder: logs stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from amqp_broker.metadata.commands import Command
from amqp_broker.settings.workers import node_of_worker, worker_name, worker_number


class Workers(NamedTuple):
    """Of a member. numbers: of its workers but worker 0. closing: those of them that are to be emptied. groups: which
    of its workers has each group of queues, from group 1 on; worker 0, where none is said."""

    numbers: tuple[int, ...]
    closing: tuple[int, ...]
    groups: tuple[int, ...] = ()


_NONE = Workers((), ())


class MemberWorkers:
    """A part of Metadata."""

    #: Another one when a list of groups' members is another one, or who is a guest of groups.
    group_generation: int

    def __init__(self) -> None:
        super().__init__()
        self._member_workers: dict[str, Workers] = {}
        #: Another one when members, their addresses or their workers are others.
        self.place_generation = 0

    def members(self) -> Mapping[str, str]:
        """See Metadata."""
        raise NotImplementedError

    def worker_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """By the command."""
        return {"member.workers": self._put_workers}

    def member_workers(self) -> Mapping[str, Workers]:
        """Those that have some, by the member."""
        return self._member_workers

    def workers_of(self, node: str) -> Workers:
        """Of a member."""
        return self._member_workers.get(node, _NONE)

    @property
    def has_spread_groups(self) -> bool:
        """Whether a member has groups at other workers than worker 0."""
        return any(known.groups for known in self._member_workers.values())

    def worker_names(self) -> list[str]:
        """All workers of all members but the members themselves, which are their workers 0."""
        return [worker_name(node, each) for node, known in self._member_workers.items() for each in known.numbers]

    def is_closing(self, home: str) -> bool:
        """Whether that is a worker that is to be emptied."""
        return worker_number(home) in self.workers_of(node_of_worker(home)).closing

    def _put_workers(self, command: Command) -> bool:
        node = command["node"]
        numbers = tuple(sorted({each for each in command["workers"] if each > 0}))
        groups = tuple(command.get("groups", ()))
        known = Workers(numbers, tuple(sorted({*command["closing"]} & {*numbers})), groups)
        if node not in self.members() or self.workers_of(node) == known:
            return False
        self._member_workers.pop(node, None)
        if numbers:
            self._member_workers[node] = known
        self.place_generation += 1
        self.group_generation += 1
        return True

    def drop_workers_of(self, node: str) -> None:
        """It is no member any more."""
        self._member_workers.pop(node, None)
        self.place_generation += 1

    def copy_workers_to(self, other: MemberWorkers) -> None:
        """See Metadata.drafting."""
        other._member_workers = dict(self._member_workers)
