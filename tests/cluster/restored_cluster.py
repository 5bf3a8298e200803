"""A cluster of which one folder was made a cluster of its own, with nodes of the old one beside it, in one process."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from amqp_broker.cli.restore import go_on_alone
from amqp_broker.links.members_file import KnownMembers, read_members, write_members
from amqp_broker.management.request import Request
from amqp_broker.settings.kinds import parse_member
from tests.cluster.verbs import verbs_of
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver
from tests.simulation.simulated_disk import SimulatedDisk

PATIENCE_MS = 20_000


class RestoredCluster(NodeCluster):
    """n1 runs on its restored folder. `old` are the other nodes as they were, which are down. Links are cut where a
    test does not make them. replaces: the old cluster."""

    def __init__(self, count: int = 3, *, replaces: bool = True) -> None:
        super().__init__(count)
        self._replaces = replaces
        self.run_until_ready()
        self.run(2000)
        self.old = {name: self.kill(name) for name in self.names}
        now = max(driver.now for driver in self.old.values())
        first = self.old.pop("n1")
        self.restore(first, now)
        self.nodes["n1"] = first
        self.run(3000)
        assert first.node.is_ready

    def restore(self, driver: NodeDriver, now: int) -> None:
        """Have a node begin from its folder, alone, as `amqp-broker cluster restore` does, and start it."""
        driver.now = now
        known = read_members(driver.disk)
        generation = known.generation if known is not None else 0
        go_on_alone(driver.disk, Path("nowhere"), driver.config.node_name, generation, now, replaces=self._replaces)
        driver.start()

    def start_old(self, name: str) -> NodeDriver:
        """A node of the old cluster runs, without links."""
        driver = self.old[name]
        driver.now = self.now
        driver.start()
        self.nodes[name] = driver
        return driver

    def stop(self, name: str) -> None:
        """A node is gone for good."""
        self.kill(name)

    def add(self, name: str) -> KnownMembers:
        """As `amqp-broker cluster join` does: the new folder's MEMBERS."""
        number = self.names.index(name)
        identity = random.Random(1000 + number).randbytes(16).hex()
        request = {"node": f"{name}=127.0.0.1:{7100 + number}", "identity": identity}
        answer, proposal = verbs_of(self.nodes["n1"].node)["cluster.add"](Request(request))
        for _ in range(PATIENCE_MS // 10):
            if proposal is None or proposal.is_done:
                break
            self.run(10)
        assert answer.get("ok", True), answer
        members = tuple(parse_member(member) for member in answer["members"])
        return KnownMembers(name, members, True, answer["index"], identity, answer["generation"], answer["replaces"])

    def start_new(self, name: str, known: KnownMembers) -> NodeDriver:
        """A node on a new folder, without links."""
        disk = SimulatedDisk(random.Random(hash((name, self.now)) & 0xFFFF))
        write_members(disk, known)
        config = self._config(name)
        object.__setattr__(config, "cluster_join", True)
        driver = NodeDriver(config, disk, seed=500 + self.names.index(name))
        driver.now = self.now
        driver.start()
        self.nodes[name] = driver
        return driver


def without_generation(known: KnownMembers) -> KnownMembers:
    return replace(known, generation=0)
