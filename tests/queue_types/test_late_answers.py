"""A queue may answer at once or later: the client gets the same octets."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import NodeDriver, consume, declare, publish_octets
from tests.queue_types.memory_queue import MemoryQueue


def octets(*said: Any) -> bytes:
    return b"".join(encode_method_frame(1, method) for method in said)


def heard(is_late: bool, said: bytes) -> bytes:
    """What a client hears that says all of it in one chunk."""
    driver = NodeDriver()
    queue = MemoryQueue("q", is_late)
    queue.enter(driver)
    client = driver.client(1)
    client.heard = b""
    client.send_octets(said)
    driver.settle()
    while queue.answer():
        driver.settle()
    return client.heard


PUBLISHED = b"".join(publish_octets(1, "q", b"%d" % number) for number in range(5))
GET = methods.BasicGet(0, "q", False)
PASSIVE = methods.QueueDeclare(0, "q", True, False, False, False, False, Table({}))

SCRIPTS: dict[str, bytes] = {
    "consume": PUBLISHED + octets(consume("q"), PASSIVE, methods.BasicQos(0, 3, False)),
    "consume with a prefetch": PUBLISHED
    + octets(methods.BasicQos(0, 2, False), consume("q"), GET, methods.BasicAck(1, False), PASSIVE),
    "no answer wanted": PUBLISHED
    + octets(methods.BasicConsume(0, "q", "t", False, True, False, True, Table({})), PASSIVE),
    "cancelled": PUBLISHED + octets(consume("q"), methods.BasicCancel("tag", False), methods.BasicRecover(True), GET),
    "get": PUBLISHED + octets(*[GET] * 6, methods.BasicAck(2, True), methods.BasicNack(4, True, True), GET),
    "get without acknowledgements": PUBLISHED + octets(*[methods.BasicGet(0, "q", True)] * 6, PASSIVE),
    "purge": PUBLISHED + octets(methods.QueuePurge(0, "q", False), PASSIVE, declare("other"), GET),
    "a transaction": PUBLISHED
    + octets(GET, methods.TxSelect(), methods.BasicAck(1, False), GET, methods.TxCommit(), GET, methods.TxRollback()),
    "closed": PUBLISHED + octets(consume("q"), methods.ChannelClose(200, "", 0, 0), methods.ChannelOpen(), PASSIVE),
    "no such queue": octets(GET, methods.BasicGet(0, "none", False), GET),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_octets_are_the_same(name: str) -> None:
    at_once = heard(False, SCRIPTS[name])
    assert at_once
    assert heard(True, SCRIPTS[name]) == at_once



def test_what_nobody_takes_goes_back() -> None:
    driver = NodeDriver()
    queue = MemoryQueue("q", True)
    queue.enter(driver)
    client = driver.client(1)
    client.send_octets(publish_octets(1, "q", b"x") + octets(GET))
    driver.settle()
    driver.lose(client)
    assert queue.answer()
    driver.settle()
    assert (queue.message_count(), queue.unacked_count()) == (1, 0)
    assert not queue.ready[0].is_redelivered


def test_a_queue_that_answers_twice_is_found_out() -> None:
    driver = NodeDriver()
    queue = MemoryQueue("q", False)
    queue.clear = lambda then: [then(None, 0), then(None, 0)]  # type: ignore[method-assign,assignment,func-returns-value]
    queue.enter(driver)
    client = driver.client(1)
    client.send(1, methods.QueuePurge(0, "q", False))
    driver.settle()
    [event] = [event for event in client.take() if event.method.name == "connection.close"]
    assert event.method.reply_code == 541
