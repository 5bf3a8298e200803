"""What is published to a stream in a turn has one receipt, and is confirmed or nacked as if each had its own."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from queues.effects import Refusal
from queues.quorum.commands import Command
from queues.receipts import Receipt
from queues.stream.commands import AppendChunk
from tests.node.node_driver import Client, NodeDriver, frame_octets


def declare(name: str, kind: str = "stream") -> methods.QueueDeclare:
    return methods.QueueDeclare(0, name, False, True, False, False, False, Table({"x-queue-type": kind}))


def publish(queue: str, body: bytes, **properties: object) -> bytes:
    section = encode_properties(properties)
    octets = encode_method_frame(1, methods.BasicPublish(0, "", queue, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    return octets + frame_octets(3, 1, body)


def confirmed(client: Client) -> list[tuple[str, int, bool]]:
    found = []
    for event in client.take():
        if event.method.name in ("basic.ack", "basic.nack"):
            found.append((event.method.name, event.method.delivery_tag, event.method.multiple))
    return found


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


@pytest.fixture
def client(driver: NodeDriver) -> Client:
    client = driver.client(1)
    client.send(1, declare("s"), declare("t"), declare("q", "quorum"), methods.ConfirmSelect())
    driver.settle()
    client.take()
    return client


def counting(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, int]]]:
    """Of each chunk, the publishes for which there is a receipt: first and last."""
    chunks: list[list[tuple[int, int]]] = []
    for group in {driver.node.broker.vhosts["/"].queues[name].group for name in "st"}:
        submit = group.submit

        def counted(command: Command, receipt: Receipt | None = None, submit: Any = submit) -> int:
            if isinstance(command, AppendChunk):
                chunks.append([(each.number, each.last) for each in receipt.receipts])
            return submit(command, receipt)

        monkeypatch.setattr(group, "submit", counted)
    return chunks


class Refused(Receipt):
    """Says to another receipt that it was refused, whatever it is told."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def expect(self) -> None:
        self._receipt.expect()

    def complete(self, refusal: Refusal | None) -> None:
        self._receipt.complete(Refusal.FULL)


def test_publishes_of_a_turn_have_one_and_another_way_or_another_turn_another(
    driver: NodeDriver, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = counting(driver, monkeypatch)
    octets = b"".join(publish(name, b"b") for name in "sssttssq")
    client.send_octets(octets + publish("s", b"b", headers={"CC": ["t"]}) + publish("s", b"b"))
    driver.settle()
    assert sorted(chunks) == [[(1, 3), (6, 7), (9, 9), (10, 10)], [(4, 5), (9, 9)]]
    assert confirmed(client)[-1] == ("basic.ack", 10, True)
    chunks.clear()
    for _ in range(2):
        client.send_octets(publish("s", b"b"))
        driver.settle()
    assert chunks == [[(11, 11)], [(12, 12)]]
    assert [tag for _, tag, _ in confirmed(client)] == [11, 12]


def test_a_chunk_that_is_full_ends_it(driver: NodeDriver, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = counting(driver, monkeypatch)
    client.send_octets(b"".join(publish("s", bytes(3000)) for _ in range(200)))
    driver.settle()
    assert len(chunks) > 1
    ends = [each for chunk in chunks for each in chunk]
    assert [first for first, _ in ends] == [1, *[last + 1 for _, last in ends[:-1]]]
    assert ends[-1][1] == 200
    assert confirmed(client)[-1][1] == 200


def test_all_of_a_chunk_that_is_refused_are_nacked_and_no_others(
    driver: NodeDriver, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = driver.node.broker.vhosts["/"].queues["s"].group
    submit = group.submit
    refused: list[Command] = []

    def refuses_one(command: Command, receipt: Receipt | None = None) -> int:
        if isinstance(command, AppendChunk) and not refused and receipt is not None:
            refused.append(command)
            receipt = Refused(receipt)
        return submit(command, receipt)

    monkeypatch.setattr(group, "submit", refuses_one)
    client.send_octets(b"".join(publish(name, b"b") for name in "sss"))
    driver.settle()
    client.send_octets(b"".join(publish(name, b"b") for name in "ss"))
    driver.settle()
    found = confirmed(client)
    assert [each for each in found if each[0] == "basic.nack"] == [("basic.nack", tag, False) for tag in (1, 2, 3)]
    assert found[-1] == ("basic.ack", 5, True)


def test_a_queue_that_goes_in_the_same_turn_nacks_what_was_published_to_it(driver: NodeDriver, client: Client) -> None:
    octets = b"".join(publish("s", b"b") for _ in range(3))
    client.send_octets(octets + encode_method_frame(1, methods.QueueDelete(0, "s", False, False, False)))
    driver.settle()
    found = confirmed(client)
    assert [tag for _, tag, _ in found][-1] == 3
