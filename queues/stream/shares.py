"""Share: which of the consumers that read a partitioned stream together has which partition. The stream that is its
partition 0 keeps it, on all members.

    join, leave, a session ends, the stream has grown -> deal -> each partition is somebody's, if there is anybody

Who has a partition joins that partition's own group of the same name (groups.py), and reads when the one before has
left it. So this says who is to read; who reads, and how far they are, the partition's own group says.

Invariants:
1. How many partitions two members have differs by one at most.
2. A partition changes hands only where invariant 1 demands it, or where its member has gone.
3. Whom a partition goes to follows from the members, in the order in which they came, and from who had what.
"""

from __future__ import annotations

from collections.abc import Iterator

from queues.stream.groups import Member

#: No stream has more; how many somebody may declare is a setting (max_stream_partitions).
MOST_PARTITIONS = 10_000


class Share:
    """members: in the order in which they came. owners: by partition, None while there are no members."""

    __slots__ = ("members", "owners")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.owners: list[Member | None] = []

    def of(self, member: Member) -> list[int]:
        """The partitions that it has, in order."""
        return [number for number, owner in enumerate(self.owners) if owner == member]

    def join(self, member: Member, partitions: int) -> None:
        """It reads with the others; it knows of so many partitions."""
        if member not in self.members:
            self.members.append(member)
        self.owners += [None] * (partitions - len(self.owners))
        self._deal()

    def leave(self, member: Member) -> None:
        """It does not any more."""
        if member in self.members:
            self.members.remove(member)
            self._deal()

    def lose_all(self, node: str) -> bool:
        """A node is gone, and all of it. Returns whether there were any."""
        left = [member for member in self.members if member.node != node]
        is_changed = len(left) < len(self.members)
        if is_changed:
            self.members = left
            self._deal()
        return is_changed

    def _deal(self) -> None:
        """Everybody keeps what is theirs to keep; the rest goes to those that have too little."""
        members, owners = self.members, self.owners
        has = dict.fromkeys(members, 0)
        for owner in owners:
            if owner in has:
                has[owner] += 1
        least, more = divmod(len(owners), len(members)) if members else (0, 0)
        # Those that have most are the ones that may have one more than others.
        by_size = sorted(members, key=lambda member: -has[member])
        lacking = {member: least + (place < more) for place, member in enumerate(by_size)}
        for number, owner in enumerate(owners):
            if owner is not None and lacking.get(owner, 0):
                lacking[owner] -= 1
            else:
                owners[number] = None
        free = iter([number for number, owner in enumerate(owners) if owner is None])
        for member in members:
            for _ in range(lacking[member]):
                owners[next(free)] = member


class Shares:
    """Those of one stream, by name: the groups that have read all its partitions together."""

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[tuple[str, Share]]:
        return iter(self._shares.items())

    def get(self, name: str) -> Share | None:
        """That of the group of this name."""
        return self._shares.get(name)

    def open(self, name: str) -> Share:
        """The same; a new one if there was none."""
        return self._shares.setdefault(name, Share())

    def put(self, name: str, share: Share) -> None:
        """There is this one."""
        self._shares[name] = share

    def forget(self, name: str) -> None:
        """There is none of this name any more."""
        self._shares.pop(name, None)

    def has_any_of(self, node: str) -> bool:
        """Whether a node has members in one of them."""
        return any(member.node == node for share in self._shares.values() for member in share.members)

    def lose_all(self, node: str) -> bool:
        """A node is gone, and all of it. Returns whether there were any."""
        found = [share for share in self._shares.values() if share.lose_all(node)]
        return bool(found)
