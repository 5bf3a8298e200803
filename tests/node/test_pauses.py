"""A connection that is paused for two reasons at once: it goes on when both are gone, whichever goes first."""

from __future__ import annotations

from itertools import permutations

import pytest

from amqp_broker.flow.reason import HANDLING, Reason
from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, declare

QOS = methods.BasicQos(0, 1, False)


@pytest.mark.parametrize(("first", "second"), list(permutations(Reason, 2)))
def test_it_goes_on_when_both_reasons_are_gone(first: Reason, second: Reason) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    pauses, connection = driver.node.pauses, client.connection
    pauses.pause(connection, first)
    pauses.pause(connection, second)
    client.send(1, QOS)
    driver.turn()
    assert connection.is_paused
    assert not client.names()
    pauses.resume(connection, first, driver.now)
    driver.turn()
    assert connection.is_paused, "nothing is read"
    assert client.names() == ([] if second & HANDLING else ["basic.qos-ok"])
    pauses.resume(connection, second, driver.now)
    driver.turn()
    assert not connection.is_paused
    assert client.names() == (["basic.qos-ok"] if second & HANDLING else [])


def test_what_waits_for_an_answer_does_not_go_on_because_it_has_read_its_replies() -> None:
    """Or what it has said behind a method would be answered before it."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"), QOS)
    driver.turn()
    driver.node.pauses.pause_replies(client.connection)
    driver.node.writable(client.connection, driver.now)
    assert client.connection.is_parked
    driver.settle()
    assert client.names() == ["queue.declare-ok", "basic.qos-ok"]


def test_an_answer_comes_while_replies_are_paused() -> None:
    """It is said; what comes behind it is not handled before the client has read."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"), QOS)
    driver.turn()
    driver.node.pauses.pause_replies(client.connection)
    driver.settle()
    assert client.names() == ["queue.declare-ok"]
    driver.node.writable(client.connection, driver.now)
    driver.turn()
    assert client.names() == ["basic.qos-ok"]
    assert not client.connection.is_paused


def test_at_its_end_nothing_keeps_it_from_being_read() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    for reason in Reason:
        driver.node.pauses.pause(client.connection, reason)
    driver.turn()
    assert client.connection.is_paused
    driver.node.shut_down(driver.now)
    driver.turn()
    assert not client.connection.is_paused
    driver.node.pauses.pause_replies(client.connection)
    driver.turn()
    assert not client.connection.is_paused
