"""GroupModel: what the committed logs mean for groups of readers of partitions, said as simply as possible.

    P1  a position is stored by who reads now, and everything before it was acknowledged
    P2  of a partition one member of a group reads in a generation
    P3  what comes unmarked has not come before, but from a node that does not know yet that it reads no more; to each
        member the offsets of a partition come in order
    P4  in the end everything was acknowledged, and every group is at the end
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from queues.stream.commands import JoinGroup, LeaveGroup, OpenGroup, StorePosition
from tests.simulation.state import Violation

GroupCommand = OpenGroup | JoinGroup | LeaveGroup | StorePosition


class Content(Protocol):
    """What a stream has had."""

    numbers: list[int]


@dataclass(slots=True, eq=False)
class Group:
    """Of one partition. acked: what clients have said they are done with. seen: what came to any of them."""

    begins: int
    position: int
    members: list[tuple[str, int]] = field(default_factory=list)
    generation: int = 0
    acked: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)


class GroupModel:
    """See the module's docstring."""

    def __init__(self, content: Callable[[str], Content], counts: Counter[str]) -> None:
        self.groups: dict[tuple[str, str], Group] = {}
        self._reading: dict[tuple[str, str, int], str] = {}
        self._content = content
        self._counts = counts

    # -- the log -------------------------------------------------------------------------------------------------------

    def command(self, stream: str, node: str, command: GroupCommand) -> None:
        """One that is applied for the first time."""
        key = stream, command.group
        if isinstance(command, OpenGroup | JoinGroup):
            group = self.groups.setdefault(key, Group(command.position, command.position))
            if isinstance(command, JoinGroup):
                member = node, command.number
                if member not in group.members:
                    group.members.append(member)
                    group.generation += len(group.members) == 1
        elif key not in self.groups:
            return
        elif isinstance(command, LeaveGroup):
            self._leave(self.groups[key], (node, command.number))
        else:
            self._store(stream, self.groups[key], command)

    def _leave(self, group: Group, member: tuple[str, int]) -> None:
        if member in group.members:
            was_first = group.members[0] == member
            group.members.remove(member)
            group.generation += was_first and bool(group.members)

    def lose_all(self, stream: str, node: str) -> None:
        """A session of the node is over."""
        for (name, _), group in self.groups.items():
            if name == stream:
                for member in [each for each in group.members if each[0] == node]:
                    self._leave(group, member)

    def _store(self, stream: str, group: Group, command: StorePosition) -> None:
        """P1."""
        if command.generation != group.generation:
            self._counts["positions of an older generation"] += 1
            return
        lacking = [offset for offset in range(group.position, command.position) if offset not in group.acked]
        if lacking:
            raise Violation(
                f"group '{command.group}' is stored to be at {command.position} of '{stream}', and {lacking[0]} is not "
                "acknowledged"
            )
        self._counts["positions stored"] += 1
        group.position = max(group.position, command.position)

    # -- clients -------------------------------------------------------------------------------------------------------

    def delivered(self, stream: str, name: str, node: str, offset: int, is_redelivered: bool) -> None:
        """P3."""
        group = self.groups.get((stream, name))
        if group is None:
            raise Violation(f"'{stream}' delivers to group '{name}', of which the log does not know")
        if group.members and group.members[0][0] != node:
            self._counts["from who was cut off"] += 1
        elif offset in group.seen and not is_redelivered:
            raise Violation(f"'{stream}' delivers {offset} to group '{name}' again, and does not say so")
        self._counts["came again"] += offset in group.seen
        group.seen.add(offset)

    def acked(self, stream: str, name: str, offset: int) -> None:
        """A client is done with it."""
        self.groups[stream, name].acked.add(offset)

    def read_now(self, node: str, readers: list[tuple[str, str, int]]) -> None:
        """P2: who reads on a node, by partition, group and generation."""
        for stream, name, generation in readers:
            known = self._reading.setdefault((stream, name, generation), node)
            if known != node:
                raise Violation(f"{known} and {node} read '{stream}' for group '{name}', both in {generation}")
        if len(set(readers)) < len(readers):
            raise Violation(f"{node} has two readers of one partition: {readers}")

    def is_at_end(self, stream: str, name: str) -> bool:
        """P4."""
        group = self.groups.get((stream, name))
        behind = len(self._content(stream).numbers)
        return group is not None and group.position == behind and len(group.acked) >= behind - group.begins
