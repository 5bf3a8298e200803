"""A single active consumer of a quorum queue gives way to one of a higher priority, when all members know that."""

from __future__ import annotations

import pytest

from amqp_broker.links import levels
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import Client, NodeDriver, consume, declare


def prioritised(tag: str, priority: int) -> methods.BasicConsume:
    return methods.BasicConsume(0, "q", tag, False, False, False, False, Table({"x-priority": priority}))


def two_consumers(driver: NodeDriver) -> Client:
    client = driver.client(1)
    client.send(1, declare("q", x_queue_type="quorum", x_single_active_consumer=True), consume("q", "low"))
    driver.settle()
    client.send(1, prioritised("high", 5))
    driver.settle()
    client.take()
    return client


def takers(driver: NodeDriver, client: Client) -> list[str]:
    driver.settle()
    found = [event.method for event in client.take()]
    return [each.consumer_tag for each in found if each.name == "basic.deliver"]


def test_the_higher_one_takes_over() -> None:
    driver = NodeDriver()
    client = two_consumers(driver)
    client.publish(1, "q", b"one")
    assert takers(driver, client) == ["high"]


def test_while_a_member_does_not_know_it_whoever_came_first_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log and its image are those of the version before, which goes back on the same folder."""
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver = NodeDriver()
    client = two_consumers(driver)
    client.publish(1, "q", b"one")
    assert takers(driver, client) == ["low"]
    assert driver.queue("q").wanted.gives_way is False
    driver.node.broker.propose(commands.raise_level(2))
    driver.settle()
    assert driver.queue("q").wanted.gives_way is True
    client.publish(1, "q", b"two")
    assert takers(driver, client) == [], "it holds the first one still"
    client.send(1, methods.BasicAck(1, False))
    driver.wait(100)
    assert takers(driver, client) == ["high"]
