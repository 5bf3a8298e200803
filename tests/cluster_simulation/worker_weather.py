"""WorkerWeather: each host of the cluster is several processes, its workers; they die, hang and start again one by one,
or with their host, while queues move between them, and connections to their queues.

A host is a member; its worker 0 has its groups, or (SpreadWeather) each of its workers has some. Networks are cut
between hosts, and a host has one clock.
"""

from __future__ import annotations

import copy
import random
from itertools import combinations
from typing import Any

import pytest

from amqp_broker.connection.steering import Leaving
from amqp_broker.management.refused import Refused
from amqp_broker.queue_types.contract.held_queue import HeldQueue
from amqp_broker.rehoming import departure
from amqp_broker.settings.workers import are_beside, node_of_worker, worker_name, worker_number
from queues.classic import ClassicQueue
from tests.cluster_simulation.application import Application
from tests.cluster_simulation.cluster_node import MS, ClusterNode, Crashed
from tests.cluster_simulation.cluster_settings import Configs
from tests.cluster_simulation.weather import Weather
from tests.simulation.state import Violation


class WorkerWeather(Weather):
    """One host of two to four workers, or `size` of two or three. worker_count: of each. Sockets that go from one
    worker to another are on their way for a while."""

    faults = (
        "crash_one", "crash_one", "crash_worker", "crash_worker", "crash_host", "crash_leader", "crash_in_write",
        "fail_disk", "freeze", "freeze", "stall", "partition", "heal", "heal", "reset_link", "slow_down", "jump",
        "rehome", "rehome", "rehome", "rehome",
    )  # fmt: skip
    pause = (10, 200)
    downtime = (1, 20, 300, 1500)
    clock_chance = 0.0

    def __init__(self, seed: int, size: int = 3, trace: Any = None) -> None:
        self._worker_chance = random.Random(f"workers {seed} {size}")
        hosts = self._worker_chance.choice([1, size, size])
        self.worker_count = self._worker_chance.choice([2, 2, 3] if hosts > 1 else [2, 3, 4])
        self._under_way: dict[Application, Any] = {}
        super().__init__(seed, hosts, trace)
        for name, node in self.nodes.items():
            node.offset = self.nodes[node_of_worker(name)].offset

    def draw_configs(self) -> dict[str, Configs]:
        """See ClusterWorld: of each host, and of its workers."""
        found = {}
        for host, configs in super().draw_configs().items():
            numbers = range(self.worker_count) if host in self.members else range(1)
            for number in numbers:
                found[worker_name(host, number)] = (
                    self._of_worker(configs[0], host, number), self._of_worker(configs[1], host, number)
                )  # fmt: skip
        return found

    def _of_worker(self, config: Any, host: str, number: int) -> Any:
        own = copy.copy(config)
        for field, value in {
            "node_name": worker_name(host, number), "worker": number,
            "workers": self.worker_count, "worker_processes": self.worker_count,
            "group_workers": self.group_workers(host, config.queue_groups),
        }.items():  # fmt: skip
            object.__setattr__(own, field, value)
        return own

    def group_workers(self, host: str, groups: int) -> tuple[int, ...]:
        """Which worker of a host has each of so many groups; worker 0, where none is said."""
        return ()

    def starters(self) -> list[str]:
        """See ClusterWorld."""
        return [worker_name(host, number) for host in self.members for number in range(self.worker_count)]

    def of_host(self, host: str) -> list[ClusterNode]:
        """Its workers, whether they are up or not."""
        return [node for name, node in self.nodes.items() if node_of_worker(name) == host]

    # -- lives ---------------------------------------------------------------------------------------------------------

    def start(self, node: ClusterNode) -> None:
        """See ClusterWorld: and the supervisor tells worker 0 which workers there are."""
        super().start(node)
        if node.is_up and not worker_number(node.name):
            node.node.membership.have_workers(tuple(range(1, self.worker_count)), ())

    def knows(self, name: str, peer: str) -> bool:
        """See Inputs: workers are linked with whom their hosts know."""
        host, other = node_of_worker(name), node_of_worker(peer)
        return host == other or super().knows(host, other)

    def _follow_members(self, node: ClusterNode) -> bool:
        return bool(worker_number(node.name)) or super()._follow_members(node)

    def linked_with(self, node: ClusterNode) -> list[str]:
        """See ClusterWorld: worker 0 of a host speaks for all of it, and hears of the others for all of it."""
        host = node_of_worker(node.name)
        beside = [name for name in super().linked_with(node) if node_of_worker(name) == host]
        if node.name != host and host not in beside:
            return beside
        for other in super().linked_with(self.nodes[host]):
            if other in self.members and other != host:
                its_own = super().linked_with(self.nodes[other])
                beside += [other, *(name for name in its_own if are_beside(name, other))]
        return beside

    # -- connections ---------------------------------------------------------------------------------------------------

    def feed_later(self, application: Application) -> None:
        """See ClusterWorld: nobody reads from a socket that is on its way."""
        if application not in self._under_way:
            super().feed_later(application)

    def hand_over(self, node: ClusterNode, leaving: Leaving) -> None:
        """See ClusterWorld: the supervisor takes the socket to the other worker, or does not."""
        connection, application = leaving.connection, node.clients.get(leaving.connection)
        if not are_beside(node.name, leaving.home):
            raise Violation(f"{node.name} sends a connection to {leaving.home}")
        try:
            if application is None or self._worker_chance.random() < 0.1:
                node.guard(lambda: node.node.kept(connection, node.now(self.time)))
                self.counts["connections kept"] += 1
                self.on_node(node, 0, lambda now: None)
                return
            del node.clients[connection]
            connection.set_transport(None)
            node.guard(lambda: node.node.moved(connection, node.now(self.time)))
        except Crashed:
            self.crash(node)
        if application is not None:
            self._under_way[application] = application.client
            delay = self._worker_chance.choice([0, 100, 5 * MS])
            self.after(delay, lambda: self._arrive(application, leaving))

    def _arrive(self, application: Application, leaving: Leaving) -> None:
        """The socket is there: that of a client which may be gone, at a worker that may be."""
        node, client = self.nodes[leaving.home], self._under_way.pop(application)
        if node.is_up and node.frozen_until > self.time:
            self._under_way[application] = client
            self.at(node.frozen_until, lambda: self._arrive(application, leaving))
            return
        found: list[Any] = []
        if node.is_up:
            self.input(node, lambda now: found.append(node.node.adopt(leaving.token, now)))
        if not node.is_up or found == [None]:
            self.counts["connections lost on their way"] += 1
            if application.client is client:
                application.lost()
            return
        connection, octets = found[0]
        if application.client is not client:
            self.on_node(node, 0, lambda now: node.node.connection_lost(connection, now))
            return
        self.note(f"{client.name} goes on at {node.name}")
        self.counts["connections moved"] += 1
        application.moved(node, connection)
        self.input(node, lambda now: node.node.receive_data(connection, octets, now))
        self.feed_later(application)

    # -- faults --------------------------------------------------------------------------------------------------------

    def crash_worker(self) -> None:
        """One that is no member."""
        found = [node for node in self.up() if worker_number(node.name)]
        if found:
            self._crash_for_a_while(self.chance.choice(found))

    def crash_host(self) -> None:
        """The machine, with all of its workers."""
        for node in self.of_host(self.chance.choice(self.members)):
            if node.is_up:
                self._crash_for_a_while(node)

    def partition(self) -> None:
        """See Weather: between hosts."""
        side = [host for host in self.members if self.chance.random() < 0.5]
        self.note(f"partition: {side} and the others")
        self.counts["partitions"] += 1
        for name, other in combinations(self.nodes, 2):
            if (node_of_worker(name) in side) != (node_of_worker(other) in side):
                self.network.block(name, other)
                self.network.block(other, name)

    def jump(self) -> None:
        """See Weather: the clock of a host."""
        host, by = self.chance.choice(self.members), self.chance.choice([200, 1000, 30_000])
        self.note(f"the clock of {host} jumps ahead")
        self.counts["clock jumps"] += 1
        for node in self.of_host(host):
            node.set_clock(by, self.time)
            if node.is_up:
                self.on_node(node, 0, lambda now, node=node: node.node.tick(now))  # type: ignore[misc]
        self.clients.skew += by * MS

    def rehome(self) -> None:
        """Somebody is asked to have a classic queue live elsewhere. It may be refused, and may not end."""
        if not self.serving():
            return
        asked = self.chance.choice(self.serving())
        names = [record.name for record in asked.node.broker.metadata.queues("/") if record.home]
        homes = asked.node.rehoming.taking()
        if not names or not homes:
            return
        name, home = self.chance.choice(names), self.chance.choice(homes)

        def ask(now: int) -> None:
            rehoming = asked.node.rehoming
            try:
                rehoming.begin(rehoming.check("/", name, home), home)
            except (ValueError, Refused) as error:
                self.note(f"{asked.name}: {name} to {home}: {error}")
                return
            self.note(f"{asked.name}: {name} is to live at {home}")
            self.counts["moves begun"] += 1

        self.on_node(asked, 0, ask)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _check_rest(self) -> None:
        super()._check_rest()
        metadata = {name: node.node.broker.metadata.snapshot() for name, node in self.nodes.items() if node.is_up}
        for name, found in metadata.items():
            if found != metadata[self.members[0]]:
                raise Violation(f"{name} ends with other metadata than {self.members[0]}")
        for record in self.nodes[self.members[0]].node.broker.metadata.queues("/"):
            if record.home:
                self._check_home(record.name, record.home)

    def _check_home(self, name: str, home: str) -> None:
        """A classic queue is there, and nowhere else, and nobody waits for a move of it."""
        for node in self.up():
            queue = node.node.broker.vhosts["/"].find_queue(name)
            if isinstance(queue, HeldQueue):
                raise Violation(f"'{name}' lives at {home}, and is held at {node.name}")
            if isinstance(queue, ClassicQueue) != (node.name == home):
                raise Violation(f"'{name}' lives at {home}, and is a {type(queue).__name__} at {node.name}")


