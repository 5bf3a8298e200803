"""What replication costs: `python -m tests.raft.measure`.

It is CPU time of three nodes in one process, without disk and sockets, plain or compiled as AMQP_BROKER_PLAIN says;
docs/raft.md quotes the figures.
"""

from __future__ import annotations

import random
import time
from typing import Any

import amqp_broker  # noqa: F401  # decides which modules run
from amqp_broker.octets.buffer import Buffer
from raft.host import RaftHost
from raft.outbox import Outbox
from raft.settings import RaftSettings
from tests.raft.raft_node import ListMachine

NAMES = ("n1", "n2", "n3")


class NullPort:
    """A journal that forgets."""

    current_segment = 1

    def __init__(self) -> None:
        self.position = 0
        self._buffer = Buffer()

    def open_entry(self, kind: int) -> Buffer:
        self._buffer.clear()
        return self._buffer

    def close_entry(self) -> int:
        self.position += self._buffer.length + 5
        return self.position

    def touch(self, segment: int, owner: Any) -> None:
        """Nothing is ever retired."""

    def carry(self, octets: int) -> None:
        """Nothing is ever retired."""


class CountingMachine(ListMachine):
    """Keeps nothing."""

    count = 0

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        self.count += 1


class Room:
    """Three hosts that hand each other their frames, each with the CPU time that it took."""

    def __init__(self, groups: int) -> None:
        self.now = 1_000_000
        self.spent = dict.fromkeys(NAMES, 0.0)
        self.ports = {name: NullPort() for name in NAMES}
        self.hosts = {
            name: RaftHost(name, self.ports[name], RaftSettings(), random.Random(number), Outbox())
            for number, name in enumerate(NAMES)
        }
        for name in NAMES:
            for other in NAMES:
                if other != name:
                    self.hosts[name].peer_connected(other, self.now)
            for group in range(1, groups + 1):
                self.hosts[name].open_group(group, CountingMachine(), NAMES, self.now)

    def settle(self) -> None:
        has_moved = True
        while has_moved:
            has_moved = False
            for name, host in self.hosts.items():
                began = time.process_time()
                host.end_turn(self.now)
                if host.wants_sync:
                    host.synced(self.ports[name].position, self.now)
                    host.end_turn(self.now)
                output = host.outbox.take()
                self.spent[name] += time.process_time() - began
                for receiver, frames in output:
                    has_moved = True
                    began = time.process_time()
                    for frame in frames:
                        self.hosts[receiver].receive_peer(name, frame, self.now)
                    self.spent[receiver] += time.process_time() - began

    def pass_time(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self.now < end:
            deadlines = [host.next_deadline() or end for host in self.hosts.values()]
            self.now = max(self.now + 1, min(end, *deadlines))
            for name, host in self.hosts.items():
                if (host.next_deadline() or 0) <= self.now:
                    began = time.process_time()
                    host.tick(self.now)
                    self.spent[name] += time.process_time() - began
            self.settle()

    def gather(self, name: str | None, groups: int) -> None:
        """Have one node lead all groups, or (None) each about as many."""
        for group in range(1, groups + 1):
            wanted = name or NAMES[group % 3]
            for _ in range(50):
                leaders = [each for each in NAMES if self.hosts[each].groups[group].is_leader]
                if wanted in leaders:
                    break
                for each in leaders:
                    self.hosts[each].groups[group].transfer_leadership(wanted)
                self.pass_time(50)
            else:
                raise AssertionError(f"{wanted} does not lead group {group}")


def measure_entries(size: int, count: int, per_turn: int) -> None:
    room = Room(1)
    room.gather("n1", 1)
    group = room.hosts["n1"].groups[1]
    data = bytes(size)
    room.spent = dict.fromkeys(NAMES, 0.0)
    for _ in range(count // per_turn):
        began = time.process_time()
        for _ in range(per_turn):
            group.propose(data)
        room.spent["n1"] += time.process_time() - began
        room.settle()
    assert group.commit_index >= count
    per_entry = {name: f"{spent / count * 1e6:.1f}" for name, spent in room.spent.items()}
    print(f"{size:7d} octets, {per_turn:4d} a turn: us an entry: leader {per_entry['n1']}, follower {per_entry['n2']}")


def measure_idle(groups: int, leader: str | None) -> None:
    room = Room(groups)
    room.pass_time(3000)
    room.gather(leader, groups)
    room.pass_time(2000)
    room.spent = dict.fromkeys(NAMES, 0.0)
    room.pass_time(20_000)
    shares = {name: f"{spent / 20 * 100:.2f} %" for name, spent in room.spent.items()}
    print(f"{groups} idle groups, led by {leader or 'all'}: of a core: {shares}")


if __name__ == "__main__":
    for size, count, per_turn in [(1024, 20_000, 1), (1024, 50_000, 50), (65_536, 2_000, 1), (262_144, 1_000, 1)]:
        measure_entries(size, count, per_turn)
    measure_idle(64, None)
    measure_idle(64, "n1")
