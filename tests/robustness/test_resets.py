"""Clients that are reset wherever it hurts: inside handshakes, around the closes, below a large delivery; over TCP and
TLS. Nothing of them is left, and nothing that they had not settled is gone."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import encode_method_frame
from tests.fuzz.harness import handshake, on_channel
from tests.robustness.broker import PATIENCE_S, Broker, Witness, frames_of

ROUNDS = 5
#: None of these is what ends a client here.
_TIMEOUTS = ("closing", "handshake", "tls-handshake")
#: Together more than the kernel takes for a receiver that does not read.
BODIES, BODY = 40, bytes(1_000_000)
CLOSE = on_channel(0, m.ConnectionClose(200, "bye"))
PUBLISH = on_channel(1, (m.BasicPublish(0, "", "nobody"), b"\x00\x00", b"x" * 1000))
WRONG = c.PROTOCOL_HEADER + encode_method_frame(
    0, m.ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0wrong", locale="en_US")
)
CONSUME = on_channel(1, m.ChannelOpen(), m.BasicConsume(queue="large"))


class Place(NamedTuple):
    """A broker, and how a client comes to it: a port, and over TLS a context. connect_plainly: without the
    handshake of TLS."""

    broker: Broker
    context: ssl.SSLContext | None
    tls_port: int

    def connect_plainly(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.tls_port if self.context else self.broker.port), timeout=10)

    def connect(self) -> socket.socket:
        transport = self.connect_plainly()
        return self.context.wrap_socket(transport, server_hostname="localhost") if self.context else transport


class Secured(NamedTuple):
    broker: Broker
    authority: trustme.CA
    port: int


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder: Path = tmp_path_factory.mktemp("resets")
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pem = folder / "server.pem"  # certificate and key
    flags = [f"--tls-listen=127.0.0.1:{port}", f"--tls-certificate={pem}", f"--tls-key={pem}"]
    with Broker(folder, *flags, *[f"--{name}-timeout=60s" for name in _TIMEOUTS]) as broker:
        with broker.connect() as client, client.channel() as channel:
            channel.confirm_select()
            channel.call(m.QueueDeclare(queue="large", durable=True))
            for _ in range(BODIES):
                channel.publish("", "large", BODY)
            assert channel.wait_for_confirms() == []
        yield Secured(broker, authority, port)


@pytest.fixture(params=["tcp", "tls"])
def place(secured: Secured, request: pytest.FixtureRequest) -> Place:
    context = None
    if request.param == "tls":
        context = ssl.create_default_context()
        secured.authority.configure_trust(context)
    return Place(secured.broker, context, secured.port)


def reset(transport: socket.socket) -> None:
    """RST: whatever is on its way, either way, is gone. Over TLS no goodbye is said."""
    with socket.socket(fileno=transport.detach()) as bare:
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def says(octets: bytes, *, heard: int = 0) -> Callable[[Place], socket.socket]:
    """A client that says this, and has read so many frames when it is reset."""

    def come(place: Place) -> socket.socket:
        transport = place.connect()
        transport.sendall(octets)
        frames_of(transport, until=heard)
        return transport

    return come


def half_a_handshake(place: Place) -> socket.socket:
    """Of TLS, a client's first flight without its end; without TLS, of AMQP's header."""
    transport = place.connect_plainly()
    transport.sendall(first_flight(place)[:-7] if place.context else c.PROTOCOL_HEADER[:5])
    return transport


def whole_first_flight(place: Place) -> socket.socket:
    """The broker answers while the client goes."""
    transport = place.connect_plainly()
    transport.sendall(first_flight(place) if place.context else c.PROTOCOL_HEADER)
    return transport


def first_flight(place: Place) -> bytes:
    assert place.context is not None
    said = ssl.MemoryBIO()
    records = place.context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        records.do_handshake()
    return said.read()


def broken_flight(place: Place) -> socket.socket:
    """What is no TLS and no AMQP, and the broker's word on it is on its way."""
    transport = place.connect_plainly()
    transport.sendall(b"\x16\x03\x01\x00\x04garbage beyond" * 10)
    return transport


