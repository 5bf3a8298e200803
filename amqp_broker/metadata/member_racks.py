"""MemberRacks: in which rack each member of the cluster is: what is lost together, a room, a power supply, a zone.

Each node says so itself, whenever it is not so, also that it is in none (""): whoever places groups waits until all
have said it. It counts when groups are placed (metadata/group_placing.py), and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.group_placing import Place, host_of


class MemberRacks:
    """A part of Metadata."""

    def __init__(self) -> None:
        super().__init__()
        self._member_racks: dict[str, str] = {}

    def members(self) -> Mapping[str, str]:
        """See Metadata."""
        raise NotImplementedError

    def rack_handlers(self) -> dict[str, Callable[[Command], bool]]:
        """By the command."""
        return {"member.rack": self._put_rack}

    def member_racks(self) -> Mapping[str, str]:
        """Of the members that have said it, by name; "" for one that is in none."""
        return self._member_racks

    def member_places(self) -> dict[str, Place]:
        """Of all members, by name."""
        racks = self._member_racks
        return {name: Place(racks.get(name, ""), host_of(address)) for name, address in self.members().items()}

    def _put_rack(self, command: Command) -> bool:
        node, rack = command["node"], command["rack"]
        if node not in self.members() or self._member_racks.get(node) == rack:
            return False
        self._member_racks[node] = rack
        return True

    def drop_rack_of(self, node: str) -> None:
        """It is no member any more."""
        self._member_racks.pop(node, None)

    def copy_racks_to(self, other: MemberRacks) -> None:
        """See Metadata.drafting."""
        other._member_racks = dict(self._member_racks)
