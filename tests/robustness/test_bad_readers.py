"""Clients that take what they are given too slowly, or never: others go on, and the broker's memory stays bounded."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amqp_broker.client.channel import Channel
from amqp_broker.client.connection import Connection
from amqp_broker.protocol import methods as m
from tests.fuzz.harness import on_channel
from tests.robustness.broker import IS_PLAIN, MIB, PROJECT_ROOT, Broker, Witness, frames_of

#: What connections, queues and the allocator may take on top of what a test states.
SLACK = 48 * MIB
TRANSIENT = b"\x00\x00"
SLOWER = 10 if IS_PLAIN else 1


def _let_work(channel: Channel, queue: str) -> None:
    """So many round trips that the broker has had time to do with the others what it would do."""
    for _ in range(1000):
        channel.call(m.QueueDeclare(queue=queue, passive=True))


def fill(client: Connection, queue: str, count: int, size: int) -> None:
    """So many transient messages into a queue, as fast as the broker takes them."""
    channel = client.channel()
    batch = max(1, min(1000, MIB // size))
    for start in range(0, count, batch):
        for _ in range(min(batch, count - start)):
            client.send(channel.number, m.BasicPublish(0, "", queue), TRANSIENT, b"x" * size)
        client.flush(time.monotonic() + 60)
        client.poll()
    channel.confirm_select()
    channel.publish("", queue, b"last")
    assert channel.wait_for_confirms(60) == []
    channel.close()


def _flood(broker: Broker, queue: str, messages: int, body_bytes: int) -> socket.socket:
    """Publish without a client library: octets made once, sent again and again; then wait until they are in."""
    one = on_channel(1, (m.BasicPublish(0, "", queue), TRANSIENT, b"x" * body_bytes))
    batch = one * 1000
    transport = broker.raw()
    transport.sendall(on_channel(1, m.ChannelOpen(), m.ConfirmSelect(True)))
    for _ in range(messages // 1000):
        transport.sendall(batch)
    transport.sendall(on_channel(2, m.ChannelOpen(), m.QueueDeclare(queue=queue, passive=True)))
    return transport


def _slow_reader(tmp_path: Path, messages: int) -> None:
    budget = 64 * MIB
    with Broker(tmp_path, "--memory-budget", "64MiB", "--disk-free-limit", "0") as broker, Witness(broker):
        with broker.connect(timeout=120.0) as owner:
            channel = owner.channel()
            channel.call(m.QueueDeclare(queue="backlog"))
            publisher = _flood(broker, "backlog", messages, 128)
            _await_ready(channel, "backlog", messages)
            publisher.close()
            readers = [broker.raw() for _ in range(3)]
            for number, reader in enumerate(readers):
                tag = f"slow {number}"
                consume = m.BasicConsume(queue="backlog", consumer_tag=tag, no_ack=number == 0)
                reader.sendall(on_channel(1, m.ChannelOpen(), consume))
            frames_of(readers[0], 1.0, until=1000)
            _let_work(channel, "backlog")
            assert broker.grown() < 2 * budget + SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
            for reader in readers:
                reader.close()
            channel.call(m.QueueDelete(queue="backlog"))
        found = broker.settled_statistics(connections=2, messages_unacked=0)
        assert found["queues"] <= 1
        assert found["messages_ready"] <= 1


def _await_ready(channel: object, queue: str, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = channel.call(m.QueueDeclare(queue=queue, passive=True)).message_count  # type: ignore[attr-defined]
        if found >= count:
            return
    raise AssertionError(f"only {found} of {count} messages arrived")


def test_a_slow_reader_with_a_backlog(tmp_path: Path) -> None:
    _slow_reader(tmp_path, 100_000 // SLOWER)


@pytest.mark.long
def test_a_slow_reader_with_a_million_messages(tmp_path: Path) -> None:
    _slow_reader(tmp_path, 1_000_000)


def _send_until_stuck(transport: socket.socket, octets: bytes, most: int) -> int:
    """Send again and again; stop when nothing was taken for a second, or after so many octets. Returns how many."""
    transport.settimeout(1.0)
    sent = 0
    view = memoryview(octets)
    position = 0
    while sent < most:
        try:
            count = transport.send(view[position:])
        except TimeoutError:
            break
        position = (position + count) % len(octets)
        sent += count
    return sent


def test_a_publisher_that_never_reads_what_comes_back(tmp_path: Path) -> None:
    """Returns and confirms pile up to `output_pause`, then the broker reads no more; when the client does, all goes on.
    """
    most = 128 * MIB
    with Broker(tmp_path) as broker, Witness(broker):
        transport = broker.raw()
        transport.sendall(on_channel(1, m.ChannelOpen(), m.ConfirmSelect()))
        one = on_channel(1, (m.BasicPublish(0, "", "nobody", True), TRANSIENT, b"x" * 1000))
        sent = _send_until_stuck(transport, one * 100, most)
        assert sent < most, "the broker goes on reading what it cannot answer"
        assert broker.grown() < SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
        transport.settimeout(10)
        read = 0
        while read < sent // 2:
            read += len(transport.recv(MIB))
        transport.close()
        assert broker.settled_statistics(connections=2)["connections"] == 2


def test_a_consumer_that_never_acknowledges(tmp_path: Path) -> None:
    """Without a prefetch it is given what memory allows; the rest stays on disk for the others."""
    budget = 16 * MIB
    count, size = 20_000 // SLOWER, 10_000
    with (
        Broker(tmp_path, "--memory-budget", "16MiB", "--disk-free-limit", "0") as broker,
        Witness(broker),
        broker.connect(timeout=60.0) as owner,
    ):
        owner.channel().call(m.QueueDeclare(queue="backlog"))
        fill(owner, "backlog", count, size)
        hoarder = broker.raw()
        hoarder.sendall(on_channel(1, m.ChannelOpen(), m.BasicConsume(queue="backlog", consumer_tag="hoarder")))
        got = sum(1 for kind, _ in frames_of(hoarder, 1.5) if kind == 3)
        assert got < count, "a hoarder was given everything"
        assert broker.grown() < 3 * budget + SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
        with broker.connect(timeout=60.0) as other:
            channel = other.channel()
            consumer = channel.consume("backlog", prefetch_count=50)
            for _, delivery in zip(range(200), consumer, strict=False):
                channel.ack(delivery)
        hoarder.close()
        assert broker.settled_statistics(messages_unacked=0)["messages_unacked"] == 0


def test_a_flood_of_gets(tmp_path: Path) -> None:
    """A few octets ask for a mebibyte each, a thousand times, and nobody reads."""
    with (
        Broker(tmp_path, "--memory-budget", "16MiB", "--disk-free-limit", "0") as broker,
        Witness(broker),
        broker.connect(timeout=60.0) as owner,
    ):
        channel = owner.channel()
        channel.call(m.QueueDeclare(queue="large"))
        fill(owner, "large", 80, MIB)
        greedy = broker.raw()
        greedy.sendall(on_channel(1, m.ChannelOpen(), *[m.BasicGet(0, "large", True)] * 1000))
        _let_work(channel, "large")
        left = channel.call(m.QueueDeclare(queue="large", passive=True)).message_count
        assert left > 30, f"{81 - left} mebibytes were made ready for a client that reads nothing"
        assert broker.grown() < 3 * 16 * MIB + SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
        bodies = sum(len(payload) for kind, payload in frames_of(greedy, 2.0) if kind == 3)
        assert bodies == 80 * MIB + len(b"last"), "what was held back comes when it is read"
        greedy.close()


def test_a_queue_that_nobody_reads(tmp_path: Path) -> None:
    """With the smallest budget it pages, and publishers go on."""
    with Broker(tmp_path, "--memory-budget", "1MiB", "--disk-free-limit", "0") as broker, Witness(broker):
        with broker.connect(timeout=60.0) as owner:
            channel = owner.channel()
            channel.call(m.QueueDeclare(queue="unread"))
            fill(owner, "unread", 20_000 // SLOWER, 4000)
            assert broker.grown() < SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
            assert channel.call(m.QueueDelete(queue="unread")).message_count == 20_000 // SLOWER + 1
        found = broker.settled_statistics(messages_ready=0)
        assert found["memory_used"] < 100_000


_CLIENT = """
import sys
from amqp_broker.client.connection import Connection
with Connection.open(sys.argv[1], timeout=60.0) as connection:
    channel = connection.channel()
    consumer = channel.consume("stopped", prefetch_count=100)
    print("ready", flush=True)
    for number, delivery in enumerate(consumer, 1):
        channel.ack(delivery)
        if delivery.body == b"last":
            print(number, flush=True)
            break
"""


def test_a_client_that_is_stopped_and_continued(tmp_path: Path) -> None:
    """SIGSTOP in the middle of its work: the others go on; after SIGCONT it gets everything that is left."""
    count = 4000 // SLOWER
    with Broker(tmp_path) as broker, Witness(broker), broker.connect(timeout=60.0) as owner:
        owner.channel().call(m.QueueDeclare(queue="stopped"))
        client = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, broker.url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        )
        assert client.stdout is not None
        try:
            assert client.stdout.readline() == "ready\n"
            client.send_signal(signal.SIGSTOP)
            fill(owner, "stopped", count, 5000)
            assert broker.grown() < count * 5500 + SLACK
            client.send_signal(signal.SIGCONT)
            assert client.stdout.readline() == f"{count + 1}\n"
            assert client.wait(30) == 0
        finally:
            client.kill()
            client.stdout.close()
            client.wait()
