"""GroupMembers: which nodes are the members of a group of queues, where these are not all nodes.

A group that has no list is on all nodes. A list says who is to be a member: whoever leads the group brings it there,
one node at a time (cluster/membership.py). One that has become shorter because there were not enough nodes any more
gets back to its size with the nodes that come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.group_placing import fill, loads
from amqp_broker.metadata.member_racks import MemberRacks


class GroupMembers(MemberRacks):
    """A part of Metadata."""

    def __init__(self) -> None:
        super().__init__()
        self._group_members: dict[int, tuple[str, ...]] = {}
        #: Of the groups whose lists have fewer nodes than they should.
        self._wanted_sizes: dict[int, int] = {}
        #: Another one when a list is another one.
        self.group_generation = 0

    def group_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """By the command."""
        return {"group.members": self._put_group_members}

    @property
    def has_group_lists(self) -> bool:
        """Whether a group has a list."""
        return bool(self._group_members)

    def group_members(self, group_id: int) -> tuple[str, ...]:
        """The nodes of a group, in the order of their names; none: all nodes."""
        return self._group_members.get(group_id, ())

    def group_lists(self) -> Mapping[int, tuple[str, ...]]:
        """All lists, by the group."""
        return self._group_members

    def wanted_size(self, group_id: int) -> int:
        """How many nodes a group's list should have, where it has fewer; 0 where it has as many as it should."""
        return self._wanted_sizes.get(group_id, 0)

    def _put_group_members(self, command: Command) -> bool:
        group_id, nodes = command["group"], tuple(sorted(set(command["nodes"])))
        known = self._group_members.get(group_id, ())
        if known != tuple(sorted(set(command["expected"]))) or nodes == known:
            return False
        if any(node not in self.members() for node in nodes):
            return False
        self._set_group(group_id, nodes, command.get("size", 0))
        return True

    def drop_group_member(self, node: str) -> None:
        """A node is no member of the cluster any more: in its groups another one takes its place, as it takes what the
        group holds, if there is one that is not in it."""
        for group_id, nodes in sorted(self._group_members.items()):
            if node in nodes:
                rest = [each for each in nodes if each != node]
                self._fill_group(group_id, rest, self.wanted_size(group_id) or len(nodes))

    def fill_groups(self) -> None:
        """There is another node: groups that were left with fewer than they should have get it."""
        for group_id, size in sorted(self._wanted_sizes.items()):
            self._fill_group(group_id, self._group_members[group_id], size)

    def _fill_group(self, group_id: int, nodes: Sequence[str], size: int) -> None:
        places = self.member_places()
        self._set_group(group_id, fill(nodes, places, size, loads(self._group_members, places)), size)

    def _set_group(self, group_id: int, nodes: tuple[str, ...], size: int) -> None:
        self.group_generation += 1
        self._group_members.pop(group_id, None)
        self._wanted_sizes.pop(group_id, None)
        if nodes:
            self._group_members[group_id] = nodes
            if len(nodes) < size:
                self._wanted_sizes[group_id] = size

    def copy_groups_to(self, other: GroupMembers) -> None:
        """See Metadata.drafting."""
        other._group_members = dict(self._group_members)
        other._wanted_sizes = dict(self._wanted_sizes)
