"""Groups of readers, and partitions, of which members are at a node without a copy of the stream."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from queues.stream.commands import SeekGroup
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.queue_types.stream.test_groups_of_readers import bodies, got, numbers
from tests.queue_types.stream.test_readers_at_guests import CANCELS, distant, fill, nobody_is_asked
from tests.queue_types.stream.test_streams_of_a_node import consume, declare, qos
from tests.queue_types.test_guests import group, guest_of, listed, put_list, settle
from tests.queue_types.test_quorum_cluster import answer


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3, page_size_bytes=1500)
    made.run_until_ready()
    settle(made)
    answer(made, made.nodes["n1"].client(1), declare())
    return made


def member(cluster: NodeCluster, name: str, prefetch: int = 100, queue: str = "s", **arguments: object) -> Client:
    client = cluster.nodes[name].client(1, capabilities=CANCELS)
    client.send(1, qos(prefetch), consume(queue, x_stream_group="g", **arguments))
    cluster.run(300)
    return client


def queue_of(cluster: NodeCluster, name: str, queue: str = "s") -> Any:
    return cluster.nodes[name].node.broker.vhosts["/"].queues[queue]


def position(cluster: NodeCluster, queue: str = "s") -> int:
    leader = queue_of(cluster, "n1", queue).group.leader
    return int(queue_of(cluster, leader, queue).stream().groups.get("g").position)


def test_one_at_a_guest_reads_and_one_at_a_member_goes_on(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 10))
    guest, leader = guest_of(cluster), cluster.leader(1)
    one, other = member(cluster, guest), member(cluster, leader)
    assert bodies(one) == numbers(0, 10)
    assert bodies(other) == []
    one.send(1, methods.BasicAck(4, True))
    cluster.run(300)
    assert position(cluster) == 4
    cluster.nodes[guest].lose(one)
    cluster.run(300)
    assert got(other) == [(number - 3, True, b"%d" % number) for number in range(4, 10)]
    assert nobody_is_asked(cluster)


def test_one_at_a_guest_stands_by_and_goes_on(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 10))
    guest, leader = guest_of(cluster), cluster.leader(1)
    one, other, third = member(cluster, leader, 6), member(cluster, guest), member(cluster, guest)
    assert (bodies(one), bodies(other), bodies(third)) == (numbers(0, 6), [], [])
    one.send(1, methods.BasicAck(6, True))
    cluster.run(20)
    cluster.nodes[leader].lose(one)
    cluster.run(300)
    assert bodies(other) == numbers(6, 10)
    cluster.nodes[guest].lose(other)
    cluster.run(300)
    assert bodies(third) == numbers(6, 10)


def test_what_comes_back_comes_again_also_from_far_behind(cluster: NodeCluster) -> None:
    """From a piece that this node has let go of, too."""
    sent = [b"%d" % number + bytes(40_000) for number in range(40)]
    fill(cluster, sent)
    guest = guest_of(cluster)
    reader = member(cluster, guest)
    cluster.run(1000)
    assert bodies(reader) == sent
    reader.send(1, methods.BasicNack(2, False, True), methods.BasicNack(30, False, True))
    cluster.run(300)
    assert sorted(got(reader)) == [(41, True, sent[1]), (42, True, sent[29])]
    reader.send(1, methods.BasicAck(42, True))
    cluster.run(300)
    assert position(cluster) == 40
    fill(cluster, [b"more"])
    assert bodies(reader) == [b"more"]


def test_without_acknowledgements_each_comes_once(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 30))
    client = cluster.nodes[guest_of(cluster)].client(1)
    table = Table({"x-stream-offset": "first", "x-stream-group": "g"})
    client.send(1, qos(10), methods.BasicConsume(0, "s", "tag", False, True, False, False, table))
    cluster.run(1000)
    assert bodies(client) == numbers(0, 30)
    assert position(cluster) == 30


def test_who_seeks_has_the_reader_go_on_there(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 10))
    reader = member(cluster, guest_of(cluster))
    assert bodies(reader) == numbers(0, 10)
    queue = queue_of(cluster, cluster.leader(1))
    queue.group.submit(SeekGroup(queue.queue_id, "g", 7))
    cluster.run(300)
    assert bodies(reader) == numbers(7, 10)


def test_a_new_group_begins_behind_what_this_node_was_confirmed(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    fill(cluster, numbers(0, 10), guest)
    reader = member(cluster, guest, x_stream_offset="next")
    fill(cluster, [b"new"], guest)
    assert bodies(reader) == [b"new"]


def test_it_goes_on_when_the_member_that_is_asked_is_gone(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 20))
    guest = guest_of(cluster)
    reader = member(cluster, guest, 5)
    asked = distant(cluster, guest).node
    found, tags = [], []
    for _ in range(40):
        came = got(reader)
        found += [body for _, _, body in came]
        tags += [tag for tag, _, _ in came]
        if len(found) == 5:
            cluster.kill(asked)
        if came:
            reader.send(1, methods.BasicAck(tags[-1], True))
        cluster.run(200)
    assert found == numbers(0, 20)
    leader = queue_of(cluster, guest).group.leader
    assert queue_of(cluster, leader).stream().groups.get("g").position == 20


def test_it_stays_while_its_node_becomes_a_member_and_a_guest_again(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 10))
    guest, members = guest_of(cluster), listed(cluster)
    reader = member(cluster, guest)
    put_list(cluster, *members, guest)
    assert group(cluster.nodes[guest]).guest is None
    fill(cluster, numbers(10, 20))
    put_list(cluster, *members)
    assert group(cluster.nodes[guest]).guest is not None
    fill(cluster, numbers(20, 30))
    came = got(reader)
    assert [(redelivered, body) for _, redelivered, body in came] == [(False, body) for body in numbers(0, 30)]
    reader.send(1, methods.BasicAck(30, True))
    cluster.run(500)
    assert position(cluster) == 30


def test_a_session_that_is_over_is_no_end_of_it(cluster: NodeCluster) -> None:
    """Its node was taken for dead: it joins again, and what it had comes marked."""
    fill(cluster, numbers(0, 10))
    guest = guest_of(cluster)
    reader = member(cluster, guest)
    assert bodies(reader) == numbers(0, 10)
    cluster.isolate(guest)
    cluster.run(cluster.nodes[guest].node.config.node_down_ms + 2000)
    cluster.heal()
    cluster.run(4000)
    fill(cluster, [b"new"])
    assert [(redelivered, body) for _, redelivered, body in got(reader)] == [
        *[(True, body) for body in numbers(0, 10)], (False, b"new"),
    ]  # fmt: skip


def test_a_stream_that_is_deleted_cancels_it(cluster: NodeCluster) -> None:
    fill(cluster, numbers(0, 3))
    reader = member(cluster, guest_of(cluster))
    reader.take()
    answer(cluster, cluster.nodes["n1"].client(1), methods.QueueDelete(0, "s", False, False, False))
    cluster.run(500)
    assert reader.names() == ["basic.cancel"]
    assert nobody_is_asked(cluster)


# -- partitions


def of_partitions(client: Client) -> list[tuple[object, object]]:
    """Partition and offset of what has come."""
    found = []
    for event in client.take():
        assert event.method.name not in ("channel.close", "connection.close", "basic.cancel"), event.method
        if event.method.name == "basic.deliver":
            headers = decode_properties(event.properties).headers or {}
            found.append((headers["x-stream-partition"], headers["x-stream-offset"]))
    return found


def test_members_at_guests_and_members_share_the_partitions(cluster: NodeCluster) -> None:
    guest, leader = guest_of(cluster), cluster.leader(1)
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, declare("p", x_stream_partitions=4))
    for number in range(40):
        client.publish(1, "p", b"%d" % number)
    cluster.run(500)
    there = sorted((partition, offset) for partition in range(4) for offset in range(10))
    one = member(cluster, guest, queue="p")
    cluster.run(1000)
    assert sorted(of_partitions(one)) == there
    one.send(1, methods.BasicAck(0, True))
    other = member(cluster, leader, queue="p")
    cluster.run(1000)
    for number in range(40):
        client.publish(1, "p", b"%d" % number)
    cluster.run(1000)
    first, second = of_partitions(one), of_partitions(other)
    assert sorted(first + second) == [(partition, offset + 10) for partition, offset in there]
    assert len({partition for partition, _ in first}) == len({partition for partition, _ in second}) == 2
    for each in (one, other):
        each.send(1, methods.BasicAck(0, True))
    cluster.run(500)
    cluster.nodes[leader].lose(other)
    cluster.run(1000)
    for number in range(40):
        client.publish(1, "p", b"%d" % number)
    cluster.run(1000)
    assert sorted(of_partitions(one)) == [(partition, offset + 20) for partition, offset in there]
    one.send(1, methods.BasicAck(0, True), methods.BasicCancel("tag", False))
    cluster.run(500)
    assert [position(cluster, f"p-{number}") for number in range(4)] == [30] * 4
    assert nobody_is_asked(cluster)
