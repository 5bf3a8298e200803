"""A message that is dropped because it came back too often is said and counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amqp_broker.management.statistics import count_node
from amqp_broker.protocol import methods
from amqp_broker.turn.task import Task
from tests.node.node_driver import Client, NodeDriver, declare, publish_octets

KINDS: list[dict[str, Any]] = [{"x_queue_type": "quorum"}, {"x_delivery_limit": 20}]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "delivery limit" in record.getMessage()]


def _statistics(driver: NodeDriver) -> Any:
    task = Task(driver.node.background, count_node(driver.node.system.counts))
    driver.settle()
    return task.result


def wear_out(driver: NodeDriver, client: Client, queue: str, returns: int) -> None:
    """Every message of a queue is fetched and given back so many times."""
    for _ in range(returns):
        count = driver.queue(queue).message_count()
        client.send(1, *[methods.BasicGet(0, queue, False)] * count)
        driver.settle()
        tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.get-ok"]
        client.send(1, methods.BasicNack(tags[-1], True, True))
        driver.settle()


@pytest.mark.parametrize("kind", KINDS, ids=["quorum", "classic"])
def test_what_is_above_the_limit_is_said_and_counted(kind: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The first at once, what follows in ten seconds together, and then there is silence."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("poisoned", **kind))
    driver.settle()
    with caplog.at_level(logging.WARNING, "amqp_broker"):
        for batch in (1, 3):
            client.send_octets(publish_octets(1, "poisoned", b"bad") * batch)
            driver.settle()
            wear_out(driver, client, "poisoned", 20)
            assert driver.queue("poisoned").message_count() == batch
            wear_out(driver, client, "poisoned", 1)
            assert driver.queue("poisoned").message_count() == 0
            assert len(lines(caplog)) == 1
        assert "queue 'poisoned' in vhost '/' dropped 1 message " in lines(caplog)[0]
        driver.wait(10_000)
        assert "queue 'poisoned' in vhost '/' dropped 3 messages " in lines(caplog)[1]
        driver.wait(60_000)
    assert len(lines(caplog)) == 2
    assert _statistics(driver)["delivery_limit_dropped"] == 4


@pytest.mark.parametrize("kind", KINDS, ids=["quorum", "classic"])
def test_a_dead_letter_is_not_dropped(kind: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("poisoned", x_dead_letter_exchange="", x_dead_letter_routing_key="kept", **kind))
    client.send(1, declare("kept"))
    driver.settle()
    client.send_octets(publish_octets(1, "poisoned", b"bad"))
    driver.settle()
    with caplog.at_level(logging.WARNING, "amqp_broker"):
        wear_out(driver, client, "poisoned", 21)
        driver.wait(10_000)
    assert driver.queue("kept").message_count() == 1
    assert not lines(caplog)
    assert _statistics(driver)["delivery_limit_dropped"] == 0


def test_many_queues_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Those beyond a thousand are said in one line."""
    driver = NodeDriver()
    discards = driver.node.broker.discards
    with caplog.at_level(logging.WARNING, "amqp_broker"):
        for number in range(1010):
            discards.note("/", f"q{number}", 2, driver.now)
        driver.wait(10_000)
    assert len(lines(caplog)) == 1000 + 2
    assert lines(caplog)[-1].startswith("further queues dropped 18 messages ")
    assert discards.total == 2020
    driver.wait(10_000)
    assert len(lines(caplog)) == 1002
