"""NodeCluster: several whole nodes in one process, joined by links that lose nothing until they are cut."""

from __future__ import annotations

import random
from typing import Any

from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import parse_members
from amqp_broker.turn.sync_job import SyncJob
from tests.node.node_driver import NodeDriver, small_config
from tests.simulation.simulated_disk import SimulatedDisk

_STEP_MS = 10


class NodeCluster:
    """`nodes` by name, n1 and so on. Time is one for all; `run` lets it pass. first_seed: of n1's chance."""

    def __init__(self, count: int = 3, first_seed: int = 0, **settings: Any) -> None:
        self.names = [f"n{number}" for number in range(1, count + 1)]
        members = ",".join(f"{name}=127.0.0.1:{7000 + number}" for number, name in enumerate(self.names))
        self._settings = {"cluster": parse_members(members), "queue_groups": 2, **settings}
        self.nodes: dict[str, NodeDriver] = {}
        self._links: dict[tuple[str, str], list[bytes]] = {}
        self._stalled: dict[str, SyncJob | None] = {}
        for number, name in enumerate(self.names):
            disk = SimulatedDisk(random.Random(number))
            self.nodes[name] = NodeDriver(self._config(name), disk, seed=first_seed + number)
        for name in self.names:
            self._link_up(name)

    def _config(self, name: str) -> Config:
        return small_config(
            node_name=name, cluster_listen=(("127.0.0.1", 0),), cluster_secret_file="secret", **self._settings
        )

    @property
    def now(self) -> int:
        return next(iter(self.nodes.values())).now

    # -- links ---------------------------------------------------------------------------------------------------------

    def _link_up(self, name: str) -> None:
        """Link a node with all others that are up."""
        for other in self.nodes:
            if other != name:
                self.link(name, other)

    def link(self, one: str, other: str) -> None:
        """A link between two nodes, unless there is one."""
        if (one, other) not in self._links and one in self.nodes and other in self.nodes:
            self._links[one, other] = []
            self._links[other, one] = []
            self.nodes[one].node.peer_connected(other, self.now)
            self.nodes[other].node.peer_connected(one, self.now)

    def cut(self, one: str, other: str) -> None:
        """The link between two nodes is gone, with what was on it."""
        for ends in ((one, other), (other, one)):
            if self._links.pop(ends, None) is not None and ends[0] in self.nodes:
                self.nodes[ends[0]].node.peer_disconnected(ends[1], self.now)

    def isolate(self, name: str) -> None:
        """Cut a node off from all others."""
        for other in self.names:
            if other != name:
                self.cut(name, other)

    def heal(self) -> None:
        """Link all that are up."""
        for name in self.nodes:
            self._link_up(name)

    def kill(self, name: str) -> NodeDriver:
        """A node goes down with its machine; `revive` brings it up again."""
        driver = self.nodes.pop(name)
        self._stalled.pop(name, None)
        for other in self.names:
            if other != name:
                self.cut(name, other)
        driver.disk.crash()
        return driver

    def revive(self, name: str, driver: NodeDriver) -> None:
        """Bring a node up again on its disk."""
        driver.now = self.now
        driver.start()
        self.nodes[name] = driver
        self.nodes = {each: self.nodes[each] for each in self.names if each in self.nodes}
        self._link_up(name)

    def stall(self, name: str) -> None:
        """The next sync of a node begins, and does not end."""
        self._stalled[name] = None

    def release(self, name: str) -> None:
        """It ends now, and further ones at once."""
        job = self._stalled.pop(name)
        if job is not None:
            job.run()
            self.nodes[name].node.synced(job, self.now)

    def join(self, name: str) -> NodeDriver:
        """A new node with an empty folder, which is linked with the others and waits to be added to the cluster."""
        number = len(self.names)
        self.names.append(name)
        members = (*self._settings["cluster"], *parse_members(f"{name}=127.0.0.1:{7000 + number}"))
        config = small_config(
            **{**self._settings, "cluster": members},
            node_name=name, cluster_listen=(("127.0.0.1", 0),), cluster_secret_file="secret", cluster_join=True,
        )  # fmt: skip
        driver = NodeDriver(config, SimulatedDisk(random.Random(number)), seed=number)
        driver.now = self.now
        driver.start()
        self.nodes[name] = driver
        self._link_up(name)
        return driver

    # -- time ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One turn and one sync of every node, and what they say to each other arrives."""
        for name, driver in list(self.nodes.items()):
            driver.turn()
            to_peers, driver.to_peers = driver.to_peers, []
            for target, frames in to_peers:
                if (name, target) in self._links:
                    self._links[name, target] += frames
            if name in self._stalled:
                self._stalled[name] = self._stalled[name] or driver.node.take_sync()
                continue
            job = driver.node.take_sync()
            if job is not None:
                job.run()
                driver.node.synced(job, driver.now)
        for (name, target), frames in list(self._links.items()):
            if frames and target in self.nodes and not self.is_stuck(name, target):
                self._links[name, target] = []
                for frame in frames:
                    self.nodes[target].node.receive_peer(name, frame, self.now)

    def is_stuck(self, name: str, target: str) -> bool:
        """Whether what one says to another waits on their link."""
        return False

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        for _ in range(milliseconds // _STEP_MS):
            for driver in self.nodes.values():
                driver.now += _STEP_MS
                driver.node.tick(driver.now)
            self.step()
            self.step()
            self.step()

    def run_until_ready(self) -> None:
        """Until clients may come to every node."""
        for _ in range(100):
            if all(driver.node.is_ready for driver in self.nodes.values()):
                self.nodes[self.leader()].add_user()
                self.run(300)
                return
            self.run(100)
        raise AssertionError("the nodes do not get ready")

    def leader(self, group_id: int = 0) -> str:
        """Who leads a group; there has to be one."""
        groups = {name: driver.node.replication.host.groups[group_id] for name, driver in self.nodes.items()}
        leaders = [name for name, group in groups.items() if group.is_leader]
        assert len(leaders) == 1, leaders
        return leaders[0]
