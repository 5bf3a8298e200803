"""Input that comes alone is handled before it is taken from the kernel: none is lost, and none is handled twice."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import methods as m
from amqp_broker.server.driver import LONE_BYTES
from tests.fuzz.harness import on_channel
from tests.robustness.broker import Broker, frames_of

PROPERTIES = b"\x00\x00"
#: Longer than what the driver takes for calm, seconds.
PAUSE_S = 0.002


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("lone")) as running:
        yield running


def publish(queue: str, body: bytes) -> bytes:
    return on_channel(1, (m.BasicPublish(0, "", queue), PROPERTIES, body))


def bodies(broker: Broker, queue: str) -> list[bytes]:
    """All that is in a queue, in order."""
    found = []
    with broker.connect() as client:
        channel = client.channel()
        while (message := channel.get(queue)) is not None:
            found.append(message.body)
    return found


def opened(broker: Broker, queue: str) -> socket.socket:
    """A transport with a channel and a queue, whose replies were read."""
    transport = broker.raw()
    transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport.sendall(on_channel(1, m.ChannelOpen(), m.QueueDeclare(queue=queue)))
    frames_of(transport, until=5)
    return transport


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_reads_about_as_long_as_what_counts_as_lone(broker: Broker, pieces: int) -> None:
    queue = f"lengths-{pieces}"
    transport = opened(broker, queue)
    around = len(publish(queue, b""))
    sent = []
    for length in [*range(LONE_BYTES - 3, LONE_BYTES + 4), 2 * LONE_BYTES, 2 * LONE_BYTES + 1]:
        body = struct.pack(">L", length) + b"x" * (length - around - 12)
        octets = publish(queue, body)
        sent.append(body)
        step = -(-len(octets) // pieces)
        for start in range(0, len(octets), step):
            transport.sendall(octets[start : start + step])
            time.sleep(PAUSE_S)
    transport.close()
    assert bodies(broker, queue) == sent


def test_octets_one_by_one(broker: Broker) -> None:
    transport = opened(broker, "crumbs")
    for octet in publish("crumbs", b"one") + publish("crumbs", b"two"):
        transport.sendall(bytes([octet]))
        time.sleep(PAUSE_S)
    transport.close()
    assert bodies(broker, "crumbs") == [b"one", b"two"]


def test_who_resets_the_connection_at_once_has_said_it_once_or_never(broker: Broker) -> None:
    rounds = 50
    for number in range(rounds):
        transport = opened(broker, "reset")
        time.sleep(PAUSE_S)
        transport.sendall(publish("reset", b"%d" % number))
        transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.close()
    with broker.connect() as client:
        client.channel().publish("", "reset", b"last")
    found = bodies(broker, "reset")
    assert found[-1] == b"last"
    assert found == sorted(set(found), key=lambda body: rounds if body == b"last" else int(body))


def test_the_end_of_a_connection_that_comes_alone(broker: Broker) -> None:
    transport = opened(broker, "closed")
    time.sleep(PAUSE_S)
    transport.sendall(publish("closed", b"before") + on_channel(0, m.ConnectionClose(200, "", 0, 0)) + b"behind it")
    frames = frames_of(transport)
    assert [payload[:4] for _, payload in frames] == [b"\x00\x0a\x00\x33"]  # close-ok, and no reset
    assert transport.recv(1) == b""
    assert bodies(broker, "closed") == [b"before"]
