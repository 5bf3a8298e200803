"""Heartbeats: sent every half interval, any octet counts as life, silence ends the connection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_codec import FRAME_HEARTBEAT, encode_frame, encode_method

Connect = Callable[..., Connection]

pytestmark = pytest.mark.octets_too_slow


def _await_heartbeats(connection: Connection, count: int) -> None:
    for _ in range(count):
        frame = connection.read_frame(timeout_s=20)
        assert frame is not None
        assert frame == (FRAME_HEARTBEAT, 0, b"")


@pytest.mark.holds("heartbeat: the broker sends them within the negotiated interval")
def test_the_broker_sends_heartbeats(connect: Connect) -> None:
    """On an idle connection of one second the broker shows that it lives, as empty frames of type 8 on
    channel 0.
    """
    connection = connect(heartbeat=1)
    frame = connection.read_frame(timeout_s=20)
    assert frame == (FRAME_HEARTBEAT, 0, b"")


@pytest.mark.holds("heartbeat: a peer that is silent for two intervals is dropped")
def test_a_silent_client_is_dropped(connect: Connect) -> None:
    """The broker gives up on a client of which it hears nothing, without a close."""
    connection = connect(heartbeat=1)
    connection.expect_end(timeout_s=20)


@pytest.mark.holds("heartbeat: heartbeat frames keep a connection")
def test_heartbeats_keep_a_connection(connect: Connect) -> None:
    """A client that answers each heartbeat with its own is kept for longer than the broker's patience."""
    connection = connect(heartbeat=1)
    for _ in range(5):
        _await_heartbeats(connection, 1)
        connection.send_frame(FRAME_HEARTBEAT, 0, b"")
    connection.channel().call("channel.flow", active=True)


@pytest.mark.holds("heartbeat: any octet counts, even one of an unfinished frame")
def test_single_octets_keep_a_connection(connect: Connect) -> None:
    """A frame that trickles in octet by octet is traffic; its method is answered when it is whole."""
    connection = connect(heartbeat=1)
    octets = encode_frame(1, 1, encode_method("channel.open"))
    for index in range(6):
        connection.send_octets(octets[index : index + 1])
        connection.flush()
        _await_heartbeats(connection, 1)
    connection.send_octets(octets[6:])
    connection.expect("channel.open-ok", 1)
