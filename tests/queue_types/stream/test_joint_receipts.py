"""What is published to a stream in a turn has one receipt, and is confirmed or nacked as if each had its own."""

from __future__ import annotations

import pytest

from amqp_broker.channel.confirms import ConfirmRecord, Confirms, TurnReceipt
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from queues.effects import Refusal
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


def lose(driver: NodeDriver, name: str) -> None:
    """The log forgets a stream of which the node knows still: chunks for it are refused."""
    queue = driver.node.broker.vhosts["/"].queues[name]
    queue.group.drop(queue.queue_id)
    driver.settle()


def nacked(found: list[tuple[str, int, bool]]) -> list[int]:
    """Each by itself."""
    assert not any(multiple for name, _, multiple in found if name == "basic.nack")
    return [tag for name, tag, _ in found if name == "basic.nack"]


def test_publishes_of_a_turn_have_one_receipt_whatever_goes_between_them(client: Client, driver: NodeDriver) -> None:
    client.send_octets(b"".join(publish(name, b"b") for name in "sst"))
    driver.settle()  # both are there
    client.take()
    client.send_octets(b"".join(publish(name, b"b") for name in "sssttssq"))
    driver.settle()
    assert confirmed(client) == [("basic.ack", 11, True)]
    for _ in range(2):
        client.send_octets(publish("s", b"b"))
        driver.settle()
    assert [tag for _, tag, _ in confirmed(client)] == [12, 13]


def test_those_of_a_chunk_that_is_refused_are_nacked_and_no_others(driver: NodeDriver, client: Client) -> None:
    client.send_octets(b"".join(publish(name, b"b") for name in "st"))
    driver.settle()
    client.take()
    lose(driver, "t")
    octets = b"".join(publish(name, b"b") for name in "sssttsstq")  # 3 to 11
    client.send_octets(octets + publish("s", b"b", headers={"CC": ["t"]}) + publish("s", b"b"))
    driver.settle()
    found = confirmed(client)
    assert nacked(found) == [6, 7, 10, 12]
    assert found[-1] == ("basic.ack", 13, False)
    client.send_octets(b"".join(publish(name, b"b") for name in "ss"))
    driver.settle()
    assert confirmed(client) == [("basic.ack", 15, True)]


def test_publishes_of_several_turns_that_are_one_chunk_are_nacked(driver: NodeDriver, client: Client) -> None:
    """While the disk is busy a chunk takes what comes in the turns after that, of all who publish."""
    other = driver.client(1)
    other.send(1, methods.ConfirmSelect())
    client.send_octets(publish("s", b"b"))
    driver.settle()
    client.take()
    other.take()
    lose(driver, "s")
    client.send_octets(publish("t", b"b"))
    driver.turn()
    job = driver.node.take_sync()
    for name in ("st", "ts", "ss"):
        client.send_octets(b"".join(publish(each, b"b") for each in name))
        other.send_octets(b"".join(publish(each, b"b") for each in "st"))
        driver.turn()
    driver.synced(job)
    driver.settle()
    assert nacked(confirmed(client)) == [3, 6, 7, 8]
    assert nacked(confirmed(other)) == [1, 3, 5]


def test_a_chunk_that_is_full_ends_a_run(driver: NodeDriver, client: Client) -> None:
    client.send_octets(publish("s", b"b"))
    driver.settle()
    lose(driver, "s")
    client.take()
    client.send_octets(b"".join(publish("s", bytes(3000)) for _ in range(200)))
    driver.settle()
    assert nacked(confirmed(client)) == list(range(2, 202))


def test_who_does_not_say_which_is_done_means_all_of_the_turn() -> None:
    record = ConfirmRecord(Confirms(None, None))
    record.confirms.published = 4
    receipt = TurnReceipt(record)
    record.confirms.published = 6
    assert receipt.at_hand() == 6
    receipt.expect()
    receipt.expect()
    receipt.complete(Refusal.FULL)
    assert record.waiting == 1
    receipt.complete_run(None, 5, 6)
    assert record.waiting == 0


def test_a_queue_that_goes_in_the_same_turn_nacks_what_was_published_to_it(driver: NodeDriver, client: Client) -> None:
    octets = b"".join(publish("s", b"b") for _ in range(3))
    client.send_octets(octets + encode_method_frame(1, methods.QueueDelete(0, "s", False, False, False)))
    driver.settle()
    found = confirmed(client)
    assert [tag for _, tag, _ in found][-1] == 3
