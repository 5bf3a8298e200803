"""One node of a cluster has no room on its disk: who waits for it, who is told so, and who goes on."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.resources.alarms import STALL_MS
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, declare

CONFIRM = methods.ConfirmSelect(False)


@pytest.fixture
def cluster() -> NodeCluster:
    """`home` lives on n2; `quorum` everywhere."""
    made = NodeCluster(queue_groups=2)
    made.run_until_ready()
    client = made.nodes["n2"].client(1)
    client.send(1, declare("home"), declare("quorum", x_queue_type="quorum"))
    made.run(300)
    assert client.names() == ["queue.declare-ok", "queue.declare-ok"]
    return made


def publisher(cluster: NodeCluster, node: str, queue: str) -> Client:
    """A client that has published to a queue, and has been confirmed."""
    client = cluster.nodes[node].client(1, capabilities=["connection.blocked"])
    client.send(1, CONFIRM)
    client.publish(1, queue, b"first")
    cluster.run(300)
    assert client.names() == ["confirm.select-ok", "basic.ack"]
    return client


def fill(cluster: NodeCluster, node: str, is_full: bool = True) -> None:
    cluster.nodes[node].node.alarms.disk_full(is_full)
    cluster.run(200)


def test_those_who_publish_to_a_full_home_wait_and_are_told(cluster: NodeCluster) -> None:
    to_home, to_quorum = publisher(cluster, "n1", "home"), publisher(cluster, "n1", "quorum")
    fill(cluster, "n2")
    [blocked] = [event.method for event in to_home.take()]
    assert (blocked.name, blocked.reason) == ("connection.blocked", "low on disk or memory: node n2")
    to_home.publish(1, "home", b"second")
    cluster.run(100)
    assert to_home.connection.is_paused
    assert to_quorum.take() == []
    assert not to_quorum.connection.is_paused
    to_quorum.publish(1, "quorum", b"second")
    cluster.run(200)
    assert to_quorum.names() == ["basic.ack"]
    fill(cluster, "n2", False)
    assert to_home.names() == ["connection.unblocked", "basic.ack"]
    assert not to_home.connection.is_paused


def test_who_begins_to_publish_to_a_full_home_is_told_then(cluster: NodeCluster) -> None:
    client = publisher(cluster, "n3", "quorum")
    publisher(cluster, "n3", "home")  # there is a link to the home
    fill(cluster, "n2")
    assert client.take() == []
    client.publish(1, "home", b"second")
    cluster.run(200)
    assert "connection.blocked" in client.names()


def leads(cluster: NodeCluster, node: str) -> list[int]:
    groups = cluster.nodes[node].node.replication.host.groups
    return [group_id for group_id, group in groups.items() if group.is_leader]


def test_who_has_no_room_leads_no_group(cluster: NodeCluster) -> None:
    leader = cluster.leader(1)
    fill(cluster, leader)
    cluster.run(3000)
    assert leads(cluster, leader) == []
    assert cluster.leader(1) != leader


def test_who_waits_for_the_disk_too_long_leads_no_group(cluster: NodeCluster) -> None:
    leader = cluster.leader(1)
    client = publisher(cluster, next(name for name in cluster.names if name != leader), "quorum")
    cluster.stall(leader)
    client.publish(1, "quorum", b"second")
    cluster.run(STALL_MS + 3000)
    assert leads(cluster, leader) == []
    assert client.names() == ["basic.ack"]

