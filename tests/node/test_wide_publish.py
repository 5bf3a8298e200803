"""A message for very many queues goes to them in slices: a turn does no more for many than for few, and what is
published behind it is behind it in each queue."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.channel.wide_publish import AT_ONCE
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from exchanges.bindings import QUEUE, Destination
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets, handshake_octets, small_config
from tests.node.one_slice import OneSlice

COUNT = 3 * AT_ONCE + 1


@pytest.fixture
def driver() -> NodeDriver:
    return world({})


def world(arguments: dict[str, object], count: int = COUNT) -> NodeDriver:
    """So many queues that end with the node, bound to `amq.fanout` and, by their names, to `amq.headers`; and a durable
    one, which is the last."""
    made = NodeDriver(small_config(max_turn_copies=10**9))
    broker = made.node.broker
    vhost = broker.vhosts["/"]
    for n in range(count - 1):
        declaration = QueueDeclaration(f"q{n}", False, False, None, Table(arguments), "/", "classic")
        broker.add_queue(vhost, declaration)
        vhost.router.bind("amq.fanout", Destination(QUEUE, f"q{n}"), "", {})
    broker.propose(commands.declare_queue("/", "last", broker.metadata.next_queue_id))
    made.settle()
    vhost.router.bind("amq.fanout", Destination(QUEUE, "last"), "", {})
    made.node.background.set_pace(OneSlice())
    return made


def octets(exchange: str = "amq.fanout", body: bytes = b"x", **properties: Any) -> bytes:
    section = encode_properties({"delivery_mode": 2, **properties})
    head = encode_method_frame(1, methods.BasicPublish(0, exchange, "q0", False, False))
    head += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    return head + frame_octets(3, 1, body)


def copies(driver: NodeDriver) -> int:
    return sum(queue.message_count() for queue in driver.node.broker.vhosts["/"].queues.all_made())


def step(driver: NodeDriver) -> bool:
    """A turn, and a sync if one is wanted. Returns whether one was."""
    if driver.turn().wants_sync and (job := driver.node.take_sync()) is not None:
        driver.synced(job)
        return True
    return False


def confirming(driver: NodeDriver) -> Client:
    client = driver.client(1)
    client.send(1, methods.ConfirmSelect(False))
    driver.turn()
    client.take()
    return client


@pytest.mark.parametrize(
    "properties", [{}, {"headers": {"CC": ["q1"]}}], ids=["the short way", "the long way"]
)
def test_so_many_get_it_in_a_turn(driver: NodeDriver, properties: dict[str, Any]) -> None:
    client = confirming(driver)
    client.send_octets(octets(**properties))
    before = 0
    while before < COUNT:
        driver.turn()
        now = copies(driver)
        assert before < now <= before + AT_ONCE
        before = now
    assert client.names() == []
    driver.settle()
    assert client.names() == ["basic.ack"]
    assert not client.connection.is_paused


def test_many_copies_by_their_keys(driver: NodeDriver) -> None:
    client = driver.raw_client()
    client.send_octets(handshake_octets(frame_max=131_072) + encode_method_frame(1, methods.ChannelOpen()))
    client.send(1, methods.ConfirmSelect(False))
    driver.turn()
    client.take()
    client.send_octets(octets("", headers={"BCC": [f"q{n}" for n in range(2 * AT_ONCE)]}))
    driver.turn()
    assert copies(driver) == AT_ONCE
    driver.turn()
    driver.turn()
    assert copies(driver) == 2 * AT_ONCE
    assert client.names() == ["basic.ack"]


def test_a_commit_hears_of_one_that_refuses() -> None:
    """Of a message for very many queues; what they said was lost."""
    driver = world({"x-max-length": 0, "x-overflow": "reject-publish"})
    client = driver.client(1)
    client.send(1, methods.TxSelect())
    client.send_octets(octets())
    client.send(1, methods.TxCommit())
    while driver.node.background.jobs:
        driver.turn()
    driver.settle()
    close = client.take()[-1].method
    assert (close.name, close.reply_code) == ("channel.close", 406)
    assert copies(driver) == 1


def test_it_is_confirmed_when_the_disk_has_the_last_part(driver: NodeDriver) -> None:
    """Syncs of earlier turns do not cover it."""
    client = confirming(driver)
    client.send_octets(octets())
    while copies(driver) < COUNT:
        assert client.names() == []
        step(driver)
    assert driver.queue("last").message_count() == 1
    driver.turn()
    assert client.names() == []
    step(driver)
    assert client.names() == ["basic.ack"]
    driver.crash()
    assert driver.queue("last").message_count() == 1


def test_what_comes_behind_it_is_behind_it(driver: NodeDriver) -> None:
    client, other = confirming(driver), driver.client(1)
    client.send_octets(octets(body=b"1") + octets("", body=b"2") + octets(body=b"3"))
    driver.turn()
    other.send_octets(octets("", body=b"other"))
    for _ in range(20):
        step(driver)
    first = [entry.message.content[-2:-1] for entry in popped(driver, "q0")]
    assert first == [b"1", b"r", b"2", b"3"]
    assert [entry.message.content[-2:-1] for entry in popped(driver, "last")] == [b"1", b"3"]
    assert [event.method.delivery_tag for event in client.take()][-1] == 3


def popped(driver: NodeDriver, name: str) -> list[Any]:
    queue, found = driver.queue(name), []
    while (entry := queue.ready.pop()) is not None:
        found.append(entry)
    return found


def test_one_that_refuses_it_is_enough_for_a_nack() -> None:
    driver = world({"x-max-length": 1, "x-overflow": "reject-publish"})
    client = confirming(driver)
    for _ in range(2):
        client.send_octets(octets())
        while client.connection.is_parked:
            step(driver)
        step(driver)
    step(driver)
    assert client.names() == ["basic.ack", "basic.nack"]
    assert driver.queue("last").message_count() == 2
    assert copies(driver) == COUNT + 1


def test_a_client_that_goes_meanwhile_does_no_harm(driver: NodeDriver) -> None:
    client = confirming(driver)
    client.send_octets(octets())
    driver.turn()
    driver.lose(client)
    while driver.node.background.jobs:
        step(driver)
    assert copies(driver) == COUNT


def test_a_queue_that_goes_meanwhile_gets_nothing(driver: NodeDriver) -> None:
    client, other = confirming(driver), driver.client(1)
    client.send_octets(octets())
    driver.turn()
    other.send(1, methods.QueueDelete(0, "last", False, False, False), declare("last"))
    while driver.node.background.jobs:
        step(driver)
    step(driver)
    assert copies(driver) == COUNT - 1
    assert driver.queue("last").message_count() == 0
    assert client.names() == ["basic.ack"]


def test_its_virtual_host_goes_meanwhile(driver: NodeDriver) -> None:
    client = confirming(driver)
    client.send_octets(octets())
    driver.turn()
    driver.node.broker.propose(commands.delete_vhost("/"))
    while driver.node.background.jobs or driver.node.broker.vhosts:
        step(driver)
    assert client.names() == ["connection.close"]
    assert driver.node.store.pager.used == 0
    assert driver.node.broker.queue_count == 0


def test_a_transaction_publishes_it_in_slices_too(driver: NodeDriver) -> None:
    client = driver.client(1)
    client.send(1, methods.TxSelect())
    client.send_octets(octets(body=b"1") + octets("", body=b"2") + encode_method_frame(1, methods.TxCommit()))
    client.take()
    before = 0
    while before < COUNT + 1:
        step(driver)
        now = copies(driver)
        assert before <= now <= before + AT_ONCE + 1
        before = now
    for _ in range(3):
        step(driver)
    assert client.names()[-1] == "tx.commit-ok"
    assert [entry.message.content[-2:-1] for entry in popped(driver, "q0")] == [b"1", b"2"]
