"""Whole nodes: a classic queue of n2 used by clients of n1, octets in and octets out."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, consume, declare, frame_octets, publish_octets
from tests.processor_time import processor_time
from tests.queue_types import link_world
from tests.queue_types.link_world import RemoteClient


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster()
    made.run_until_ready()
    home = made.nodes["n2"].client(1)
    home.send(1, declare("q"))
    made.run(300)
    assert home.names() == ["queue.declare-ok"]
    return made


def answer(cluster: NodeCluster, client: Client, *said: Any) -> list[Any]:
    """What a client is answered, as methods."""
    client.send(1, *said)
    cluster.run(300)
    return [event.method for event in client.take()]


def ready(cluster: NodeCluster, name: str = "q", node: str = "n2") -> int:
    return int(cluster.nodes[node].queue(name).message_count())


def confirming(cluster: NodeCluster, node: str = "n1") -> Client:
    client = cluster.nodes[node].client(1)
    assert [method.name for method in answer(cluster, client, methods.ConfirmSelect(False))] == ["confirm.select-ok"]
    return client


def test_publish_with_confirms(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    client.publish(1, "q", b"one")
    client.publish(1, "q", b"two")
    cluster.run(200)
    [confirm] = [event.method for event in client.take()]
    assert (confirm.name, confirm.delivery_tag, confirm.multiple) == ("basic.ack", 2, True)
    assert ready(cluster) == 2


def test_of_a_turn_only_what_is_refused_is_nacked(cluster: NodeCluster) -> None:
    """Its publishes to one home have one receipt, as long as no other queue comes between."""
    home = cluster.nodes["n2"].client(1)
    answer(cluster, home, declare("small", x_max_length=1, x_overflow="reject-publish"))
    client, other = confirming(cluster), confirming(cluster)
    for queue in ("small", "small", "small", "q", "small", "q", "q"):
        client.publish(1, queue, queue.encode())
        other.publish(1, "q", b"between")
    cluster.run(300)
    said = [(event.method.name, event.method.delivery_tag) for event in client.take()]
    nacked = [tag for name, tag in said if name == "basic.nack"]
    assert (nacked, said[-1]) == ([2, 3, 5], ("basic.ack", 7))
    [confirm] = [event.method for event in other.take()]
    assert (confirm.name, confirm.delivery_tag) == ("basic.ack", 7)
    assert (ready(cluster, "small"), ready(cluster)) == (1, 10)


def test_of_a_turn_that_is_lost_everything_is_nacked_once(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    for number in range(5):
        client.publish(1, "q", b"%d" % number)
    cluster.nodes["n1"].turn()  # what it says to others is lost
    client.publish(1, "q", b"of the next turn")
    cluster.cut("n1", "n2")
    cluster.run(100)
    assert [(event.method.name, event.method.delivery_tag) for event in client.take()] == [
        ("basic.nack", number) for number in range(1, 7)
    ]


def seconds_of_nacks(count: int) -> float:
    """Processor time of the turn in which so many publishes to two homes are nacked, as both are lost."""
    cluster = NodeCluster(publish_backlog_bytes=1 << 30)
    cluster.run_until_ready()
    for name in ("n2", "n3"):
        cluster.nodes[name].client(1).send(1, declare(name))
    cluster.run(300)
    client, driver = confirming(cluster), cluster.nodes["n1"]
    for _ in range(count // 100):
        client.send_octets(50 * (publish_octets(1, "n2", b"") + publish_octets(1, "n3", b"")))
    heard: list[bytes] = []
    client.hear = heard.append  # type: ignore[method-assign]  # to read them takes longer
    with processor_time() as taken:
        cluster.isolate("n1")
        driver.turn()
    assert sum(map(len, heard)) == count * len(frame_octets(1, 1, bytes(13)))
    return taken.seconds


@pytest.mark.once
def test_very_many_nacks_at_once_cost_what_each_costs() -> None:
    few, many = 10_000, 160_000
    assert seconds_of_nacks(many) < 4 * (many // few) * min(seconds_of_nacks(few) for _ in range(3))


def test_confirmed_messages_survive_their_home(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    client.publish(1, "q", b"one")
    cluster.run(200)
    assert client.names() == ["basic.ack"]
    driver = cluster.kill("n2")
    cluster.run(500)
    client.publish(1, "q", b"two")
    cluster.run(200)
    assert client.names() == ["basic.nack"]
    cluster.revive("n2", driver)
    cluster.run(3000)
    client.publish(1, "q", b"three")
    cluster.run(200)
    assert client.names() == ["basic.ack"]
    assert ready(cluster) == 2


def test_a_publish_that_was_on_its_way_is_nacked(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    client.publish(1, "q", b"one")
    cluster.nodes["n1"].turn()  # what it says to others is lost
    cluster.cut("n1", "n2")
    cluster.run(100)
    assert client.names() == ["basic.nack"]


def test_a_mandatory_message_is_not_returned_while_the_home_is_down(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    cluster.kill("n2")
    cluster.run(500)
    client.send_octets(_mandatory("q", b"one"))
    cluster.run(200)
    assert client.names() == ["basic.nack"]


def _mandatory(queue: str, body: bytes) -> bytes:
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    method = encode_method_frame(1, methods.BasicPublish(0, "", queue, True, False))
    return method + frame_octets(2, 1, header) + frame_octets(3, 1, body)


def test_declare_again_tells_the_counts(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    client.publish(1, "q", b"one")
    home = cluster.nodes["n2"].client(1)
    home.send(1, consume("q"))
    client.publish(1, "q", b"two")
    for said in (declare("q"), methods.QueueDeclare(0, "q", True, False, False, False, False, Table({}))):
        [declared] = answer(cluster, client, said)
        assert (declared.name, declared.message_count, declared.consumer_count) == ("queue.declare-ok", 0, 1)
    home.send(1, methods.BasicCancel("tag", False), methods.BasicRecover(True))
    cluster.run(100)
    [declared] = answer(cluster, client, declare("q"))
    assert (declared.message_count, declared.consumer_count) == (2, 0)


@pytest.mark.parametrize(
    "said",
    [
        declare("q"),
        methods.QueueDeclare(0, "q", True, False, False, False, False, Table({})),
        methods.QueuePurge(0, "q", False),
        methods.QueueDelete(0, "q", True, False, False),
    ],
    ids=["declare", "passive", "purge", "delete if unused"],
)
def test_while_the_home_is_down_the_client_is_told(cluster: NodeCluster, said: Any) -> None:
    client = cluster.nodes["n1"].client(1)
    cluster.kill("n2")
    cluster.run(500)
    [closed] = answer(cluster, client, said)
    assert (closed.name, closed.reply_code, closed.reply_text) == (
        "channel.close",
        404,
        "NOT_FOUND - home node 'n2' of durable queue 'q' in vhost '/' is down or inaccessible",
    )


def test_who_waits_when_the_home_is_lost_is_told(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    client.send(1, methods.QueuePurge(0, "q", False))
    cluster.nodes["n1"].turn()  # what it says to others is lost
    cluster.cut("n1", "n2")
    cluster.run(100)
    assert client.names() == ["channel.close"]


def test_purge(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    client.publish(1, "q", b"one")
    [purged] = answer(cluster, client, methods.QueuePurge(0, "q", False))
    assert (purged.name, purged.message_count) == ("queue.purge-ok", 1)
    assert ready(cluster) == 0


def test_delete(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1, 2)
    client.publish(1, "q", b"one")
    client.send(2, methods.QueueDelete(0, "q", False, True, False))
    cluster.run(300)
    [event] = client.take()
    assert (event.method.reply_code, "not empty" in event.method.reply_text) == (406, True)
    [deleted] = answer(cluster, client, methods.QueueDelete(0, "q", False, False, False))
    assert (deleted.name, deleted.message_count) == ("queue.delete-ok", 1)
    assert all("q" not in driver.node.broker.vhosts["/"].queues for driver in cluster.nodes.values())


def test_an_exclusive_queue_elsewhere_takes_messages_and_nothing_else(cluster: NodeCluster) -> None:
    owner = cluster.nodes["n2"].client(1)
    own = methods.QueueDeclare(0, "own", False, False, True, False, False, Table({}))
    assert [method.name for method in answer(cluster, owner, own, consume("own", no_ack=True))] == [
        "queue.declare-ok",
        "basic.consume-ok",
    ]
    client = cluster.nodes["n1"].client(1)
    client.publish(1, "own", b"one")
    cluster.run(100)
    assert owner.names() == ["basic.deliver"]
    [closed] = answer(cluster, client, methods.QueuePurge(0, "own", False))
    assert closed.reply_code == 405


def test_publishers_wait_for_a_home_that_is_short(cluster: NodeCluster) -> None:
    client = confirming(cluster)
    client.publish(1, "q", b"one")
    cluster.run(100)
    home = cluster.nodes["n2"].node
    home.alarms.disk_full(True)
    cluster.run(200)
    client.publish(1, "q", b"two")
    cluster.run(100)
    assert client.connection.is_paused
    home.alarms.disk_full(False)
    cluster.run(200)
    assert not client.connection.is_paused


def test_what_was_held_returns_when_the_link_is_lost(cluster: NodeCluster) -> None:
    client = RemoteClient()
    link_world.consume(cluster.nodes["n1"].queue("q"), client)
    cluster.nodes["n3"].client(1).publish(1, "q", b"1 ")
    cluster.run(100)
    assert (client.names, ready(cluster)) == ([1], 0)
    cluster.cut("n1", "n2")
    cluster.run(100)
    assert (client.is_gone, ready(cluster)) == (True, 1)


# -- direct replies ----------------------------------------------------------------------------------------------------


def requester(cluster: NodeCluster) -> tuple[Client, str]:
    """A client of n1 that consumes replies, and its address."""
    client = cluster.nodes["n1"].client(1)
    assert [method.name for method in answer(cluster, client, consume("amq.rabbitmq.reply-to", no_ack=True))] == [
        "basic.consume-ok"
    ]
    [address] = cluster.nodes["n1"].node.broker.reply_consumers._by_address
    return client, address


def test_a_reply_goes_to_another_node(cluster: NodeCluster) -> None:
    client, address = requester(cluster)
    assert address.endswith(".n1")
    server = cluster.nodes["n3"].client(1)
    for number in range(20):
        server.publish(1, address, b"%d" % number)
    cluster.run(50)
    replies = client.take()
    assert [event.method.name for event in replies] == ["basic.deliver"] * 20
    assert [event.body for event in replies] == [b"%d" % number for number in range(20)]


def test_a_reply_to_nobody_is_dropped(cluster: NodeCluster) -> None:
    client, address = requester(cluster)
    client.send(1, methods.BasicCancel("tag", False))
    cluster.run(50)
    server = cluster.nodes["n3"].client(1)
    server.publish(1, address, b"late")
    server.publish(1, address[:-1] + "9", b"nowhere")
    cluster.run(50)
    assert client.names() == ["basic.cancel-ok"]
    cluster.isolate("n1")
    server.send_octets(_mandatory(address, b"no link"))
    cluster.run(50)
    assert server.names() == ["basic.return"]


def test_replies_that_a_link_does_not_carry_are_dropped(cluster: NodeCluster) -> None:
    client, address = requester(cluster)
    server = cluster.nodes["n3"].client(1)
    for number in range(40):
        server.publish(1, address, b"%d" % number + bytes(1024 * 1024))
    cluster.run(50)
    count = len(client.names())
    assert 16 <= count < 40
    server.publish(1, address, b"again")
    cluster.run(50)
    assert len(client.names()) == 1
