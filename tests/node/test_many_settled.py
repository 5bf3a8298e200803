"""Very many deliveries that are settled at a time: in slices, and as if all of it had happened at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp_broker.channel.settlement import FEW
from amqp_broker.protocol import methods
from tests.node.node_driver import Client, NodeDriver, consume, declare, publish_octets, small_config
from tests.node.one_slice import OneSlice

pytestmark = pytest.mark.once

MANY = FEW + 1500


def held(count: int = MANY, **arguments: object) -> tuple[NodeDriver, Client]:
    """A client holds everything that is in the queue `q`; one slice of work a turn from now on."""
    driver = NodeDriver(small_config(output_limit_bytes=1 << 30))
    client = driver.client(1)
    client.send(1, declare("q", durable=False, **arguments), consume("q"))
    driver.settle()
    client.send_octets(b"".join(publish_octets(1, "q", b"%d" % n, persistent=False) for n in range(count)))
    driver.settle()
    assert driver.queue("q").unacked_count() == count
    client.take()
    driver.node.background.set_pace(OneSlice())
    return driver, client


def finish(driver: NodeDriver) -> None:
    while driver.node.background.jobs:
        driver.turn()
    driver.turn()


def bodies(client: Client) -> list[int]:
    return [int(event.body) for event in client.take() if event.method.name == "basic.deliver"]


def ack(client: Client) -> None:
    client.send(1, methods.BasicAck(0, True))


def refuse(client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, False))


def requeue(client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, True))


def recover(client: Client) -> None:
    client.send(1, methods.BasicRecoverAsync(True))


def close(client: Client) -> None:
    client.send(1, methods.ChannelClose(200, "", 0, 0))


@pytest.mark.parametrize("settle", [ack, refuse])
def test_what_was_settled_is_settled_though_the_client_be_lost(settle: Callable[[Client], None]) -> None:
    driver, client = held()
    settle(client)
    driver.turn()
    assert 0 < driver.queue("q").unacked_count() < MANY
    driver.lose(client)
    finish(driver)
    queue = driver.queue("q")
    assert (queue.unacked_count(), queue.message_count(), driver.node.store.pager.used) == (0, 0, 0)


def test_a_tag_in_the_middle_leaves_what_is_behind_it() -> None:
    driver, client = held()
    client.send(1, methods.BasicAck(5, False), methods.BasicAck(FEW + 10, True), methods.BasicAck(FEW + 11, False))
    finish(driver)
    assert driver.queue("q").unacked_count() == MANY - FEW - 11
    requeue(client)
    finish(driver)
    assert bodies(client) == list(range(FEW + 11, MANY))
    client.send(1, methods.BasicAck(FEW + 10, True))
    assert client.connection.channels[1].is_closing


@pytest.mark.parametrize("give_back", [requeue, recover, close])
def test_what_comes_back_stands_where_it_stood(give_back: Callable[[Client], None]) -> None:
    """Nobody gets what is published meanwhile before all of it is back, in order."""
    driver, client = held()
    client.send(1, methods.BasicCancel("tag", True))
    other = driver.client(1)
    other.send(1, consume("q"))
    driver.turn()
    other.take()
    give_back(client)
    while not driver.queue("q").message_count():
        driver.turn()
    assert 0 < driver.queue("q").message_count() < MANY
    other.publish(1, "q", b"%d" % MANY, persistent=False)
    driver.node.writable(other.connection, driver.now)
    driver.turn()
    assert bodies(other) == []
    finish(driver)
    assert bodies(other) == list(range(MANY + 1))


def test_what_a_lost_connection_held_stands_where_it_stood() -> None:
    driver, client = held()
    other = driver.client(1)
    other.send(1, consume("q"))
    driver.turn()
    other.take()
    driver.lose(client)
    finish(driver)
    assert bodies(other) == list(range(MANY))
    assert driver.queue("q").unacked_count() == MANY


def test_who_asked_for_it_is_answered_when_all_is_done() -> None:
    driver, client = held()
    client.send(1, methods.BasicCancel("tag", True), methods.BasicRecover(True), declare("q", durable=False))
    driver.turn()
    assert client.connection.is_paused
    assert client.names() == []
    finish(driver)
    recovered, declared = client.take()
    assert recovered.method.name == "basic.recover-ok"
    assert declared.method.message_count == MANY
    assert not client.connection.is_paused


def test_a_channel_is_closed_when_all_is_back() -> None:
    driver, client = held()
    close(client)
    driver.turn()
    assert client.names() == []
    finish(driver)
    assert client.names() == ["channel.close-ok"]
    assert driver.queue("q").message_count() == MANY


def test_a_queue_that_goes_meanwhile_takes_all_of_it_along() -> None:
    driver, client = held()
    client.send(1, methods.BasicCancel("tag", True))
    requeue(client)
    while not driver.queue("q").message_count():
        driver.turn()
    other = driver.client(1)
    other.send(1, methods.QueueDelete(0, "q", False, False, False))
    finish(driver)
    assert other.names() == ["queue.delete-ok"]
    assert driver.node.store.pager.used == 0


def test_a_get_waits_for_what_comes_back_and_has_expired() -> None:
    """While messages come back nothing is given up, and what stands behind the expired ones is not passed over."""
    driver, client = held(x_message_ttl=1000)
    client.send(1, methods.BasicCancel("tag", True))
    driver.now += 2000
    driver.node.tick(driver.now)
    requeue(client)
    while not driver.queue("q").message_count():
        driver.turn()
    other = driver.client(1)
    other.publish(1, "q", b"7", persistent=False)
    other.send(1, methods.BasicGet(0, "q", True))
    driver.turn()
    assert other.names() == []
    finish(driver)
    assert [event.body for event in other.take()] == [b"7"]
