"""The frames of an open link: whole, in order, once, or the link fails."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.cluster.peer_handshake import PeerLinkError
from amqp_broker.cluster.peer_protocol import FRAME_OVERHEAD, PING, PeerProtocol
from tests.cluster.link_pair import EPOCH, MAX_FRAME_BYTES, acceptor, dialler, nonce, opened, refusal, shake

PAYLOADS = [b"one", b"x" * 5000, b"\0", b"four"]


def split(pieces: list[bytes]) -> list[bytes]:
    """Frames as they lie on the wire, from pieces."""
    data, frames = b"".join(pieces), []
    while data:
        size = 4 + struct.unpack_from(">I", data)[0]
        frames.append(data[:size])
        data = data[size:]
    return frames


@pytest.mark.parametrize("is_tls", [False, True])
@given(payloads=st.lists(st.binary(min_size=1, max_size=300), max_size=10), data=st.data())
def test_frames_cut_anywhere_come_out_as_they_went_in(is_tls: bool, payloads: list[bytes], data: st.DataObject) -> None:
    """In both directions."""
    first, second = opened(tls=is_tls)
    for sender, receiver in ((first, second), (second, first)):
        wire = b"".join(sender.encode_frames(payloads))
        received, position = [], 0
        while position < len(wire):
            step = data.draw(st.integers(1, len(wire)))
            received += receiver.receive_frames(wire[position : position + step])
            position += step
        assert received == payloads


@pytest.mark.parametrize("is_tls", [False, True])
def test_octet_by_octet(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    wire = b"".join(first.encode_frames(PAYLOADS))
    received = [payload for octet in wire for payload in second.receive_frames(bytes((octet,)))]
    assert received == PAYLOADS


@pytest.mark.parametrize("is_tls", [False, True])
def test_the_largest_frame_passes_and_a_larger_one_does_not(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    largest = b"x" * MAX_FRAME_BYTES
    assert second.receive_frames(b"".join(first.encode_frames([largest]))) == [largest]
    with pytest.raises(ValueError, match="at most 100000 are allowed"):
        first.encode_frames([largest + b"x"])
    extra = 0 if is_tls else FRAME_OVERHEAD - 4
    assert "is the limit the same" in refusal(second, struct.pack(">I", MAX_FRAME_BYTES + extra + 1))


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_ping_is_not_handed_over(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    wire = b"".join(first.encode_frames([PING, b"frame", PING]))
    assert second.receive_frames(wire) == [b"frame"]


def test_the_cost_of_a_frame() -> None:
    first, _ = opened()
    assert len(b"".join(first.encode_frames([b"12345"]))) == 5 + FRAME_OVERHEAD
    tls, _ = opened(tls=True)
    assert len(b"".join(tls.encode_frames([b"12345"]))) == 5 + 4


def test_a_changed_octet_anywhere_is_noticed() -> None:
    length = 5 + FRAME_OVERHEAD
    for position in range(4, length):
        first, second = opened()
        wire = bytearray(b"".join(first.encode_frames([b"12345"])))
        wire[position] ^= 1
        assert "its MAC is wrong" in refusal(second, bytes(wire))


def test_a_changed_length_is_noticed() -> None:
    """A longer one takes the next frame into its MAC; a shorter one cuts it."""
    for change in (-5, -1, 1, 28):
        first, second = opened()
        wire = b"".join(first.encode_frames([b"12345", b"6789" * 10]))
        (length,) = struct.unpack_from(">I", wire)
        assert "its MAC is wrong" in refusal(second, struct.pack(">I", length + change) + wire[4:])


def test_a_frame_too_short_for_a_mac_is_refused() -> None:
    _, second = opened()
    assert "0 to 100000 are allowed" in refusal(second, struct.pack(">I", FRAME_OVERHEAD - 5))


@pytest.mark.parametrize(
    ("count", "wrong"),
    [(1, 0), (0, 1), (1, 2), (3, 1), (4, 0)],
    ids=["repeated", "the first lost", "one lost", "an old one", "the first again"],
)
def test_repeated_lost_and_exchanged_frames_are_noticed(count: int, wrong: int) -> None:
    first, second = opened()
    frames = split(first.encode_frames(PAYLOADS))
    assert second.receive_frames(b"".join(frames[:count])) == PAYLOADS[:count]
    assert "were repeated, lost or exchanged" in refusal(second, frames[wrong])


def test_a_frame_sent_back_to_who_sent_it_is_refused() -> None:
    """Each direction has a key of its own."""
    first, second = opened()
    for end in (first, second):
        assert "its MAC is wrong" in refusal(end, b"".join(end.encode_frames([b"reflected"])))


def test_frames_of_one_link_are_worth_nothing_on_another() -> None:
    """Of the same two nodes, with other nonces."""
    first, second = opened()
    other_first, other_second = dialler(number=8), acceptor(number=9)
    shake(other_first, other_second)
    assert other_second.epoch == EPOCH
    wire = b"".join(first.encode_frames([b"of the first link"]))
    assert "its MAC is wrong" in refusal(other_second, wire)
    assert second.receive_frames(wire) == [b"of the first link"]


def test_a_fault_takes_the_link_with_everything_after_it() -> None:
    first, second = opened()
    frames = split(first.encode_frames(PAYLOADS))
    assert "were repeated" in refusal(second, frames[0] + frames[0] + frames[1])
    with pytest.raises(PeerLinkError, match="out of turn"):
        second.receive_frames(frames[1])
    with pytest.raises(ValueError, match="FAILED takes no frames"):
        second.encode_frames([b"x"])


@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
def test_octets_of_chance_are_refused_or_waited_for(pieces: list[bytes], is_tls: bool) -> None:
    """Only PeerLinkError escapes, and without TLS nothing is ever handed over."""
    _, second = opened(tls=is_tls)
    try:
        for piece in pieces:
            payloads = second.receive_frames(piece)
            assert is_tls or payloads == []
    except PeerLinkError:
        assert not second.is_open


@given(st.data())
def test_a_damaged_stream_gives_a_beginning_of_what_was_sent(data: st.DataObject) -> None:
    first, second = opened()
    wire = b"".join(first.encode_frames(PAYLOADS))
    start = data.draw(st.integers(0, len(wire)))
    stop = data.draw(st.integers(start, len(wire)))
    changed = wire[:start] + data.draw(st.binary(max_size=60)) + wire[stop:]
    received: list[bytes] = []
    try:
        for position in range(0, len(changed), 997):
            received += second.receive_frames(changed[position : position + 997])
    except PeerLinkError:
        assert not second.is_open
    assert received == PAYLOADS[: len(received)]


def test_what_is_unfinished_is_bounded() -> None:
    """Not by what the sender announces, but by what it may announce."""
    first, second = opened()
    wire = b"".join(first.encode_frames([b"x" * MAX_FRAME_BYTES]))
    assert second.receive_frames(wire[:-1]) == []
    assert len(second._pending) == len(wire) - 1
    assert second.receive_frames(wire[-1:]) == [b"x" * MAX_FRAME_BYTES]
    assert len(second._pending) == 0


def test_nonces_make_links_differ() -> None:
    keys = []
    for number in (1, 2):
        protocol: PeerProtocol = dialler(number=number)
        assert nonce(number) in protocol.take_output()
        keys.append(protocol)
    assert keys[0]._hello != keys[1]._hello
