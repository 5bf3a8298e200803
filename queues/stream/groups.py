"""ReaderGroup: consumers that read a stream together, and how far they are. The stream keeps it, on all members.

    join -> the first of them reads, from `position` on -> store ... -> leave, or its session ends: the next one reads

Invariants:
1. `position` is at most the lowest offset that neither a reader has settled nor a transaction has taken. The reader of
   the present generation moves it, and a transaction that is committed, and only upwards; `seek` moves it anywhere, and
   begins a generation.
2. The first of `members`, in the order in which they came, reads. A generation is the time for which one reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: So many groups are kept of one stream; they stay when nobody reads, so that somebody can go on. No setting, because
#: all members have to agree.
MOST_GROUPS = 1000


class Member(NamedTuple):
    """A consumer: its node, and the number that it has there."""

    node: str
    number: int


class ReaderGroup:
    """delivered: of what lies before this, a reader may have had anything; what it had not settled comes again."""

    __slots__ = ("delivered", "generation", "members", "position")

    def __init__(self, position: int, delivered: int = 0, generation: int = 0) -> None:
        self.position = position
        self.delivered = max(delivered, position)
        self.generation = generation
        self.members: list[Member] = []

    @property
    def reader(self) -> Member | None:
        """Who reads."""
        return self.members[0] if self.members else None

    def join(self, member: Member) -> None:
        """It reads when those who came before it are gone."""
        if member not in self.members:
            self.members.append(member)
            if len(self.members) == 1:
                self.generation += 1

    def leave(self, member: Member) -> None:
        """It does not read any more."""
        if member in self.members:
            was_reader = self.members[0] == member
            self.members.remove(member)
            if was_reader and self.members:
                self.generation += 1

    def lose_all(self, node: str, next_offset: int) -> None:
        """A node is gone, and all of it: its reader may have had anything that there was."""
        if self.members and self.members[0].node == node:
            self.delivered = max(self.delivered, next_offset)
        for member in [each for each in self.members if each.node == node]:
            self.leave(member)

    def store(self, generation: int, position: int, delivered: int) -> bool:
        """The reader is so far. Returns False for one of another generation."""
        if generation != self.generation:
            return False
        self.position = max(self.position, position)
        self.delivered = max(self.delivered, delivered, self.position)
        return True

    def move(self, position: int) -> None:
        """A transaction has everything before it."""
        self.position = max(self.position, position)
        self.delivered = max(self.delivered, self.position)

    def seek(self, position: int) -> None:
        """It goes on there, forwards or back."""
        self.position = self.delivered = position
        self.generation += 1


class ReaderGroups:
    """Those of one stream, by name."""

    def __init__(self) -> None:
        self._groups: dict[str, ReaderGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[tuple[str, ReaderGroup]]:
        return iter(self._groups.items())

    def get(self, name: str) -> ReaderGroup | None:
        """The group of this name."""
        return self._groups.get(name)

    def put(self, name: str, group: ReaderGroup) -> None:
        """There is this one."""
        self._groups[name] = group

    def open(self, name: str, position: int) -> ReaderGroup | None:
        """The group of this name, which begins there if there was none; None where there are too many."""
        group = self._groups.get(name)
        if group is None and len(self._groups) < MOST_GROUPS:
            group = self._groups[name] = ReaderGroup(position)
        return group

    def forget(self, name: str) -> bool:
        """Without members, a group may be forgotten. Returns whether it was."""
        group = self._groups.get(name)
        if group is None or group.members:
            return False
        del self._groups[name]
        return True

    def has_any_of(self, node: str) -> bool:
        """Whether a node reads in one of them."""
        return any(member.node == node for group in self._groups.values() for member in group.members)

    def lose_all(self, node: str, next_offset: int) -> bool:
        """A node is gone, and all of it. Returns whether there were any."""
        found = [group for group in self._groups.values() if any(member.node == node for member in group.members)]
        for group in found:
            group.lose_all(node, next_offset)
        return bool(found)