def says_at_last(octets: bytes) -> Callable[[Place], socket.socket]:
    """A client that is open and quiet, says this and is reset: both come at the same time."""

    def come(place: Place) -> socket.socket:
        transport = says(OPEN + on_channel(1, m.QueueDeclare(exclusive=True)), heard=5)(place)
        transport.sendall(octets)
        return transport

    return come


def large_delivery(place: Place) -> socket.socket:
    """Some of it was read."""
    transport = says(handshake() + CONSUME, heard=5)(place)
    transport.recv(100_000)
    return transport


def close_below_a_large_delivery(place: Place) -> socket.socket:
    transport = large_delivery(place)
    transport.sendall(CLOSE)
    return transport


def fault_below_a_large_delivery(place: Place) -> socket.socket:
    transport = large_delivery(place)
    transport.sendall(on_channel(7, m.BasicQos(0, 1, False)))
    return transport


OPEN = handshake() + on_channel(1, m.ChannelOpen())
CLIENTS: dict[str, Callable[[Place], socket.socket]] = {
    "as soon as it is there": Place.connect_plainly,
    "in the first flight": half_a_handshake,
    "behind the first flight": whole_first_flight,
    "behind garbage": broken_flight,
    "behind the header": says(c.PROTOCOL_HEADER),
    "with the greeting read": says(c.PROTOCOL_HEADER, heard=1),
    "inside of start-ok": says(handshake()[:60]),
    "while its password is compared": says(handshake()[: len(handshake()) - 30]),
    "while it is refused": says(WRONG),
    "before open-ok": says(handshake()),
    "while a channel opens": says(OPEN, heard=3),
    "behind a word": says_at_last(PUBLISH),
    "behind a flood": says_at_last(PUBLISH * 1000),
    "with its close": says(OPEN + CLOSE),
    "with its close, behind what was read": says(OPEN + CLOSE, heard=4),
    "with its close and much behind": says(OPEN + CLOSE + PUBLISH * 300),
    "with close-ok read and much behind": says(OPEN + CLOSE + PUBLISH * 300, heard=5),
    "with our close": says(OPEN + on_channel(7, m.BasicQos(0, 1, False))),
    "with our close read": says(OPEN + on_channel(7, m.BasicQos(0, 1, False)), heard=5),
    "with its close-ok": says(OPEN + on_channel(7, m.BasicQos(0, 1, False)) + on_channel(0, m.ConnectionCloseOk())),
    "with our close and much behind": says(OPEN + b"\x01\x00\x00\x00\x00\x00\x04garb\xff" + PUBLISH * 300),
    "below a large delivery": large_delivery,
    "with its close below a large delivery": close_below_a_large_delivery,
    "with our close below a large delivery": fault_below_a_large_delivery,
}


def sockets_of(broker: Broker) -> int:
    """How many the process has open."""
    count = 0
    for each in Path(f"/proc/{broker.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it is closed meanwhile
            count += str(each.readlink()).startswith("socket:")
    return count


def until_sockets(broker: Broker, wanted: int) -> int:
    """How many are left when there are so few, or when that has taken too long."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := sockets_of(broker)) > wanted and time.monotonic() < deadline:
        broker.statistics()
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_is_reset_leaves_nothing(place: Place, name: str) -> None:
    broker = place.broker
    with Witness(broker):
        before = sockets_of(broker)
        for _ in range(ROUNDS):
            reset(CLIENTS[name](place))
        assert until_sockets(broker, before) <= before, "sockets are left open"
        with broker.connect() as client, client.channel() as channel:
            found = broker.settled_statistics(connections=3, queues=2)
            assert found["connections"] == 3
            assert found["queues"] <= 2, "theirs are left"
            left = channel.call(m.QueueDeclare(queue="large", passive=True))
            assert (left.message_count, left.consumer_count) == (BODIES, 0)
    said = broker.log_text()
    assert "defect" not in said
    assert "Traceback" not in said
