"""Nodes in one room: every message arrives at once and in order, unless a test says otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable

from raft.settings import RaftSettings
from tests.raft.raft_node import ListMachine, RaftNode
from tests.simulation.simulated_disk import SimulatedDisk

Filter = Callable[[str, str, bytes], bool]


class Cluster:
    """Nodes n1, n2, ... in groups 1..groups, on simulated disks, with a time of its own."""

    def __init__(
        self, size: int = 3, groups: int = 1, settings: RaftSettings | None = None, joiners: int = 0,
        segment_bytes: int = 1 << 20, limit_bytes: int = 1 << 22,
    ) -> None:  # fmt: skip
        self.now = 1_000_000
        self.settings = settings or RaftSettings()
        self.passes: Filter = lambda sender, receiver, frame: True
        self.nodes: dict[str, RaftNode] = {}
        self.down: dict[str, None] = {}
        members = tuple(f"n{number}" for number in range(1, size + 1))
        for number in range(1, size + joiners + 1):
            name = f"n{number}"
            bootstrap = dict.fromkeys(range(1, groups + 1), members if number <= size else ())
            disk = SimulatedDisk(random.Random(number))
            node = RaftNode(name, disk, bootstrap, self.settings, number, segment_bytes, limit_bytes)
            self.nodes[name] = node
            node.start(self.now)
        for name in self.nodes:
            for other in self.nodes:
                if name != other:
                    self.nodes[name].host.peer_connected(other, self.now)

    def __getitem__(self, name: str) -> RaftNode:
        return self.nodes[name]

    @property
    def up(self) -> list[RaftNode]:
        return [node for node in self.nodes.values() if node.name not in self.down]

    def settle(self, syncs: bool = True) -> None:
        """Let messages and syncs happen until nothing moves."""
        for _ in range(10_000):
            has_moved = False
            for node in self.up:
                node.host.end_turn(self.now)
                if syncs and node.port.journal.has_pending:
                    node.sync(self.now)
                    has_moved = True
                for receiver, frames in node.host.outbox.take():
                    for frame in frames:
                        has_moved = self.deliver(node.name, receiver, frame) or has_moved
            if not has_moved:
                return
        raise AssertionError("it does not come to rest")

    def deliver(self, sender: str, receiver: str, frame: bytes) -> bool:
        if receiver in self.down or receiver not in self.nodes or not self.passes(sender, receiver, frame):
            return False
        self.nodes[receiver].host.receive_peer(sender, frame, self.now)
        return True

    def pass_time(self, milliseconds: int) -> None:
        """Tick everybody, step by step."""
        end = self.now + milliseconds
        while self.now < end:
            self.now = min(end, self.now + 50)
            for node in self.up:
                node.host.tick(self.now)
                node.port.shorten()
            self.settle()

    def elect(self, name: str, group: int = 1) -> None:
        """Have a node lead."""
        for _ in range(60):
            leader = self.leader(group)
            if leader is not None and leader.name == name:
                return
            if leader is not None:
                leader.group(group).transfer_leadership(name)
            self.pass_time(100)
        raise AssertionError(f"{name} does not become the leader")

    def leader(self, group: int = 1) -> RaftNode | None:
        leaders = [node for node in self.up if node.group(group).is_leader]
        return max(leaders, key=lambda node: node.group(group).term) if leaders else None

    def propose(self, data: bytes, group: int = 1) -> None:
        leader = self.leader(group)
        assert leader is not None
        assert leader.group(group).propose(data)

    def machine(self, name: str, group: int = 1) -> ListMachine:
        return self.nodes[name].machines[group]

    def crash(self, name: str) -> None:
        """Power off: what was not synced may be lost."""
        self.down[name] = None
        for node in self.up:
            node.host.peer_disconnected(name, self.now)

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        if name not in self.down:
            self.crash(name)
        node.disk.crash()  # type: ignore[attr-defined]  # a SimulatedDisk
        del self.down[name]
        node.start(self.now)
        for other in self.up:
            if other is not node:
                other.host.peer_connected(name, self.now)
                node.host.peer_connected(other.name, self.now)


def leading(cluster: Cluster) -> RaftNode:
    """Who leads once it had time to elect somebody."""
    cluster.pass_time(3000)
    leader = cluster.leader()
    assert leader is not None
    return leader
