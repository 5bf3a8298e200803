"""Clients of n1 consume from a classic queue of n2: what they see is what they would see on n2."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, consume, declare, frame_octets

CANCEL_NOTIFY = ("consumer_cancel_notify",)


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster()
    made.run_until_ready()
    queue = declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    answer(made, made.nodes["n2"].client(1), declare("dead"), queue)
    return made


def answer(cluster: NodeCluster, client: Client, *said: Any) -> list[Any]:
    """What a client is answered, as methods."""
    if said:
        client.send(1, *said)
    cluster.run(150)
    return [event.method for event in client.take()]


def names(found: list[Any]) -> list[str]:
    return [method.name for method in found]


def publish(cluster: NodeCluster, *bodies: bytes, queue: str = "q", node: str = "n3") -> None:
    client = cluster.nodes[node].client(1)
    for body in bodies:
        client.publish(1, queue, body)
    cluster.run(100)


def counts(cluster: NodeCluster, name: str = "q") -> tuple[int, int]:
    """(ready, unacknowledged)"""
    queue = cluster.nodes["n2"].queue(name)
    return queue.message_count(), queue.unacked_count()


def bodies(client: Client) -> list[bytes]:
    """The bodies of what was delivered; the rest is forgotten."""
    return [event.body for event in client.take() if event.method.name == "basic.deliver"]


def test_deliver_and_acknowledge(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two", b"three")
    client = cluster.nodes["n1"].client(1)
    found = answer(cluster, client, methods.BasicQos(0, 2, False), consume("q"))
    assert names(found) == ["basic.qos-ok", "basic.consume-ok", "basic.deliver", "basic.deliver"]
    assert [(method.delivery_tag, method.redelivered) for method in found[2:]] == [(1, False), (2, False)]
    client.send(1, methods.BasicAck(2, True))
    cluster.run(100)
    assert bodies(client) == [b"three"]
    assert counts(cluster) == (0, 1)


def test_several_consumers_of_several_nodes_share(cluster: NodeCluster) -> None:
    clients = [driver.client(1) for driver in cluster.nodes.values()]
    for client in clients:
        answer(cluster, client, consume("q", no_ack=True))
    publish(cluster, *[b"%d" % number for number in range(30)])
    found = [bodies(client) for client in clients]
    assert [len(each) for each in found] == [10, 10, 10]
    assert all(each == sorted(each, key=int) for each in found)
    assert counts(cluster) == (0, 0)


def test_nothing_is_lost_between_a_publisher_and_a_consumer_without_acknowledgements(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q", no_ack=True))
    publish(cluster, *[b"%d" % number for number in range(5000)], node="n1")
    cluster.run(300)
    assert bodies(client) == [b"%d" % number for number in range(5000)]


def test_requeue_and_reject(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q"))
    found = answer(cluster, client, methods.BasicNack(2, True, True))
    assert [(method.delivery_tag, method.redelivered) for method in found] == [(3, True), (4, True)]
    answer(cluster, client, methods.BasicReject(3, False), methods.BasicReject(4, False))
    assert (counts(cluster), counts(cluster, "dead")) == ((0, 0), (2, 0))


def test_recover(cluster: NodeCluster) -> None:
    publish(cluster, b"one")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q"))
    found = answer(cluster, client, methods.BasicRecover(True))
    assert sorted(names(found)) == ["basic.deliver", "basic.recover-ok"]


def test_get(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two", b"three")
    client = cluster.nodes["n1"].client(1)
    found = answer(cluster, client, methods.BasicGet(0, "q", False), methods.BasicGet(0, "q", True))
    assert [(method.name, method.delivery_tag, method.message_count) for method in found] == [
        ("basic.get-ok", 1, 2),
        ("basic.get-ok", 2, 1),
    ]
    assert counts(cluster) == (1, 1)
    found = answer(cluster, client, methods.BasicNack(1, False, True), methods.BasicGet(0, "q", False))
    assert (found[0].delivery_tag, found[0].redelivered, found[0].message_count) == (3, True, 1)
    answer(cluster, client, methods.BasicAck(3, False), methods.BasicGet(0, "q", True))
    assert names(answer(cluster, client, methods.BasicGet(0, "q", True))) == ["basic.get-empty"]
    assert counts(cluster) == (0, 0)


def test_a_channel_that_closes_gives_back(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q"), methods.BasicGet(0, "q", False))
    assert counts(cluster) == (0, 2)
    assert names(answer(cluster, client, methods.ChannelClose(200, "", 0, 0))) == ["channel.close-ok"]
    assert counts(cluster) == (2, 0)


def test_a_client_that_is_lost_gives_back(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q"))
    cluster.nodes["n1"].node.connection_lost(client.connection, cluster.now)
    cluster.run(100)
    assert counts(cluster) == (2, 0)


def test_cancel(cluster: NodeCluster) -> None:
    publish(cluster, b"one")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("q"))
    assert names(answer(cluster, client, methods.BasicCancel("tag", False))) == ["basic.cancel-ok"]
    publish(cluster, b"two")
    assert counts(cluster) == (1, 1)
    answer(cluster, client, methods.BasicAck(1, False))
    assert counts(cluster) == (1, 0)


def test_an_auto_delete_queue_goes_with_its_last_consumer(cluster: NodeCluster) -> None:
    home = cluster.nodes["n2"].client(1)
    answer(cluster, home, methods.QueueDeclare(0, "auto", False, False, False, True, False, Table({})))
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("auto"))
    answer(cluster, client, methods.BasicCancel("tag", False))
    cluster.run(200)
    assert all("auto" not in driver.node.broker.vhosts["/"].queues for driver in cluster.nodes.values())


def test_an_exclusive_consumer(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1)
    exclusive = methods.BasicConsume(0, "q", "mine", False, False, True, False, Table({}))
    assert names(answer(cluster, client, exclusive)) == ["basic.consume-ok"]
    for node in cluster.nodes.values():
        other = node.client(1)
        [closed] = answer(cluster, other, consume("q"))
        assert closed.reply_code == 403
        assert closed.reply_text == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"


def test_a_shared_prefetch(cluster: NodeCluster) -> None:
    publish(cluster, *[b"%d" % number for number in range(6)])
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, methods.BasicQos(0, 3, True))
    found = names(answer(cluster, client, consume("q", "a"), consume("q", "b")))
    assert found.count("basic.deliver") == 3
    client.send(1, methods.BasicAck(0, True))
    cluster.run(200)
    assert len(bodies(client)) == 3
    answer(cluster, client, methods.BasicAck(0, True))
    assert counts(cluster) == (0, 0)


def test_a_transaction(cluster: NodeCluster) -> None:
    publish(cluster, b"one")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, methods.TxSelect(), consume("q"))
    client.publish(1, "dead", b"in a transaction")
    client.send(1, methods.BasicAck(1, False))
    cluster.run(100)
    assert (counts(cluster), counts(cluster, "dead")) == ((0, 1), (0, 0))
    assert names(answer(cluster, client, methods.TxCommit())) == ["tx.commit-ok"]
    assert (counts(cluster), counts(cluster, "dead")) == ((0, 0), (1, 0))


def test_the_queue_is_deleted(cluster: NodeCluster) -> None:
    client = cluster.nodes["n1"].client(1, capabilities=CANCEL_NOTIFY)
    answer(cluster, client, consume("q"))
    answer(cluster, cluster.nodes["n3"].client(1), methods.QueueDelete(0, "q", False, False, False))
    [cancelled] = answer(cluster, client)
    assert (cancelled.name, cancelled.consumer_tag) == ("basic.cancel", "tag")


def test_the_home_is_lost_and_comes_back(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two")
    client = cluster.nodes["n1"].client(1, capabilities=CANCEL_NOTIFY)
    answer(cluster, client, consume("q"))
    driver = cluster.kill("n2")
    cluster.run(500)
    assert names(answer(cluster, client)) == ["basic.cancel"]
    assert answer(cluster, client, methods.BasicAck(1, False)) == []
    for said in (consume("q", "again"), methods.BasicGet(0, "q", False)):
        [closed] = answer(cluster, cluster.nodes["n1"].client(1), said)
        assert closed.reply_text == (
            "NOT_FOUND - home node 'n2' of durable queue 'q' in vhost '/' is down or inaccessible"
        )
    cluster.revive("n2", driver)
    cluster.run(20)
    assert not driver.node.is_ready
    early = cluster.nodes["n3"].client(1)
    early.publish(1, "q", b"early")
    cluster.run(3000)
    assert counts(cluster) == (3, 0)
    assert names(answer(cluster, early, methods.BasicGet(0, "q", True))) == ["basic.get-ok"]
    answer(cluster, client, methods.BasicAck(2, False))
    found = answer(cluster, client, consume("q", "again"))
    assert names(found) == ["basic.consume-ok", "basic.deliver", "basic.deliver"]


def test_the_link_is_lost_and_comes_back(cluster: NodeCluster) -> None:
    publish(cluster, b"one", b"two")
    client = cluster.nodes["n1"].client(1, capabilities=CANCEL_NOTIFY)
    answer(cluster, client, consume("q"))
    cluster.cut("n1", "n2")
    cluster.run(100)
    assert counts(cluster) == (2, 0)
    cluster.heal()
    cluster.run(100)
    assert names(answer(cluster, client, methods.BasicAck(1, False))) == ["basic.cancel"]
    found = answer(cluster, client, consume("q", "again"))
    assert [getattr(method, "redelivered", None) for method in found] == [None, True, True]
    answer(cluster, client, methods.BasicAck(4, True))
    assert counts(cluster) == (0, 0)


def test_what_waits_for_an_answer_when_the_client_is_lost_returns(cluster: NodeCluster) -> None:
    publish(cluster, b"one")
    client = cluster.nodes["n1"].client(1)
    client.send(1, methods.BasicGet(0, "q", False))
    cluster.step()
    cluster.nodes["n1"].node.connection_lost(client.connection, cluster.now)
    cluster.run(100)
    assert counts(cluster) == (1, 0)


def test_a_client_that_does_not_read_makes_no_other_wait(cluster: NodeCluster) -> None:
    slow = cluster.nodes["n1"].client(1)
    answer(cluster, slow, consume("q", no_ack=True))
    cluster.nodes["n1"].node.unwritable(slow.connection)
    fast = cluster.nodes["n1"].client(1)
    answer(cluster, fast, consume("dead", no_ack=True))
    publish(cluster, *[bytes(50_000)] * 60)
    publish(cluster, *[b"%d" % number for number in range(60)], queue="dead")
    cluster.run(200)
    assert len(bodies(fast)) == 60
    ready, unacked = counts(cluster)
    assert (ready + unacked, unacked < 25) == (60, True)
    for _ in range(60):
        cluster.nodes["n1"].node.writable(slow.connection, cluster.now)
        cluster.run(50)
    assert len(bodies(slow)) == 60
    assert counts(cluster) == (0, 0)


def test_dead_letters_go_to_queues_of_other_nodes(cluster: NodeCluster) -> None:
    answer(cluster, cluster.nodes["n3"].client(1), declare("far"))
    source = declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="far")
    answer(cluster, cluster.nodes["n2"].client(1), source)
    publish(cluster, b"one", queue="source", node="n1")
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, consume("source"))
    answer(cluster, client, methods.BasicReject(1, False))
    reader = cluster.nodes["n1"].client(1)
    assert names(answer(cluster, reader, methods.BasicGet(0, "far", True))) == ["basic.get-ok"]


def test_one_message_for_queues_of_all_nodes_has_one_confirm(cluster: NodeCluster) -> None:
    for name, driver in cluster.nodes.items():
        bind = methods.QueueBind(0, f"of {name}", "amq.fanout", "", False, Table({}))
        both = methods.QueueBind(0, f"also {name}", "amq.fanout", "", False, Table({}))
        answer(cluster, driver.client(1), declare(f"of {name}"), bind, declare(f"also {name}"), both)
    client = cluster.nodes["n1"].client(1)
    answer(cluster, client, methods.ConfirmSelect(False))
    client.send_octets(to_fanout(b"one"))
    assert [(method.name, method.delivery_tag) for method in answer(cluster, client)] == [("basic.ack", 1)]
    for name, driver in cluster.nodes.items():
        assert [driver.queue(f"{word} {name}").message_count() for word in ("of", "also")] == [1, 1]
    cluster.kill("n2")
    cluster.run(200)
    client.send_octets(to_fanout(b"two"))
    assert [(method.name, method.delivery_tag) for method in answer(cluster, client)] == [("basic.nack", 2)]
    assert cluster.nodes["n3"].queue("of n3").message_count() == 2


def to_fanout(body: bytes) -> bytes:
    """A persistent message for the exchange amq.fanout."""
    section = encode_properties({"delivery_mode": 2})
    octets = encode_method_frame(1, methods.BasicPublish(0, "amq.fanout", "", False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    return octets + frame_octets(3, 1, body)
