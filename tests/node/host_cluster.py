"""HostCluster: hosts of several workers each, all in one process, every worker linked with every other."""

from __future__ import annotations

import random
from typing import Any

from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import parse_members
from amqp_broker.settings.workers import node_of_worker, worker_name, worker_number
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.node.worker_world import declare_at_home
from tests.simulation.simulated_disk import SimulatedDisk


class HostCluster(NodeCluster):
    """n1, n1/1, n2, n2/1 and so on. held: links, by who speaks and who is to hear, on which nothing arrives."""

    def __init__(self, hosts: int = 3, workers: int = 2, **settings: Any) -> None:
        self.hosts = [f"n{number}" for number in range(1, hosts + 1)]
        self.names = [worker_name(host, number) for host in self.hosts for number in range(workers)]
        members = ",".join(f"{host}=127.0.0.1:{7000 + number}" for number, host in enumerate(self.hosts))
        self._settings = {
            "cluster": parse_members(members), "queue_groups": 2, "workers": workers, "worker_processes": workers,
            **settings,
        }  # fmt: skip
        self.nodes: dict[str, NodeDriver] = {}
        self._links = {}
        self._stalled = {}
        self.held: set[tuple[str, str]] = set()
        for number, name in enumerate(self.names):
            driver = NodeDriver(self._config(name), SimulatedDisk(random.Random(number)), seed=number)
            self.nodes[name] = driver
            self._seat(name)
        for name in self.names:
            self._link_up(name)
        self.run_until_ready()

    def _config(self, name: str) -> Config:
        return small_config(
            node_name=name, worker=worker_number(name), cluster_listen=(("127.0.0.1", 0),),
            cluster_secret_file="secret", **self._settings,
        )  # fmt: skip

    def _seat(self, name: str) -> None:
        """What the supervisor tells a worker 0."""
        self.nodes[name].node.membership.have_workers(tuple(range(1, self._settings["workers"])), ())

    def revive(self, name: str, driver: NodeDriver) -> None:
        super().revive(name, driver)
        self._seat(name)

    def kill_host(self, host: str) -> dict[str, NodeDriver]:
        return {name: self.kill(name) for name in list(self.nodes) if node_of_worker(name) == host}

    def leader(self, group_id: int = 0) -> str:
        """Who leads a group; there has to be one."""
        drivers = {name: driver for name, driver in self.nodes.items() if name == node_of_worker(name)}
        leaders = [
            name for name, driver in drivers.items() if driver.node.replication.host.groups[group_id].is_leader
        ]
        assert len(leaders) == 1, leaders
        return leaders[0]

    def follower(self) -> str:
        """A host that does not lead the metadata."""
        return next(host for host in self.hosts if host in self.nodes and host != self.leader())

    def is_stuck(self, name: str, target: str) -> bool:
        return (name, target) in self.held

    def client(self, at: str, *channel_ids: int) -> Client:
        return self.nodes[at].client(*channel_ids)

    def declare(self, home: str, name: str, **arguments: object) -> Client:
        """A queue that lives at a worker is under way; who asked for it hears when it is known."""
        client = self.client(home, 1)
        client.send(1, declare_at_home(name, **arguments))
        return client

    def homes(self, at: str) -> dict[str, str]:
        return {each.name: each.home for each in self.nodes[at].node.broker.metadata.all_queues()}
