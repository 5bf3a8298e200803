"""Dead letters and delayed messages come once, whenever the node crashes, to one queue that is on this node."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets

KINDS: list[dict[str, Any]] = [{}, {"x_queue_type": "quorum"}]
NAMES = ["classic", "quorum"]


def later() -> methods.ExchangeDeclare:
    kind = Table({"x-delayed-type": "fanout"})
    return methods.ExchangeDeclare(0, "later", "x-delayed-message", False, True, False, False, False, kind)


def publish(client: Client, exchange: str, key: str, body: bytes, headers: dict[str, object]) -> None:
    section = encode_properties({"delivery_mode": 2, "headers": Table(headers)})
    octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    client.send_octets(octets + frame_octets(3, 1, body))


def step(driver: NodeDriver, steps: int) -> None:
    """So many turns, each with the sync that is wanted, or else with the passing of a millisecond."""
    for _ in range(steps):
        turn = driver.turn()
        job = driver.node.take_sync() if turn.wants_sync else None
        if job is not None:
            driver.synced(job)
        else:
            driver.now += 1
            driver.node.tick(driver.now)


@pytest.mark.parametrize("steps", range(24))
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_crash_at_any_time_of_a_release(kind: dict[str, Any], steps: int) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    binding = methods.QueueBind(0, "target", "later", "", False, Table({}))
    client.send(1, later(), declare("target", **kind), binding)
    driver.settle()
    for number in range(3):
        publish(client, "later", "", b"%d" % number, {"x-delay": 5})
    driver.settle()
    step(driver, steps)
    driver.crash()
    driver.wait(2000)
    driver.crash()
    driver.wait(2000)
    assert driver.queue("target").message_count() == 3


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_an_exchange_that_is_declared_again(kind: dict[str, Any]) -> None:
    """Its letters are others."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("target", **kind))
    for count in range(1, 4):
        binding = methods.QueueBind(0, "target", "later", "", False, Table({}))
        client.send(1, later(), binding)
        driver.settle()
        publish(client, "later", "", b"body", {"x-delay": 5})
        driver.wait(100)
        assert driver.queue("target").message_count() == count
        client.send(1, methods.ExchangeDelete(0, "later", False, False))
        driver.settle()
    assert "channel.close" not in client.names()


def test_what_comes_back_to_be_held_is_no_duplicate_of_itself() -> None:
    """A message with a producer's number was refused, held back as a dead letter, and refused again: it was taken for
    one that its producer had published twice, and was gone."""
    driver = NodeDriver()
    client = driver.client(1)
    binding = methods.QueueBind(0, "target", "later", "", False, Table({}))
    again: dict[str, Any] = {"x_queue_type": "quorum", "x_dead_letter_exchange": "later"}
    client.send(1, later(), declare("target", **again), binding, consume("target"))
    driver.settle()
    publish(client, "", "target", b"body", {"x-delay": 5, "x-producer-id": "p", "x-producer-sequence": 1})
    for _ in range(3):
        driver.wait(100)
        (delivery,) = [event.method for event in client.take() if event.method.name == "basic.deliver"]
        client.send(1, methods.BasicReject(delivery.delivery_tag, False))


def test_nobody_publishes_under_the_name_of_a_queue() -> None:
    """It would be taken for a dead letter, and dead letters for duplicates of it."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("source", x_queue_type="quorum", x_dead_letter_exchange="", x_dead_letter_routing_key="q"))
    client.send(1, declare("q", x_queue_type="quorum"), consume("source"))
    driver.settle()
    name = "\0letters of " + driver.queue("source").queue_id.to_bytes(8, "big").decode()
    for _ in range(2):
        publish(client, "", "q", b"body", {"x-producer-id": name, "x-producer-sequence": 1 << 40})
    publish(client, "", "source", b"body", {})
    driver.settle()
    (delivery,) = [event.method for event in client.take() if event.method.name == "basic.deliver"]
    client.send(1, methods.BasicReject(delivery.delivery_tag, False))
    driver.wait(100)
    assert driver.queue("q").message_count() == 3
