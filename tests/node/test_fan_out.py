"""Messages for very many queues: whoever publishes them does not hold up the others, nor loses any."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets, small_config

QUEUES = 50
MESSAGES = 40


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver(small_config(max_turn_copies=4 * QUEUES))


@pytest.fixture
def publisher(driver: NodeDriver) -> Client:
    client = driver.client(1)
    client.send(1, methods.ExchangeDeclare(0, "wide", "fanout", False, False, False, False, False, Table({})))
    driver.settle()
    for number in range(QUEUES):
        client.send(1, declare(f"q{number}", durable=False))
        driver.settle()
        client.send(1, methods.QueueBind(0, f"q{number}", "wide", "", False, Table({})))
        driver.settle()
    client.take()
    return client


def publish(client: Client, count: int) -> None:
    method = encode_method_frame(1, methods.BasicPublish(0, "wide", "", False, False))
    header = frame_octets(2, 1, b"\x00\x3c\x00\x00" + (1).to_bytes(8, "big") + b"\x00\x00")
    client.send_octets((method + header + frame_octets(3, 1, b"x")) * count)


def counts(driver: NodeDriver) -> set[int]:
    return {driver.queue(f"q{number}").message_count() for number in range(QUEUES)}


def test_what_one_read_holds_takes_several_turns(driver: NodeDriver, publisher: Client) -> None:
    publish(publisher, MESSAGES)
    assert counts(driver) == {4}
    driver.turn()
    assert publisher.connection.is_paused  # so that what it has still to say stays outside
    other = driver.client(1)
    other.send(1, methods.QueueDeclare(0, "q0", True, False, False, False, False, Table({})))
    driver.turn()
    assert other.names()[-1] == "queue.declare-ok"
    driver.wait(1)
    assert counts(driver) == {4 + 4}
    driver.wait(MESSAGES)
    assert counts(driver) == {MESSAGES}
    assert not publisher.connection.is_paused


def test_who_goes_meanwhile_does_no_harm(driver: NodeDriver, publisher: Client) -> None:
    publish(publisher, MESSAGES)
    driver.lose(publisher)
    driver.wait(MESSAGES)
    assert counts(driver) == {4}


def test_a_commit_is_answered_before_anything_else_is_handled(driver: NodeDriver, publisher: Client) -> None:
    """It may be parked for its answer: nobody else is to let it go on."""
    publisher.send(1, methods.TxSelect())
    publish(publisher, MESSAGES)
    publisher.send(1, methods.TxCommit())
    assert driver.node.fan_out.copies == 0
    driver.settle()
    assert publisher.names()[-1] == "tx.commit-ok"
    assert counts(driver) == {MESSAGES}
