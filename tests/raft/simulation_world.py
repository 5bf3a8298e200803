"""The world of a simulated cluster: virtual time, a network, clients and faults, all from one seed.

Time is in microseconds; a node's own time is that in milliseconds, plus what its clock is off. Events are kept in a
heap; each is a call on a node in one life, lost if the node has crashed since, and late if it is paused.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace

from raft.errors import RaftError
from raft.settings import RaftSettings
from tests.raft.simulation_checks import Checks, Violation
from tests.raft.simulation_node import SimulatedNode

MS = 1000
SECOND = 1000 * MS
JOINERS = 2

Action = Callable[[int], None]


def draw_settings(chance: random.Random) -> RaftSettings:
    """Everything small, so that limits are met all the time."""
    log_bytes = chance.choice([2_000, 6_000, 40_000])
    return RaftSettings(
        heartbeat_ms=50,
        election_timeout_min_ms=chance.choice([150, 300]),
        election_timeout_max_ms=chance.choice([400, 600]),
        append_bytes=chance.choice([200, 1_000, 100_000]),
        in_flight_bytes=chance.choice([500, 4_000, 1_000_000]),
        log_bytes=log_bytes,
        log_cap_bytes=log_bytes * chance.choice([1, 3]),
        install_in_flight_bytes=chance.choice([100, 1_000, 1_000_000]),
    )


class World:
    """A cluster of `size` members and two nodes that may join, and what happens to them."""

    def __init__(self, seed: int, size: int = 3, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(f"raft {seed} {size}")
        self.time = 0
        self.checks = Checks()
        self.counts = self.checks.counts
        self.group_ids = list(range(1, self.chance.choice([1, 2, 3]) + 1))
        self.settings = draw_settings(self.chance)
        self.is_wild = self.chance.random() < 0.5
        self.nodes = self.checks.nodes
        members = tuple(f"n{number}" for number in range(1, size + 1))
        for number in range(1, size + JOINERS + 1):
            name = f"n{number}"
            bootstrap = dict.fromkeys(self.group_ids, members if number <= size else ())
            self.nodes[name] = SimulatedNode(name, bootstrap, self.settings, self.chance, self.checks)
        self.names = list(self.nodes)
        if self.is_wild:
            self.settings = replace(self.settings, install_in_flight_bytes=100)
        # The network: a calm one behaves like TCP, a wild one in no order, with losses and copies.
        self.loss = self.chance.choice([0, 0.01, 0.1]) if self.is_wild else 0.0
        self.copies = self.chance.choice([0, 0.05]) if self.is_wild else 0.0
        self.blocked: dict[tuple[str, str], None] = {}
        self._arrivals: dict[tuple[str, str], int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._trace = trace

    # -- time ----------------------------------------------------------------------------------------------------------

    def note(self, line: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.time / SECOND:9.4f} {line}")

    def at(self, time: int, call: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, call))

    def after(self, delay: int, call: Callable[[], None]) -> None:
        self.at(self.time + delay, call)

    def run_until(self, end: int) -> None:
        events = self._events
        while events and events[0][0] <= end:
            self.time, _, call = heapq.heappop(events)
            call()
        self.time = end

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def on_node(self, node: SimulatedNode, delay: int, action: Action) -> None:
        """Have something happen to a node later, in this life of it."""
        life = node.life

        def call() -> None:
            if node.life != life or not node.is_up:
                return
            if node.frozen_until > self.time:
                self.at(node.frozen_until, call)
            else:
                self.turn(node, action)

        self.after(delay, call)

    def turn(self, node: SimulatedNode, action: Action) -> None:
        """One turn of a node: an input, then whatever follows from it."""
        now = self.time // MS + node.offset
        try:
            action(now)
            if not node.is_up:
                return
            node.port.shorten()
            node.host.end_turn(now)
            output = node.host.outbox.take()
        except RaftError as error:
            raise Violation(f"{node.name} stops: {type(error).__name__}: {error}") from error
        for receiver, frames in output:
            for frame in frames:
                self.checks.on_frame(node, receiver, frame)
                self._send(node.name, receiver, frame)
        self.checks.on_turn(node)
        self._begin_sync(node)
        self._schedule_tick(node, now)

    def _schedule_tick(self, node: SimulatedNode, now: int) -> None:
        deadline = node.host.next_deadline()
        if deadline is None:
            return
        due = self.time + max(1, deadline - now) * MS
        if node.tick_at is not None and node.tick_at <= due:
            return
        node.tick_at = due

        def tick(now: int) -> None:
            if node.tick_at is not None and node.tick_at <= self.time:
                node.tick_at = None
            node.host.tick(now)

        self.on_node(node, due - self.time, tick)

    def _begin_sync(self, node: SimulatedNode) -> None:
        if node.batch is not None:
            return
        if not node.host.wants_sync and not (node.port.journal.has_pending and self.chance.random() < 0.3):
            return
        node.batch = node.take_batch()
        if node.batch is None:
            return
        delay = self.chance.randint(100, 4 * MS) + max(0, node.stalls_until - self.time)

        def finish(now: int) -> None:
            batch = node.batch
            if batch is None:
                return
            if not node.write_batch():
                self.note(f"{node.name}: its disk fails")
                self.counts["failed syncs"] += 1
                self.crash(node, has_failed=True)
                return
            node.batch = None
            node.finish_batch(batch, now)

        self.on_node(node, delay, finish)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def crash(self, node: SimulatedNode, has_failed: bool = False) -> None:
        is_power = self.chance.random() < 0.6 or has_failed
        self.note(f"{node.name} crashes{' (power)' if is_power else ''}")
        self.counts["crashes"] += 1
        node.crash(self.chance, is_power)
        tells = self.chance.random() < 0.7
        for other in self.nodes.values():
            if other.is_up and node.name in other.links and tells:
                self._unlink(other, node.name)

    def start(self, node: SimulatedNode) -> None:
        self.note(f"{node.name} starts")
        now = self.time // MS + node.offset
        node.frozen_until = 0
        try:
            node.start(now)
        except RaftError as error:
            raise Violation(f"{node.name} does not start: {type(error).__name__}: {error}") from error
        self.turn(node, lambda now: None)
        for other in self.nodes.values():
            if other is not node and other.is_up:
                self._unlink(other, node.name)
                self.link(node, other)

    def link(self, node: SimulatedNode, other: SimulatedNode) -> None:
        """A connection is made: both learn of it."""
        for one, two in ((node, other), (other, node)):
            one.links[two.name] = None

            def connected(now: int, one: SimulatedNode = one, name: str = two.name) -> None:
                if name in one.links:
                    one.host.peer_connected(name, now)

            self.on_node(one, self.chance.randint(0, 5 * MS), connected)

    def _unlink(self, node: SimulatedNode, name: str) -> None:
        """A connection is lost, on one side."""
        node.links.pop(name, None)
        self.on_node(node, 0, lambda now: node.host.peer_disconnected(name, now))

    # -- the network ---------------------------------------------------------------------------------------------------

    def _send(self, sender: str, receiver: str, frame: bytes) -> None:
        self.counts["frames"] += 1
        node = self.nodes[receiver]
        if (sender, receiver) in self.blocked or not node.is_up or self.chance.random() < self.loss:
            return
        for _ in range(2 if self.chance.random() < self.copies else 1):
            delay = self.chance.randint(50, 2 * MS)
            if self.is_wild and self.chance.random() < 0.05:
                delay += self.chance.randint(0, 500 * MS)
            arrival = self.time + delay
            if not self.is_wild:
                arrival = self._arrivals[sender, receiver] = max(arrival, self._arrivals.get((sender, receiver), 0) + 1)
            self.at(arrival, lambda: self._arrive(sender, node, frame))

    def _arrive(self, sender: str, node: SimulatedNode, frame: bytes) -> None:
        """Even a frame that was sent to an earlier life may arrive."""
        if not node.is_up or (sender, node.name) in self.blocked:
            return
        if node.frozen_until > self.time:
            self.at(node.frozen_until, lambda: self._arrive(sender, node, frame))
            return
        self.turn(node, lambda now: node.host.receive_peer(sender, frame, now))
