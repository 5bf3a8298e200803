"""Clients that come in thousands, half, slowly or broken: others go on, and nothing is left behind."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import encode_content_header, encode_frame, encode_method_frame
from tests.fuzz.harness import handshake, on_channel
from tests.robustness.broker import IS_PLAIN, MIB, Broker, Witness, frames_of, round_trip

SLACK = 48 * MIB
SLOWER = 5 if IS_PLAIN else 1


@pytest.fixture
def descriptors() -> Iterator[int]:
    """As many open files as the system lets this process, and the brokers that it starts, have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        pytest.param(3000, 1000, id="beyond the limit of pending handshakes"),
        pytest.param(10_000, 20_000, id="ten thousand at once", marks=pytest.mark.long),
    ],
)
def test_half_open_handshakes(tmp_path: Path, descriptors: int, wanted: int, kept: int) -> None:
    """They say half a header and no more. `max_pending_handshakes` bounds them; the oldest make room."""
    count = min(wanted, descriptors - 500)
    flags = ("--max-pending-handshakes", str(kept), "--handshake-timeout", "60s", "--max-connections", "20000")
    with Broker(tmp_path, *flags) as broker, Witness(broker), ExitStack() as opened:
        transports = []
        for _ in range(count):
            transports.append(opened.enter_context(broker.socket()))
            transports[-1].sendall(b"AMQP\0")
        grown = broker.grown()
        assert grown < SLACK + min(count, kept) * 16_384, f"the broker has grown by {grown / MIB:.0f} MiB"
        assert broker.statistics()["connections"] == 2
        for transport in transports:
            transport.close()
        with broker.connect() as client:
            channel = client.channel()
            channel.confirm_select()
            round_trip(channel)


def test_a_handshake_octet_by_octet(tmp_path: Path) -> None:
    """Slow is fine within the timeout; beyond it the transport is dropped."""
    with Broker(tmp_path, "--handshake-timeout", "5s") as broker, Witness(broker):
        patient = broker.socket()
        for octet in handshake():
            patient.sendall(bytes([octet]))
        assert len(frames_of(patient, until=3)) == 3
        late = broker.socket()
        late.sendall(c.PROTOCOL_HEADER)
        begun = time.monotonic()
        assert len(frames_of(late, 60)) == 1
        assert time.monotonic() - begun < 40
        patient.close()


def test_contents_of_all_sizes(tmp_path: Path) -> None:
    """Declared sizes that never come, headers above the limit, tables too deep: the right code each, and no memory."""
    publish = encode_method_frame(1, m.BasicPublish(0, "", "nobody"))
    deep = b""
    for _ in range(1000):
        deep = b"\x01tF" + len(deep).to_bytes(4, "big") + deep
    too_deep = b"\x20\x00" + len(deep).to_bytes(4, "big") + deep
    header = encode_frame(2, 1, encode_content_header(128 * MIB, b"\x00\x00"))
    expected = {
        "beyond all bounds": (encode_frame(2, 1, encode_content_header(1 << 63, b"\x00\x00")), 501),
        "above the limit": (encode_frame(2, 1, encode_content_header(200 * MIB, b"\x00\x00")), 406),
        "too deep": (encode_frame(2, 1, encode_content_header(0, too_deep)), 502),
        "a frame above frame_max": (b"\x02\x00\x01" + (1 << 20).to_bytes(4, "big"), 501),
        "more body than declared": (
            encode_frame(2, 1, encode_content_header(1, b"\x00\x00")) + encode_frame(3, 1, b"xx"),
            501,
        ),
    }
    with Broker(tmp_path) as broker, Witness(broker):
        for what, (octets, code) in expected.items():
            transport = broker.raw()
            transport.sendall(on_channel(1, m.ChannelOpen()) + publish + octets)
            payload = frames_of(transport, until=5)[4][1]
            close = m.decode_method(payload)
            assert isinstance(close, m.ConnectionClose | m.ChannelClose), what
            assert close.reply_code == code, what
            transport.close()
        waiting = []
        for _ in range(50):
            waiting.append(broker.raw())
            waiting[-1].sendall(on_channel(1, m.ChannelOpen()) + publish + header)
        frames_of(waiting[-1], until=4)
        assert broker.grown() < SLACK, "what is only declared takes memory"
        # Ten mebibytes in frames of two octets: what is kept of them is what they hold.
        transport = broker.raw()
        count = MIB // SLOWER
        transport.sendall(on_channel(1, m.ChannelOpen()) + publish + header)
        transport.sendall(encode_frame(3, 1, b"xx") * count)
        transport.sendall(encode_frame(8, 0, b"") + on_channel(2, m.ChannelOpen()))
        frames_of(transport, until=5)
        assert broker.grown() < SLACK + 4 * count, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
        for each in [*waiting, transport]:
            each.close()


