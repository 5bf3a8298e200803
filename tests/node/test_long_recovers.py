"""basic.recover of very many deliveries within a transaction: what that has settled stays, the rest comes back in
slices."""

from __future__ import annotations

from itertools import pairwise

from amqp_broker.channel.settlement import FEW
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import Client, NodeDriver, consume, publish_octets, small_config
from tests.node.one_slice import OneSlice

HELD = FEW + 500
SETTLED = 300
#: So many come back between two turns at most.
AT_ONCE = 256


def holder() -> tuple[NodeDriver, Client]:
    """A client that holds all that is in the queue `q`, and has acknowledged the first of it in a transaction that goes
    on; one slice of work a turn from now on."""
    driver = NodeDriver(small_config(output_limit_bytes=1 << 30, background_time_ms=1000))
    client = driver.client(1)
    client.send(1, methods.QueueDeclare(0, "q", False, False, False, False, False, Table({})))
    driver.settle()
    for start in range(0, HELD, 100):
        octets = [publish_octets(1, "q", b"%d" % n, persistent=False) for n in range(start, start + 100)]
        client.send_octets(b"".join(octets))
        driver.settle()
    client.send(1, methods.BasicQos(0, HELD, False), methods.TxSelect(), consume("q"))
    driver.settle()
    assert client.connection.channels[1].held_count() == HELD
    client.take()
    client.send(1, methods.BasicAck(SETTLED, True))
    driver.settle()
    driver.node.background.set_pace(OneSlice())
    return driver, client


def finish(driver: NodeDriver) -> None:
    """Until there is no work left."""
    while driver.node.background.jobs:
        driver.settle()
    driver.settle()


def test_what_the_transaction_has_not_settled_comes_again_in_order() -> None:
    driver, client = holder()
    client.send(1, methods.BasicRecover(True))
    driver.turn()
    assert driver.node.background.jobs
    assert client.take() == []
    finish(driver)
    events = client.take()
    assert [int(event.body) for event in events if event.method.name == "basic.deliver"] == list(range(SETTLED, HELD))
    assert [event.method.name for event in events].count("basic.recover-ok") == 1
    client.send(1, methods.TxCommit())
    finish(driver)
    assert client.names() == ["tx.commit-ok"]
    client.send(1, methods.BasicAck(0, True), methods.TxCommit())
    finish(driver)
    assert driver.queue("q").message_count() + driver.queue("q").unacked_count() == 0
    assert driver.node.store.pager.used == 0


def test_it_comes_back_in_slices() -> None:
    driver, client = holder()
    channel = client.connection.channels[1]
    client.send(1, methods.BasicRecover(True))
    left = [HELD]
    while driver.node.background.jobs and left[-1] > SETTLED:
        driver.turn()
        left.append(sum(entry is not None for entry in channel.unacked))
    assert max(before - after for before, after in pairwise(left)) <= AT_ONCE
    assert left[-1] == SETTLED


def test_all_of_it_is_there_when_the_connection_is_lost_meanwhile() -> None:
    driver, client = holder()
    client.send(1, methods.BasicRecover(True))
    for _ in range(3):
        driver.turn()
    driver.lose(client)
    finish(driver)
    other = driver.client(1)
    other.send(1, consume("q", no_ack=True))
    finish(driver)
    assert [int(event.body) for event in other.take() if event.method.name == "basic.deliver"] == list(range(HELD))
