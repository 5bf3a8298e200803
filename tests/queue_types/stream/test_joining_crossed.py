"""A consumer joins a stream of which its node has no copy, and the stream, or the client, goes meanwhile, or the copies
of it move: whoever waits is answered, and nobody is asked for ever."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.queue_types.stream.test_readers_at_guests import CANCELS
from tests.queue_types.stream.test_streams_of_a_node import consume, declare, qos
from tests.queue_types.test_guests import guest_of, put_list, settle
from tests.queue_types.test_quorum_cluster import answer

#: Of the stream, and of its consumer.
KINDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "alone": ({}, {}),
    "until": ({}, {"x_stream_until": "last"}),
    "group": ({}, {"x_stream_group": "g"}),
    "partitions": ({"x_stream_partitions": 3}, {"x_stream_group": "g"}),
}
#: More turns than any of them takes to join.
_TURNS = 32
_DELETE = methods.QueueDelete(0, "s", False, False, False)


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3, page_size_bytes=1500)
    made.run_until_ready()
    settle(made)
    return made


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def declared(cluster: NodeCluster, kind: str) -> Client:
    owner = cluster.nodes["n1"].client(1)
    answer(cluster, owner, declare("s", **KINDS[kind][0]))
    cluster.run(100)
    return owner


def joining(cluster: NodeCluster, kind: str) -> Client:
    client = cluster.nodes[guest_of(cluster)].client(1, capabilities=CANCELS)
    client.send(1, qos(10), consume("s", **KINDS[kind][1]))
    return client


def turns(cluster: NodeCluster, count: int) -> None:
    for _ in range(count):
        cluster.step()


def anybody_asks(cluster: NodeCluster) -> bool:
    reads = [driver.node.stream_reads for driver in cluster.nodes.values()]
    return any(any(each._open.values()) or each._resting for each in reads)


@pytest.mark.parametrize("is_first", [False, True], ids=["joins first", "deleted first"])
def test_a_stream_that_is_deleted_meanwhile(cluster: NodeCluster, kind: str, is_first: bool) -> None:
    """Either it has joined, and hears then that it is cancelled, or the channel is closed."""
    found = set()
    for count in range(_TURNS):
        owner = declared(cluster, kind)
        if is_first:
            owner.send(1, _DELETE)
            turns(cluster, count)
            client = joining(cluster, kind)
        else:
            client = joining(cluster, kind)
            turns(cluster, count)
            owner.send(1, _DELETE)
        cluster.run(500)
        found.add(tuple(client.names()[1:]))
        assert not anybody_asks(cluster), count
        cluster.nodes[guest_of(cluster)].lose(client)
    assert found <= {("basic.consume-ok", "basic.cancel"), ("channel.close",)}
    assert not is_first or ("channel.close",) in found


def test_a_client_that_is_lost_meanwhile(cluster: NodeCluster, kind: str) -> None:
    declared(cluster, kind)
    for count in range(_TURNS):
        client = joining(cluster, kind)
        turns(cluster, count)
        cluster.nodes[guest_of(cluster)].lose(client)
        cluster.run(500)
        assert not anybody_asks(cluster), count


@pytest.mark.parametrize("count", [0, 1, 4, 8, 16, 26])
def test_the_only_copy_comes_to_its_node_meanwhile(cluster: NodeCluster, kind: str, count: int) -> None:
    """There is nobody else any more who could say anything."""
    declared(cluster, kind)
    guest, client = guest_of(cluster), joining(cluster, kind)
    turns(cluster, count)
    put_list(cluster, guest)
    cluster.run(1000)
    publisher = cluster.nodes["n1"].client(1)
    for number in range(6):
        publisher.publish(1, "s", b"%d" % number)
    cluster.run(1500)
    assert client.names()[1:] == ["basic.consume-ok", *(["basic.cancel"] if kind == "until" else 6 * ["basic.deliver"])]
    assert not anybody_asks(cluster)