def test_a_connection_with_thousands_of_everything(tmp_path: Path) -> None:
    """Channels, exclusive queues and consumers; all are gone with it."""
    count = 2000 // SLOWER
    with Broker(tmp_path) as broker, Witness(broker):
        left = broker.settled_statistics(connections=2)["queues"]
        transport = broker.raw()
        octets = b"".join(
            on_channel(
                number,
                m.ChannelOpen(),
                m.QueueDeclare(queue=f"queue {number}", exclusive=True),
                m.BasicConsume(queue=f"queue {number}", consumer_tag="tag"),
            )
            for number in range(1, count + 1)
        )
        transport.sendall(octets)
        assert len(frames_of(transport, until=3 + 3 * count)) == 3 + 3 * count
        found = broker.statistics()
        assert found["consumers"] >= count
        assert found["queues"] >= count
        assert broker.grown() < SLACK + count * 20_000, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"
        transport.close()
        found = broker.settled_statistics(connections=2, consumers=0, queues=left)  # the queues go in slices
        assert (found["connections"], found["consumers"], found["queues"]) == (2, 0, left)
        assert found["channels"] == 2


def test_connections_that_come_and_go(tmp_path: Path) -> None:
    """Politely, rudely, and with a reset; memory is given back."""
    with Broker(tmp_path) as broker, Witness(broker):
        for number in range(1500 // SLOWER):
            transport = broker.raw()
            transport.sendall(on_channel(1, m.ChannelOpen(), m.QueueDeclare(exclusive=True)))
            if number % 3 == 0:
                frames_of(transport, until=5)
                transport.sendall(encode_method_frame(0, m.ConnectionClose(200, "bye")))
                frames_of(transport, 5, until=1)
            elif number % 3 == 1:
                transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.close()
        found = broker.settled_statistics(connections=2)
        assert found["connections"] == 2
        assert found["queues"] <= 1
        assert broker.grown() < SLACK, f"the broker has grown by {broker.grown() / MIB:.0f} MiB"


def test_halves_of_sockets_and_resets(tmp_path: Path) -> None:
    """A client that says it will send no more is at its end; one that is reset inside a frame takes nothing along."""
    with Broker(tmp_path) as broker, Witness(broker):
        half = broker.raw()
        half.sendall(on_channel(1, m.ChannelOpen(), m.QueueDeclare(exclusive=True)))
        assert len(frames_of(half, until=5)) == 5
        half.shutdown(socket.SHUT_WR)
        half.settimeout(60)
        assert half.recv(1) == b"", "the broker closes its half too"
        half.close()
        publish = on_channel(1, (m.BasicPublish(0, "", "kept"), b"\x10\x00\x02", b"x" * 50_000))
        with broker.connect() as owner:
            channel = owner.channel()
            channel.call(m.QueueDeclare(queue="kept", durable=True))
            for cut in range(1, len(publish), len(publish) // 40):
                transport = broker.raw()
                transport.sendall(on_channel(1, m.ChannelOpen()) + publish[:cut])
                transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                transport.close()
            found = broker.settled_statistics(connections=3)
            assert found["connections"] == 3
            assert channel.call(m.QueueDelete(queue="kept")).message_count == 0
        assert "defect" not in broker.log_text()


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2000 // SLOWER, id="some"),
        pytest.param(100_000, id="a hundred thousand", marks=pytest.mark.long),
    ],
)
def test_connections_that_are_closed_leave_nothing_to_be_collected(tmp_path: Path, count: int) -> None:
    """Each goes at once: the memory does not grow, and the collector never stops everybody for long."""
    said = on_channel(1, m.ChannelOpen()) + encode_method_frame(0, m.ConnectionClose(200, "bye"))
    with Broker(tmp_path, "--log-level", "warning") as broker:
        for number in range(300 + count):
            if number == 300:
                before = broker.rss()
            transport = broker.raw()
            transport.sendall(said)
            frames_of(transport, until=5)
            transport.close()
        grown = broker.rss() - before
        assert grown < 10 * MIB, f"{count} connections that are gone take {grown / MIB:.1f} MiB"
