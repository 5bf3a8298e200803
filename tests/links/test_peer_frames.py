"""The frames of an open link: whole, in order, once, or the link fails."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.links.peer_frames import FRAME_OVERHEAD, MAC_BYTES, PING, FrameMac, PeerFrames
from amqp_broker.links.peer_handshake import PeerLinkError
from amqp_broker.links.peer_protocol import PeerProtocol
from tests.links.link_pair import EPOCH, MAX_FRAME_BYTES, acceptor, dialler, frames_of, nonce, opened, refusal, shake

PAYLOADS = [b"one", b"x" * 5000, b"\0", b"four"]

#: What is said first, by the dialler and by the acceptor, and what the version before this file made of it: nodes of
#: both versions are linked while a cluster is updated.
RECORDED = [b"", b"one", bytes(range(40))]
RECORDED_WIRES = (
    "000000180000000000000000e1066476e87aaa43a294d59ede3d6c40"
    "0000001b00000000000000016f6e65c1773f5cd6a1103e56a9e459fd20668e"
    "000000400000000000000002000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
    "63bdb4813b1b9d826e38f13ffe0c6cdf",
    "0000001800000000000000005e50d89fb4cdd1ccd6dcfeeaa3e6c276"
    "0000001b00000000000000016f6e6518fa14b86d17304146cebdabd1d43ce2"
    "000000400000000000000002000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
    "b7d8312d770df3f9bbca0b4f382c3de9",
)
#: Frames that take several reads, and SHA-256 of what was made of them after RECORDED.
RECORDED_LARGE = [b"x" * 1300, b"y" * 70000, b"z"]
RECORDED_HASHES = (
    "4fb50148b48c1e0f48c786abdfa4071594c7fac9c5e58c2e30d4ed402912785a",
    "80bb05f1844cfe76c5180ab65270ed7e13a59bff85c6d67e21177c3ae6be3503",
)
RECORDED_OVER_TLS = (
    "00000000000000036f6e6500000028000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
)
RECORDED_HASH_OVER_TLS = "e1a3769c10136b3bc3bae096d64fb6662994721d0a92b9e0e581cdec4cca2904"


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
        wire = b"".join(frames_of(sender).encode(payloads))
        received, position = [], 0
        while position < len(wire):
            step = data.draw(st.integers(1, len(wire)))
            received += frames_of(receiver).receive(wire[position : position + step])
            position += step
        assert received == payloads


@pytest.mark.parametrize("is_tls", [False, True])
def test_the_octets_are_those_of_the_version_before(is_tls: bool) -> None:
    """And what that one says is understood."""
    for index, sender in enumerate(opened(tls=is_tls)):
        wire = b"".join(frames_of(sender).encode(RECORDED))
        assert wire.hex() == (RECORDED_OVER_TLS if is_tls else RECORDED_WIRES[index])
        large = b"".join(frames_of(sender).encode(RECORDED_LARGE))
        assert hashlib.sha256(large).hexdigest() == (RECORDED_HASH_OVER_TLS if is_tls else RECORDED_HASHES[index])
        receiver = frames_of(opened(tls=is_tls)[1 - index])
        assert receiver.receive(wire + large) == RECORDED[1:] + RECORDED_LARGE


@given(st.binary(min_size=1, max_size=64), st.binary(max_size=12), st.binary(max_size=3000))
def test_the_mac_is_that_of_the_standard_library(key: bytes, header: bytes, payload: bytes) -> None:
    mac = FrameMac(key)
    for _ in range(2):  # what is keyed is not used up
        assert mac.of(header, payload) == hmac.digest(key, header + payload, "sha256")[:MAC_BYTES]


@pytest.mark.parametrize("length", [0, 65])
def test_a_key_that_hmac_would_change_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"the key of the frames has {length} octets: it takes 1 to 64"):
        PeerFrames("n2", MAX_FRAME_BYTES, bytes(length), bytes(32))


@pytest.mark.parametrize("is_tls", [False, True])
def test_octet_by_octet(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    wire = b"".join(frames_of(first).encode(PAYLOADS))
    received = [payload for octet in wire for payload in frames_of(second).receive(bytes((octet,)))]
    assert received == PAYLOADS


@pytest.mark.parametrize("is_tls", [False, True])
def test_the_largest_frame_passes_and_a_larger_one_does_not(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    largest = b"x" * MAX_FRAME_BYTES
    assert frames_of(second).receive(b"".join(frames_of(first).encode([largest]))) == [largest]
    with pytest.raises(ValueError, match="at most 100000 are allowed"):
        frames_of(first).encode([largest + b"x"])
    extra = 0 if is_tls else FRAME_OVERHEAD - 4
    assert "is the limit the same" in refusal(second, struct.pack(">I", MAX_FRAME_BYTES + extra + 1))


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_ping_is_not_handed_over(is_tls: bool) -> None:
    first, second = opened(tls=is_tls)
    wire = b"".join(frames_of(first).encode([PING, b"frame", PING]))
    assert frames_of(second).receive(wire) == [b"frame"]


def test_the_cost_of_a_frame() -> None:
    first, _ = opened()
    assert len(b"".join(frames_of(first).encode([b"12345"]))) == 5 + FRAME_OVERHEAD
    tls, _ = opened(tls=True)
    assert len(b"".join(frames_of(tls).encode([b"12345"]))) == 5 + 4


def test_a_changed_octet_anywhere_is_noticed() -> None:
    length = 5 + FRAME_OVERHEAD
    for position in range(4, length):
        first, second = opened()
        wire = bytearray(b"".join(frames_of(first).encode([b"12345"])))
        wire[position] ^= 1
        assert "its MAC is wrong" in refusal(second, bytes(wire))


def test_a_changed_length_is_noticed() -> None:
    """A longer one takes the next frame into its MAC; a shorter one cuts it."""
    for change in (-5, -1, 1, 28):
        first, second = opened()
        wire = b"".join(frames_of(first).encode([b"12345", b"6789" * 10]))
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
    frames = split(frames_of(first).encode(PAYLOADS))
    assert frames_of(second).receive(b"".join(frames[:count])) == PAYLOADS[:count]
    assert "were repeated, lost or exchanged" in refusal(second, frames[wrong])


def test_a_frame_sent_back_to_who_sent_it_is_refused() -> None:
    """Each direction has a key of its own."""
    first, second = opened()
    for end in (first, second):
        assert "its MAC is wrong" in refusal(end, b"".join(frames_of(end).encode([b"reflected"])))


def test_frames_of_one_link_are_worth_nothing_on_another() -> None:
    """Of the same two nodes, with other nonces."""
    first, second = opened()
    other_first, other_second = dialler(number=8), acceptor(number=9)
    shake(other_first, other_second)
    assert other_second.epoch == EPOCH
    wire = b"".join(frames_of(first).encode([b"of the first link"]))
    assert "its MAC is wrong" in refusal(other_second, wire)
    assert frames_of(second).receive(wire) == [b"of the first link"]


def test_a_fault_takes_the_link_with_everything_after_it() -> None:
    first, second = opened()
    frames = split(frames_of(first).encode(PAYLOADS))
    assert "were repeated" in refusal(second, frames[0] + frames[0] + frames[1])
    with pytest.raises(PeerLinkError, match="out of turn"):
        frames_of(second).receive(frames[1])
    with pytest.raises(ValueError, match="has failed: it takes no frames"):
        frames_of(second).encode([b"x"])


@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
def test_octets_of_chance_are_refused_or_waited_for(pieces: list[bytes], is_tls: bool) -> None:
    """Only PeerLinkError escapes, and without TLS nothing is ever handed over."""
    _, second = opened(tls=is_tls)
    try:
        for piece in pieces:
            payloads = frames_of(second).receive(piece)
            assert is_tls or payloads == []
    except PeerLinkError:
        assert not second.is_open


@given(st.data())
def test_a_damaged_stream_gives_a_beginning_of_what_was_sent(data: st.DataObject) -> None:
    first, second = opened()
    wire = b"".join(frames_of(first).encode(PAYLOADS))
    start = data.draw(st.integers(0, len(wire)))
    stop = data.draw(st.integers(start, len(wire)))
    changed = wire[:start] + data.draw(st.binary(max_size=60)) + wire[stop:]
    received: list[bytes] = []
    try:
        for position in range(0, len(changed), 997):
            received += frames_of(second).receive(changed[position : position + 997])
    except PeerLinkError:
        assert not second.is_open
    assert received == PAYLOADS[: len(received)]


def test_what_is_unfinished_is_bounded() -> None:
    """Not by what the sender announces, but by what it may announce."""
    first, second = opened()
    wire = b"".join(frames_of(first).encode([b"x" * MAX_FRAME_BYTES]))
    assert frames_of(second).receive(wire[:-1]) == []
    assert len(frames_of(second).pending) == len(wire) - 1
    assert frames_of(second).receive(wire[-1:]) == [b"x" * MAX_FRAME_BYTES]
    assert len(frames_of(second).pending) == 0


def test_nonces_make_links_differ() -> None:
    keys = []
    for number in (1, 2):
        protocol: PeerProtocol = dialler(number=number)
        assert nonce(number) in protocol.take_output()
        keys.append(protocol)
    assert keys[0]._hello != keys[1]._hello
