"""Nodes of the old cluster beside a restored one, at random: who starts, is linked, is cut, is added. The restored node
never ends, nobody of the old cluster ever counts for it, and at the end all three are members on new folders. Where it
does not replace the old cluster, nobody of that ends either, or takes the restored node for a member."""

from __future__ import annotations

import random

import pytest

from amqp_broker.links.acquaintances import Acquaintances
from amqp_broker.links.members_file import KnownMembers
from raft.errors import FolderGivenUp
from tests.cluster.restored_cluster import RestoredCluster
from tests.node.node_driver import NodeDriver
from tests.simulation.state import Violation

SEEDS = range(1, 21)
STEPS = 25


class RestoredWeather:
    """One run. old: nodes of the old cluster that run now; new: those that were added and have begun."""

    def __init__(self, seed: int, *, replaces: bool = True) -> None:
        self.chance = random.Random(seed)
        self.replaces = replaces
        self.cluster = RestoredCluster(replaces=replaces)
        self.old: dict[str, NodeDriver] = {}
        self.new: dict[str, NodeDriver] = {}
        self.known: dict[str, KnownMembers] = {}

    def run(self) -> None:
        """Raises Violation."""
        kinds = (self.start_old, self.link, self.link, self.cut, self.restart, self.add, self.start_new)
        for _ in range(STEPS):
            self.chance.choice(kinds)()
            self.let_pass(self.chance.choice([10, 100, 1000]))
        for name in ("n2", "n3"):
            self.stop_old(name)
            self.begin(name)
        self.cluster.heal()
        self.let_pass(15_000)
        for name, driver in self.cluster.nodes.items():
            voters = [group.members for group in driver.node.replication.host.groups.values()]
            if not driver.node.is_ready or any(each != ("n1", "n2", "n3") for each in voters):
                raise Violation(f"{name} ends with {voters}, and is {'' if driver.node.is_ready else 'not '}ready")

    def let_pass(self, milliseconds: int) -> None:
        """Time, and a look."""
        self.cluster.run(milliseconds)
        for name, driver in self.cluster.nodes.items():
            made = driver.node.replication.acquaintances
            if name in self.old:
                if not self.replaces:
                    self.look_at_old(name, driver)
                continue
            if made.reason:
                raise Violation(f"{name} was given up: {made.reason}")
            for other in self.old:
                if made.is_admitted(other):
                    raise Violation(f"{name} takes {other} of the old cluster for a member")

    def look_at_old(self, name: str, driver: NodeDriver) -> None:
        """A copy beside it is no harm."""
        made = driver.node.replication.acquaintances
        if made.reason:
            raise Violation(f"{name} of the old cluster was given up: {made.reason}")
        for other in ("n1", *self.new):
            if made.is_admitted(other):
                raise Violation(f"{name} of the old cluster takes {other} for a member")

    def pick(self) -> str:
        return self.chance.choice(["n2", "n3"])

    def start_old(self) -> None:
        name = self.pick()
        if name not in self.cluster.nodes and name not in self.new:
            try:
                self.old[name] = self.cluster.start_old(name)
            except FolderGivenUp:
                return  # it was told before

    def stop_old(self, name: str) -> None:
        if self.old.pop(name, None) is not None:
            self.cluster.old[name] = self.cluster.kill(name)

    def link(self) -> None:
        self.cluster.link(*self.chance.sample(self.cluster.names, 2))

    def cut(self) -> None:
        self.cluster.cut(*self.chance.sample(self.cluster.names, 2))

    def restart(self) -> None:
        """The restored node's machine goes down, and comes up."""
        if len(self.cluster.nodes) > 1:
            driver = self.cluster.kill("n1")
            driver.now = self.cluster.now
            driver.start()
            self.cluster.nodes = {"n1": driver, **self.cluster.nodes}

    def add(self) -> None:
        name, first = self.pick(), self.cluster.nodes["n1"].node
        if name not in self.known and first.is_ready and first.membership.has_left(name):
            self.known[name] = self.cluster.add(name)

    def start_new(self) -> None:
        name = self.pick()
        if name in self.known and self.chance.random() < 0.5:
            self.stop_old(name)
            self.begin(name)

    def begin(self, name: str) -> None:
        """A node on a new folder, which is added first if need be."""
        if name in self.new:
            return
        if name not in self.known:
            self.cluster.heal()
            self.let_pass(8000)
            self.known[name] = self.cluster.add(name)
        self.new[name] = self.cluster.start_new(name, self.known[name])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restored_cluster_beside_the_old_one(seed: int) -> None:
    RestoredWeather(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_does_not_replace_the_old_cluster(seed: int) -> None:
    RestoredWeather(seed, replaces=False).run()


def test_without_generations_it_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of old nodes counts then, and the restored one ends."""
    monkeypatch.setattr(Acquaintances, "_hear_generation", lambda *_: None)
    monkeypatch.setattr(Acquaintances, "_is_refused", lambda *_: False)
    found = []
    for seed in SEEDS:
        try:
            RestoredWeather(seed).run()
        except Violation as error:
            found.append(str(error))
    assert any("n1 was given up: this folder has forgotten what n" in text for text in found), found
