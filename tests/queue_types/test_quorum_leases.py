"""Lease groups of a quorum queue in a cluster: asked for on any node, read on every one, through leader changes."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from queues.effects import Refusal
from queues.lease_source import Caller
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import declare
from tests.queue_types.test_quorum_cluster import CONFIRM, agree, answer, follower, numbers, publish

JOB = Caller("job", "i" * 32, "driver")
ALL = 1 << 40


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(queue_groups=1)
    made.run_until_ready()
    answer(made, made.nodes["n1"].client(1), declare("q", x_queue_type="quorum"), CONFIRM)
    return made


class Asked:
    """What came of commands, in order."""

    def __init__(self, cluster: NodeCluster, node: str) -> None:
        self.cluster = cluster
        self.leases = cluster.nodes[node].queue("q").leases()
        self.done: list[Refusal | None] = []

    def __call__(self, verb: str, *arguments: Any) -> Refusal | None:
        before = len(self.done)
        getattr(self.leases, verb)(*arguments, self.cluster.now, self.done.append)
        self.cluster.run(100)
        assert len(self.done) == before + 1
        return self.done[-1]

    def bodies(self) -> list[bytes]:
        return [entry.message.body_bytes() for entry in self.leases.groups()["job"].entries()]


def fill(cluster: NodeCluster, count: int) -> None:
    client = cluster.nodes["n1"].client(1)
    publish(client, *numbers(1, count))
    cluster.run(100)


def test_any_node_may_claim_and_every_one_can_read(cluster: NodeCluster) -> None:
    fill(cluster, 10)
    asked = Asked(cluster, follower(cluster))
    assert asked("open", JOB) is None
    assert asked("claim", JOB, 0, 6, ALL, False) is None
    for name in cluster.nodes:
        assert Asked(cluster, name).bodies() == numbers(1, 6)
        assert cluster.nodes[name].queue("q").leased_count() == 6
    assert asked("ack", JOB, 4) is None
    assert Asked(cluster, cluster.leader(1)).bodies() == numbers(5, 6)
    assert Asked(cluster, "n3")("claim", JOB._replace(owner="late"), 4, 1, 1, False) is Refusal.FENCED
    assert asked("claim", JOB, 7, 1, 1, False) is Refusal.LEASE_GONE
    assert asked("release", JOB) is None
    assert {driver.queue("q").message_count() for driver in cluster.nodes.values()} == {6}
    agree(cluster)


def test_a_claim_survives_the_leader(cluster: NodeCluster) -> None:
    fill(cluster, 10)
    name = follower(cluster)
    asked = Asked(cluster, name)
    asked("open", JOB)
    asked.leases.claim(JOB, 0, 5, ALL, False, cluster.now, asked.done.append)
    cluster.kill(cluster.leader(1))
    cluster.run(5000)
    assert asked.done == [None, None]
    assert asked.bodies() == numbers(1, 5)
    assert asked("claim", JOB, 0, 5, ALL, False) is None
    assert asked.bodies() == numbers(1, 5)


def test_who_watches_is_woken_when_something_is_ready(cluster: NodeCluster) -> None:
    woken: list[str] = []
    for name in cluster.nodes:
        cluster.nodes[name].queue("q").leases().watch(lambda name=name: woken.append(name))  # type: ignore[misc]
    cluster.run(100)
    assert woken == []
    fill(cluster, 2)
    assert sorted(woken) == ["n1", "n2", "n3"]
    fill(cluster, 2)
    assert len(woken) == 3


def test_of_a_deleted_queue_nothing_is_to_be_had(cluster: NodeCluster) -> None:
    fill(cluster, 3)
    asked = Asked(cluster, "n1")
    asked("open", JOB)
    asked("claim", JOB, 0, 3, ALL, False)
    queue = cluster.nodes["n1"].queue("q")
    woken: list[int] = []
    queue.leases().watch(lambda: woken.append(1))
    answer(cluster, cluster.nodes["n1"].client(1), methods.QueueDelete(0, "q", False, False, False))
    assert woken == [1]
    assert asked("claim", JOB, 3, 1, 1, False) is Refusal.NO_QUEUE
    assert queue.leases().groups() == {}
