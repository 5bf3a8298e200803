"""What a guest shows of the queues and streams of a group in which it is not: what the member that leads says."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import consume, declare
from tests.queue_types.test_guests import GROUP, guest_of, settle
from tests.queue_types.test_quorum_cluster import CONFIRM, answer, confirmed, publish

#: What both show; what is counted since a start differs by the member.
SHOWN = [
    "name", "type", "messages", "messages_ready", "messages_unacknowledged", "consumers", "message_bytes_ready",
    "first_offset", "next_offset", "stream_bytes", "stream_uncompressed_bytes", "stream_groups", "partitions",
    "members", "leader",
]  # fmt: skip
QUEUES = {
    "q": declare("q", x_queue_type="quorum"),
    "s": declare("s", x_queue_type="stream"),
    "o": declare("o", x_queue_type="quorum", x_stream_source="s", x_stream_offset="first"),
    "p": declare("p", x_queue_type="stream", x_stream_partitions=2),
}


#: So many are ready: one of the queue's three messages is with a consumer.
READY = {"q": 2, "s": 3, "o": 3, "p": 3}


@pytest.fixture(scope="module")
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3)
    made.run_until_ready()
    settle(made)
    return made


@pytest.fixture(scope="module")
def client(cluster: NodeCluster) -> Any:
    """Of the guest. It has published three messages to each, and consumes."""
    client = cluster.nodes[guest_of(cluster)].client(1)
    for each in (*QUEUES.values(), CONFIRM):
        client.send(1, each)
        cluster.run(200)
    client.take()
    for name in ("q", "s", "p"):
        publish(client, b"one", b"two", b"three", key=name)
    cluster.run(200)
    assert confirmed(client) == 9
    client.send(1, methods.BasicQos(0, 1, False), consume("q"))
    cluster.run(100)
    client.take()
    return client


def passive(name: str) -> methods.Method:
    return methods.QueueDeclare(0, name, True, False, False, False, False, {})


def test_what_is_declared_is_counted(cluster: NodeCluster, client: Any) -> None:
    for name in QUEUES:
        (ok,) = answer(cluster, client, passive(name))
        assert (ok.message_count, ok.consumer_count) == (READY[name], name == "q")


def test_lists_and_pages_are_those_of_the_leader(cluster: NodeCluster, client: Any) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    desk = ClusterDesk(cluster)

    def rows(node: str) -> dict[str, Any]:
        found = desk.rows(node, "queues", columns=SHOWN)
        return {row["name"]: row for row in found}

    shown = rows(guest)
    assert shown == rows(leader)
    assert {name: shown[name]["messages_ready"] for name in QUEUES} == READY
    for name in QUEUES:
        mine, theirs = [desk.ask(node, "object", kind="queues", vhost="/", name=name) for node in (guest, leader)]
        assert {key: mine["object"][key] for key in SHOWN} == {key: theirs["object"][key] for key in SHOWN}
    listed = [
        {row["name"]: row for row in desk.ask(node, "queue.list", vhost="/")["queues"]} for node in (guest, leader)
    ]
    for name in QUEUES:
        for row in listed:
            row[name].pop("lease_groups", None)
            row[name].pop("stream_segments", None)  # a guest has no files of it
        assert listed[0][name] == listed[1][name]


def test_a_guest_counts_nothing_that_members_count(cluster: NodeCluster, client: Any) -> None:
    answer(cluster, client, *[passive(name) for name in QUEUES])
    desk = ClusterDesk(cluster)
    guest, leader = [
        desk.ask(node, "statistics")["statistics"] for node in (guest_of(cluster), cluster.leader(GROUP))
    ]
    assert leader["messages_ready"] == sum(READY.values())
    assert guest["messages_ready"] == 0


def test_a_stream_is_peeked_at_where_it_is_kept(cluster: NodeCluster, client: Any) -> None:
    desk = ClusterDesk(cluster)
    found = desk.ask(guest_of(cluster), "queue.peek", vhost="/", name="s")
    assert found["ok"], found
    assert len(found["messages"]) == 3


def test_what_was_counted_last_stays_without_a_leader(cluster: NodeCluster, client: Any) -> None:
    answer(cluster, client, *[passive(name) for name in QUEUES])
    guest = guest_of(cluster)
    cluster.isolate(guest)
    cluster.run(50)
    for name in QUEUES:
        assert cluster.nodes[guest].queue(name).message_count() == READY[name]
    cluster.heal()
