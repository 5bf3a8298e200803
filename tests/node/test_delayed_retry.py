"""Delayed retry on one node, its time in the test's hand: what clients see of what rests before it comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker.links import levels
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from tests.node.node_driver import Client, NodeDriver, consume, declare

REST_MS = 1_000


def a_queue(driver: NodeDriver, kind: str = "all", **arguments: Any) -> Client:
    """A client that holds the one message of a queue whose messages rest."""
    client = driver.client(1, 2)
    options = {"x_queue_type": "quorum", "x_delayed_retry_type": kind, "x_delayed_retry_min": REST_MS, **arguments}
    client.send(1, declare("q", **options))
    driver.settle()
    client.publish(1, "q", b"one")
    client.send(1, consume("q", "first"))
    driver.settle()
    assert client.names().count("basic.deliver") == 1
    client.take()
    return client


def nack(client: Client) -> None:
    client.send(1, methods.BasicNack(1, False, True))


def nack_all(client: Client) -> None:
    client.send(1, methods.BasicNack(0, True, True))


def reject(client: Client) -> None:
    client.send(1, methods.BasicReject(1, True))


def recover(client: Client) -> None:
    client.send(1, methods.BasicRecover(True))


def close(client: Client) -> None:
    client.send(2, consume("q", "second"))
    client.send(1, methods.ChannelClose(200, "done", 0, 0))


def reject_in_a_transaction(client: Client) -> None:
    client.send(1, methods.TxSelect(), methods.BasicReject(1, True), methods.TxCommit())


def nack_in_a_transaction(client: Client) -> None:
    client.send(1, methods.TxSelect(), methods.BasicNack(1, False, True), methods.TxCommit())


FAILED = (reject, close, reject_in_a_transaction)
RETURNED = (nack, nack_all, recover, nack_in_a_transaction)


@pytest.mark.parametrize("give_back", [*FAILED, *RETURNED])
@pytest.mark.parametrize("kind", ["all", "failed", "returned", "disabled"])
def test_what_comes_back_rests(kind: str, give_back: Callable[[Client], None]) -> None:
    driver = NodeDriver()
    client = a_queue(driver, kind)
    give_back(client)
    driver.settle()
    rests = kind == "all" or give_back in {"failed": FAILED, "returned": RETURNED}.get(kind, ())
    before = client.names().count("basic.deliver")
    assert (before, driver.queue("q").delayed_count()) == ((0, 1) if rests else (1, 0))
    driver.wait(REST_MS + 10)
    driver.settle()
    assert before + client.names().count("basic.deliver") == 1


def test_what_rests_is_still_in_the_queue() -> None:
    driver = NodeDriver()
    client = a_queue(driver)
    nack(client)
    driver.settle()
    client.take()
    client.send(2, methods.QueueDelete(0, "q", False, True, False))
    driver.settle()
    (closed,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert closed.reply_code == 406
    queue = driver.queue("q")
    assert (queue.message_count(), queue.unacked_count(), queue.delayed_count()) == (0, 0, 1)


def test_a_policy_says_so_too() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    definition = {"delayed-retry-type": "all", "delayed-retry-min": REST_MS}
    driver.node.broker.propose(commands.set_policy("/", "later", pattern="^q", definition=definition))
    client.send(1, declare("q", x_queue_type="quorum"))
    driver.settle()
    client.publish(1, "q", b"one")
    client.send(1, consume("q", "first"))
    driver.settle()
    client.take()
    nack(client)
    driver.settle()
    assert driver.queue("q").delayed_count() == 1


def test_a_restart_forgets_nothing_that_rests() -> None:
    driver = NodeDriver()
    client = a_queue(driver)
    nack(client)
    driver.settle()
    driver.crash()
    driver.start()
    driver.settle()
    assert driver.queue("q").delayed_count() == 1
    again = driver.client(1)
    again.send(1, consume("q", "again"))
    driver.wait(REST_MS + 10)
    driver.settle()
    assert again.names().count("basic.deliver") == 1


def test_other_types_do_not_have_it() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q", x_delayed_retry_min=5))
    driver.settle()
    (closed,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert closed.reply_text == (
        "PRECONDITION_FAILED - invalid arg 'x-delayed-retry-min' for queue 'q' in vhost '/' of queue type classic"
    )


def test_it_waits_until_all_members_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q", x_queue_type="quorum", x_delayed_retry_type="all", x_delayed_retry_min=5))
    driver.settle()
    (closed,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert closed.reply_text == (
        "PRECONDITION_FAILED - cannot declare queue 'q' in vhost '/': such queues can be had when all members of the "
        "cluster speak level 2, and it is at level 1: upgrade the others first"
    )


def test_a_policy_takes_effect_when_all_members_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver = NodeDriver()
    client = driver.client(1)
    definition = {"delayed-retry-type": "all", "delayed-retry-min": REST_MS}
    driver.node.broker.propose(commands.set_policy("/", "later", pattern="^q", definition=definition))
    client.send(1, declare("q", x_queue_type="quorum"))
    driver.settle()
    assert driver.queue("q").wanted.retry is None
    driver.node.broker.propose(commands.raise_level(2))
    driver.settle()
    assert driver.queue("q").wanted.retry is not None
