"""The state of a connection that moves: each comes back as it was, and octets that do not add up are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.channel.channel_state import ChannelState
from amqp_broker.connection.connection_state import ConnectionState
from amqp_broker.protocol.fields import encode_table
from queues.wire.reader import Malformed
from raft.errors import PeerProtocolError
from tests.example_counts import examples
from tests.node.worker_world import WorkerWorld

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.binary(max_size=300).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
CHANNELS = st.builds(
    ChannelState, st.integers(0, 65535), st.booleans(), st.booleans(), st.booleans(), st.none() | NAMES, *[NUMBERS] * 14
)
PROPERTIES = st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(0, 9) | st.text(max_size=9)).map(
    encode_table
)
STATES = st.builds(
    ConnectionState, *[NAMES] * 6, PROPERTIES, st.binary(max_size=200), st.lists(CHANNELS, max_size=4).map(tuple),
    *[NUMBERS] * 11, st.booleans(),
)  # fmt: skip


@given(STATES)
@settings(max_examples=examples(200), deadline=None)
def test_each_comes_back_as_it_was(state: ConnectionState) -> None:
    again = ConnectionState.decode(state.encode())
    assert again == state
    assert encode_table(again.client_properties()) == state.properties


@given(STATES, st.data())
@settings(max_examples=examples(100), deadline=None)
def test_octets_that_do_not_add_up_are_malformed(state: ConnectionState, data: st.DataObject) -> None:
    octets = state.encode()
    cut = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(Malformed):
        ConnectionState.decode(octets[:cut])
    with pytest.raises(Malformed):
        ConnectionState.decode(octets + b"\x00")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\x02\x01" + bytes(8), "version 02"),
        (b"\x01\x01" + bytes(7), "version 01"),
        (b"", "version "),
        (b"\x01\x09" + bytes(8), "says 9"),
        (b"\x01\x01" + bytes(8), "octets are announced"),
    ],
)
def test_a_frame_of_another_version_ends_the_link(frame: bytes, why: str) -> None:
    world = WorkerWorld()
    steering = world.nodes["n1"].node.steering
    with pytest.raises(PeerProtocolError, match=why):
        steering.receive("n1/1", frame, world.now)
