"""Three of our nodes in place of one, for the cases of benchmarks/bystander.py: all of a case goes to the first of
them, and no group may get another leader, and no link be lost, however much that one has to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amqp_broker.bench.target import parse_target
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded_cluster import RunningCluster, running_cluster
from benchmarks.brokers import Broker, BrokerError, version_of
from benchmarks.clusters import plain_children

NODES = 3
_LOST = "the link with"
_PATIENCE_S = 30
_LOOK_S = 0.1


class Cohesion:
    """Who leads each group in which term, and how often a link was lost, when it was looked at last."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self._leaders, self._lost = self._when_all_are_led()

    def check(self) -> None:
        """Raises BrokerError when something has changed since the last time."""
        (before, lost_before), (leaders, lost) = (self._leaders, self._lost), self._look()
        self._leaders, self._lost = leaders, lost
        for group, (leader, term) in before.items():
            if leaders.get(group) != (leader, term):
                now, later = leaders.get(group, ("nobody", 0))
                raise BrokerError(f"group {group} was led by {leader} in term {term}, and is by {now} in term {later}")
        if lost != lost_before:
            raise BrokerError(f"links between the nodes were lost {lost - lost_before} times: see their logs")

    def _when_all_are_led(self) -> tuple[dict[int, tuple[str | None, int]], int]:
        """The first look: a group that was just made has no leader yet, and getting one is no change. Raises
        BrokerError when some group has none for too long."""
        deadline = time.monotonic() + _PATIENCE_S
        leaders, lost = self._look()
        while any(leader is None for leader, _ in leaders.values()):
            if time.monotonic() > deadline:
                raise BrokerError(f"groups of the cluster have no leader after {_PATIENCE_S} s: {leaders}")
            time.sleep(_LOOK_S)
            leaders, lost = self._look()
        return leaders, lost

    def _look(self) -> tuple[dict[int, tuple[str | None, int]], int]:
        with SystemClient(self.cluster.nodes[-1].url) as client:
            groups = client.request("cluster.status")["groups"]
        leaders = {group["group"]: (group["leader"], group["term"]) for group in groups}
        return leaders, sum(node.broker.logs.count(_LOST) for node in self.cluster.nodes)


@contextmanager
def watched_cluster(folder: Path, plain: bool) -> Iterator[tuple[Broker, Cohesion]]:
    """The first node, and the look at them all."""
    with (
        plain_children(plain),
        running_cluster(NODES, folder, max_consumers_per_channel=100_000, max_message_size="128MiB") as cluster,
    ):
        target = parse_target(cluster.nodes[0].url)
        name = f"amqp-broker, {NODES} nodes" + (" (plain)" if plain else "")
        yield Broker(name, version_of(target), target, cluster.nodes[0].broker.process.pid, 0.0), Cohesion(cluster)
