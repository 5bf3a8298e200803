"""The answers of `amq.system` go where the user who asked might have published them, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets
from tests.node.one_slice import OneSlice
from tests.simulation.settings import USER

VERBS = ["statistics", "no such verb", "lease.stat", "txn.begin"]
MAY_WRITE = [("", False), ("^orders$", False), ("^amq\\.default$", True), (".*", True)]


def ask(client: Client, verb: str, reply_to: str, body: bytes = b'{"queue": "victim"}') -> None:
    section = encode_properties({"reply_to": reply_to})
    octets = encode_method_frame(1, methods.BasicPublish(0, "amq.system", verb, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    client.send_octets(octets + frame_octets(3, 1, body))


def prepared(write: str) -> tuple[NodeDriver, Client]:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("victim"))
    driver.settle()
    driver.node.broker.propose(commands.set_permission(USER, "/", ".*", write, ".*"))
    driver.settle()
    client.take()
    return driver, client


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize(("write", "may"), MAY_WRITE)
@pytest.mark.parametrize("verb", VERBS)
def test_a_queue_as_reply_to(verb: str, write: str, may: bool, in_transaction: bool) -> None:
    driver, client = prepared(write)
    if in_transaction:
        client.send(1, methods.TxSelect())
    ask(client, verb, "victim")
    if in_transaction and may:
        client.send(1, methods.TxCommit())
    driver.settle()
    closes: list[Any] = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert [method.reply_code for method in closes] == ([] if may else [403])
    assert driver.queue("victim").message_count() == may
    if not may:
        assert closes[0].reply_text.startswith("ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/'")


def test_who_may_not_publish_any_more_when_the_answer_is_there() -> None:
    """It is long, and the permission is taken away meanwhile."""
    driver, client = prepared(".*")
    client.send(1, *[declare(f"q{number}", durable=False) for number in range(100)])
    driver.settle()
    client.take()
    driver.node.background.set_pace(OneSlice())
    ask(client, "queue.list", "victim", b'{"vhost": "/"}')
    driver.turn()
    assert driver.node.background.jobs, "it takes many slices"
    driver.node.broker.propose(commands.set_permission(USER, "/", ".*", "", ".*"))
    while driver.node.background.jobs:
        driver.settle()
    assert client.names() == []
    assert driver.queue("victim").message_count() == 0


@pytest.mark.parametrize("verb", VERBS)
def test_direct_reply_to_needs_no_permission(verb: str) -> None:
    driver, client = prepared("")
    client.send(1, consume("amq.rabbitmq.reply-to", "replies", no_ack=True))
    driver.settle()
    client.take()
    ask(client, verb, "amq.rabbitmq.reply-to")
    driver.settle()
    assert client.names() == ["basic.deliver"]
