"""Storms of one kind, for rules that the usual ones seldom need."""

from __future__ import annotations

from collections.abc import Callable

from raft.leadership import Leadership
from tests.raft.simulation_faults import Storm
from tests.raft.simulation_node import SimulatedNode


class ElectionStorm(Storm):
    """Elections all the time: members fall and get up, messages are late and come twice."""

    faults = ("_crash_one", "_crash_leader", "_crash_leader", "_partition", "_heal", "_heal", "_transfer", "_crash_all")
    calm = (5, 150)
    downtime = (1, 5, 20, 100)

    def __init__(self, seed: int, size: int = 3) -> None:
        super().__init__(seed, size)
        self.is_wild = True
        self.copies = 0.1


class MembershipStorm(Storm):
    """Membership changes in a network that is cut in two again and again."""

    faults = ("_change_members",) * 6 + ("_partition", "_partition", "_heal", "_crash_leader")
    calm = (5, 200)
    downtime = (50, 500)


class InstallStorm(Storm):
    """Members stay away for long, lose what was not synced, and come back to a leader that has trimmed its log."""

    faults = ("_partition", "_heal", "_crash_one", "_crash_all", "_stall", "_crash_leader")
    calm = (50, 400)
    downtime = (1, 5, 1000)


class RestingStorm(Storm):
    """Nobody waits for what is committed, so entries rest for members that are not needed. rested: in so many turns."""

    rested = 0

    def start(self, node: SimulatedNode) -> None:
        super().start(node)
        for machine in node.machines.values():
            machine.concerned = ()

    def turn(self, node: SimulatedNode, action: Callable[[int], object]) -> None:
        super().turn(node, action)
        if node.is_up:
            roles = [group.member.role for group in node.host.groups.values()]
            self.rested += sum(isinstance(role, Leadership) and role.is_resting for role in roles)
