"""Streams of one node, its time and its disk in the test's hand: what is copied and what is made, slices, retention,
restarts, levels."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.links import levels
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from tests.node.node_driver import Client, NodeDriver, frame_octets, handshake_octets, small_config

MINUTE = 60_000


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def declare(name: str = "s", **arguments: object) -> Any:
    table = Table({"x-queue-type": "stream", **{key.replace("_", "-"): each for key, each in arguments.items()}})
    return methods.QueueDeclare(0, name, False, True, False, False, False, table)


def consume(name: str = "s", tag: str = "tag", **arguments: object) -> Any:
    table = {"x-stream-offset": "first", **{key.replace("_", "-"): each for key, each in arguments.items()}}
    return methods.BasicConsume(0, name, tag, False, False, False, False, Table(table))


def qos(count: int) -> Any:
    return methods.BasicQos(0, count, False)


def fill(driver: NodeDriver, client: Client, *bodies: bytes, **properties: Any) -> None:
    """All in one turn, so in one chunk."""
    for body in bodies:
        section = encode_properties(properties)
        octets = encode_method_frame(1, methods.BasicPublish(0, "", "s", False, False))
        octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        for start in range(0, len(body), 4088):
            octets += frame_octets(3, 1, body[start : start + 4088])
        client.send_octets(octets)
    driver.settle()


def delivered(client: Client) -> list[tuple[int, bytes]]:
    """The offsets and bodies of what has come."""
    found = [event for event in client.take() if event.method.name == "basic.deliver"]
    return [(_offset(event.properties), event.body) for event in found]


def _offset(section: bytes) -> int:
    headers = decode_properties(section).headers
    assert headers is not None
    return int(headers["x-stream-offset"])


def a_stream(driver: NodeDriver, **arguments: object) -> Client:
    client = driver.client(1)
    client.send(1, declare(**arguments), qos(1000))
    driver.settle()
    assert "queue.declare-ok" in client.names()
    return client


# -- what is delivered


def test_what_is_copied_is_what_would_be_made(driver: NodeDriver) -> None:
    """A channel that is observed gets messages, others records: octet for octet the same."""
    publisher = a_stream(driver)
    for headers in ({}, {"h": "x"}, {"t": {"a": [1, "b"]}, "x-stream-offset": 5}):
        for size in (0, 1, 100, 4087, 4088, 4089, 5000, 16_384, 40_000):
            properties: dict[str, Any] = {"content_type": "t", "delivery_mode": 1 + size % 2, "message_id": str(size)}
            if headers:
                properties["headers"] = Table(headers)
            fill(driver, publisher, bytes([size % 251]) * size, **properties)
    heard = []
    for is_observed in (False, True):
        reader = driver.client(1)
        reader.connection.channels[1].set_traced(is_observed)
        reader.send(1, qos(1000), consume())
        driver.settle()
        heard.append(reader.heard)
        assert len(delivered(reader)) == 27
    assert heard[0] == heard[1]


def test_very_many_are_handed_out_in_slices(driver: NodeDriver) -> None:
    """Others have their turn meanwhile; in the end it has all of them, once, in order."""
    publisher = a_stream(driver)
    fill(driver, publisher, *[b"%d" % number for number in range(3000)])
    reader = driver.client(1)
    reader.send(1, qos(5000), consume())
    driver.settle()
    assert delivered(reader) == [(number, b"%d" % number) for number in range(3000)]
    assert not driver.node.broker.background.jobs


@pytest.mark.parametrize("prefetch", [1, 3, 100])
def test_credit_of_a_few_at_a_time(driver: NodeDriver, prefetch: int) -> None:
    """Who acknowledges in any order gets the next ones in theirs."""
    publisher = a_stream(driver)
    for number in range(0, 40, 8):
        fill(driver, publisher, *[b"%d" % each for each in range(number, number + 8)])
    reader = driver.client(1)
    reader.send(1, qos(prefetch), consume())
    driver.settle()
    got: list[tuple[int, bytes]] = []
    outstanding: list[int] = []
    while len(got) < 40:
        tags = [event.method.delivery_tag for event in reader.events if event.method.name == "basic.deliver"]
        got += delivered(reader)
        outstanding += tags
        assert len(outstanding) <= prefetch
        reader.send(1, methods.BasicAck(outstanding.pop(len(outstanding) // 2), False))
        driver.settle()
    assert got == [(number, b"%d" % number) for number in range(40)]


def test_what_is_published_while_nothing_waits_comes_in_the_same_turn(driver: NodeDriver) -> None:
    """Readers at the end are told by the log."""
    publisher = a_stream(driver)
    readers = [driver.client(1) for _ in range(3)]
    for reader in readers:
        reader.send(1, qos(10), consume(x_stream_offset="next"))
    driver.settle()
    fill(driver, publisher, b"a", b"b")
    for reader in readers:
        assert delivered(reader) == [(0, b"a"), (1, b"b")]
    assert not driver.node.broker.background.jobs


@pytest.mark.parametrize("offset", ["next", "last", "first", -1, 0, "1h"], ids=str)
def test_who_comes_before_the_log_knows_of_the_stream_misses_nothing(driver: NodeDriver, offset: object) -> None:
    """What it is told of first is what is published from now on."""
    client = driver.client(1)
    client.send(1, declare(), qos(10), consume(x_stream_offset=offset))
    for number in range(3):
        client.publish(1, "s", b"%d" % number)
    driver.settle()
    assert delivered(client) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_the_publishes_of_a_turn_are_one_chunk(driver: NodeDriver) -> None:
    """Of all clients of the node; their confirms come together."""
    a_stream(driver)
    clients = [driver.client(1) for _ in range(3)]
    for client in clients:
        client.send(1, methods.ConfirmSelect(False))
        for _ in range(5):
            client.publish(1, "s", b"m", persistent=False)
    driver.settle()
    log = driver.queue("s").stream().log
    assert [stored.chunk.records for stored in log.chunks(0)] == [15]
    assert all("basic.ack" in client.names() for client in clients)


def test_a_reader_is_not_sent_more_than_its_connection_takes(driver: NodeDriver) -> None:
    """It goes on when there is room."""
    publisher = a_stream(driver)
    for number in range(64):
        fill(driver, publisher, *[bytes([number]) * 4000] * 16)
    reader = driver.client(1)
    reader.send(1, qos(2000), consume())
    driver.node.unwritable(reader.connection)
    driver.settle()
    assert not delivered(reader)
    got = 0
    while got < 1024:
        driver.node.writable(reader.connection, driver.now)
        driver.settle()
        now = len(delivered(reader))
        assert 0 < now * 4000 < 2 * reader.connection.output_limit
        got += now


# -- retention


def set_policy(driver: NodeDriver, **definition: object) -> None:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    driver.node.broker.propose(
        commands.set_policy("/", "p", pattern="^s$", apply_to="streams", definition=named)
    )
    driver.settle()


def offsets(driver: NodeDriver) -> tuple[int, int]:
    stream = driver.queue("s").stream()
    return stream.first, stream.next


def test_a_policy_shortens_a_stream_that_nobody_uses(driver: NodeDriver) -> None:
    """By its age, when the time has come; in the end all of it."""
    publisher = a_stream(driver, x_stream_max_segment_size_bytes=0)
    for _ in range(3):
        fill(driver, publisher, b"old")
        driver.wait(MINUTE)
    assert offsets(driver) == (0, 3)
    set_policy(driver, max_age="90s")
    driver.settle()
    assert offsets(driver)[0] == 1  # at a mark
    driver.wait(driver.config.stream_retention_ms)
    assert offsets(driver) == (2, 3)
    driver.wait(MINUTE)
    assert offsets(driver) == (3, 3)


def test_a_policy_wins_over_the_argument(driver: NodeDriver) -> None:
    """To keep more than it was declared with, and to keep less."""
    publisher = a_stream(driver, x_stream_max_segment_size_bytes=0, x_max_length_bytes=2000)
    set_policy(driver, max_length_bytes=1_000_000)
    for _ in range(10):
        fill(driver, publisher, b"x" * 1000)
    assert offsets(driver) == (0, 10)
    set_policy(driver, max_length_bytes=5000)
    first, behind = offsets(driver)
    assert behind == 10
    assert 4 <= first <= 6


def test_a_reader_that_retention_has_passed_goes_on_at_the_first_message(driver: NodeDriver) -> None:
    """What is gone nobody waits for."""
    publisher = a_stream(driver, x_stream_max_segment_size_bytes=0)
    fill(driver, publisher, b"0")
    reader = driver.client(1)
    reader.send(1, qos(1), consume())
    driver.settle()
    for number in range(1, 6):
        fill(driver, publisher, b"%d" % number)
    set_policy(driver, max_length_bytes=0)
    assert offsets(driver) == (5, 6)
    reader.send(1, methods.BasicAck(0, True))
    driver.settle()
    assert delivered(reader) == [(0, b"0"), (5, b"5")]


# -- restarts


def test_it_outlives_a_crash(driver: NodeDriver) -> None:
    """Confirmed is synced; a reader goes on behind the offset that it has seen."""
    publisher = a_stream(driver, x_max_length_bytes=1_000_000)
    publisher.send(1, methods.ConfirmSelect(False))
    fill(driver, publisher, *[b"%d" % number for number in range(10)])
    assert "basic.ack" in publisher.names()
    driver.crash()
    publisher = driver.client(1)
    fill(driver, publisher, b"10")
    reader = driver.client(1)
    reader.send(1, qos(100), consume(x_stream_offset=7))
    driver.settle()
    assert delivered(reader) == [(number, b"%d" % number) for number in (7, 8, 9, 10)]


def test_another_stream_of_the_same_name_begins_anew(driver: NodeDriver) -> None:
    """Nothing of the deleted one is left."""
    publisher = a_stream(driver)
    fill(driver, publisher, b"old")
    publisher.send(1, methods.QueueDelete(0, "s", True, True, False), declare())
    driver.settle()
    fill(driver, publisher, b"new")
    reader = driver.client(1)
    reader.send(1, qos(10), consume())
    driver.settle()
    assert delivered(reader) == [(0, b"new")]


# -- levels


def test_it_waits_until_all_members_know_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that knows none would not understand the log."""
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare())
    driver.settle()
    (close,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    assert close.reply_code == 406
    assert close.reply_text == (
        "PRECONDITION_FAILED - cannot declare queue 's' in vhost '/': queues of type stream can be had when all "
        "members of the cluster speak level 2, and it is at level 1: upgrade the others first"
    )


def test_a_small_frame_of_a_reader_cuts_what_was_one_frame() -> None:
    """Records are copied where they fit, and made into messages where not."""
    driver = NodeDriver(small_config())
    publisher = a_stream(driver)
    fill(driver, publisher, b"x" * 4088, b"y")
    reader = driver.raw_client()
    reader.send_octets(handshake_octets(frame_max=4096))
    reader.send(1, methods.ChannelOpen())
    reader.send(1, qos(10), consume())
    driver.settle()
    assert delivered(reader) == [(0, b"x" * 4088), (1, b"y")]