class SpreadWeather(WorkerWeather):
    """Groups of queues are at several workers of each host, as a new folder has them, or anywhere; hosts differ."""

    faults = (
        "crash_one", "crash_worker", "crash_worker", "crash_host", "crash_leader", "crash_leader", "crash_in_write",
        "fail_disk", "freeze", "stall", "partition", "heal", "heal", "reset_link", "slow_down", "transfer", "transfer",
        "rehome",
    )  # fmt: skip

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._places: dict[str, tuple[int, ...]] = {}
        self._quorum_size: int | None = None
        super().__init__(*arguments, **named)

    def group_workers(self, host: str, groups: int) -> tuple[int, ...]:
        """See WorkerWeather."""
        if host not in self._places:
            numbers = range(1, groups + 1)
            evenly = tuple(number % self.worker_count for number in numbers)
            anywhere = tuple(self._worker_chance.randrange(self.worker_count) for _ in numbers)
            self._places[host] = self._worker_chance.choice([evenly, evenly, anywhere])
        return self._places[host]

    def _of_worker(self, config: Any, host: str, number: int) -> Any:
        """See WorkerWeather: in some runs groups are on one host each."""
        own = super()._of_worker(config, host, number)
        if self._quorum_size is None:
            self._quorum_size = self._worker_chance.choice([0, 0, 1])
        object.__setattr__(own, "quorum_size", self._quorum_size)
        return own

    def transfer_targets(self, leader: ClusterNode) -> list[str]:
        """See Weather: hosts."""
        return [host for host in self.members if host != node_of_worker(leader.name)] or self.members

    def _follow_members(self, node: ClusterNode) -> bool:
        """See ClusterWorld: a worker with groups is held to what its folder has promised."""
        if worker_number(node.name) and node.node.replication.acquaintances.is_over:
            raise Violation(f"{node.name} ends: {node.node.replication.acquaintances.reason}")
        return super()._follow_members(node)

    def _dismiss(self) -> None:
        super()._dismiss()
        for node in self.up():
            led = [group for group in node.node.groups.all.values() if group.raft.is_leader]
            self.counts["groups led by workers"] += len(led) if worker_number(node.name) else 0


class MovingWeather(WorkerWeather):
    """Queues move all the time, between workers that come and go, and do not wait for what consumers hold."""

    faults = ("rehome",) * 8 + ("crash_one", "crash_worker", "crash_host", "crash_in_write", "stall", "reset_link")
    pause = (5, 80)
    downtime = (1, 20, 100)

    def run(self, seconds: float = 4) -> None:
        """See Weather."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(departure, "HELD_MS", self._worker_chance.choice([0, 20, 1000]))
            super().run(seconds)
