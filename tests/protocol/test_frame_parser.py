"""frames.py: the envelope against the grammar, any chunks alike, limits, and bodies cut to frame_max."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import grammar
from amqp_broker.protocol.errors import EncodeError, FrameError, PropertyError
from amqp_broker.protocol.frames import (
    ContentHeader,
    Frame,
    FrameParser,
    decode_content_header,
    encode_content,
    encode_content_header,
    encode_frame,
    encode_method_frame,
)
from amqp_broker.protocol.methods import BasicPublish, QueueDeclareOk, decode_method
from amqp_broker.protocol.properties import NO_PROPERTIES, encode_properties

FRAMES = st.builds(Frame, st.sampled_from(c.FRAME_TYPES), st.integers(0, 65535), st.binary(max_size=200))


def parse(data: bytes, frame_max: int = c.DEFAULT_FRAME_MAX) -> list[Frame]:
    return list(FrameParser(frame_max).receive_data(data))


@given(FRAMES)
def test_equals_the_grammar(frame: Frame) -> None:
    octets = encode_frame(*frame)
    assert octets == grammar.Frame.build(
        {"type": frame.type, "channel": frame.channel, "payload": frame.payload, "end": c.FRAME_END}
    )
    assert parse(octets) == [frame]


@settings(deadline=None)
@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_chunks_do_not_matter(frames: list[Frame], sizes: list[int]) -> None:
    data = b"".join(encode_frame(*frame) for frame in frames)
    parser = FrameParser()
    found: list[Frame] = []
    position = 0
    for size in itertools.cycle(sizes):
        if position >= len(data):
            break
        found += parser.receive_data(data[position : position + size])
        position += size
    assert found == frames
    assert len(parser._received) == 0


def test_a_method_frame_octet_by_octet() -> None:
    octets = encode_method_frame(7, QueueDeclareOk("q", 3, 1))
    parser = FrameParser()
    found = [frame for octet in octets for frame in parser.receive_data(bytes([octet]))]
    assert [(frame.type, frame.channel) for frame in found] == [(c.FRAME_METHOD, 7)]
    assert decode_method(found[0].payload) == QueueDeclareOk("q", 3, 1)


def test_frames_before_a_bad_one_are_still_given() -> None:
    parser = FrameParser()
    frames = parser.receive_data(c.HEARTBEAT_FRAME + c.HEARTBEAT_FRAME[:-1] + b"\xcf")
    assert next(frames) == Frame(c.FRAME_HEARTBEAT, 0, b"")
    with pytest.raises(FrameError, match=r"ends with 0xcf instead of 0xce"):
        next(frames)
    with pytest.raises(FrameError):
        list(parser.receive_data(b""))


def test_frames_not_asked_for_stay() -> None:
    parser = FrameParser()
    assert next(parser.receive_data(c.HEARTBEAT_FRAME * 3)).type == c.FRAME_HEARTBEAT
    assert len(parser._received) == 16
    assert len(list(parser.receive_data(b""))) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\0\0\0\0\0\0", "unknown frame type 0"),
        (b"\x04\0\0\0\0\0\0", "unknown frame type 4"),
        (b"\xce\0\0\0\0\0\0", "unknown frame type 206"),
        (b"GET / HTTP/1.1\r\n", "unknown frame type 71"),
        (c.PROTOCOL_HEADER, "the peer offers another protocol"),
        (b"\x03\0\1\xff\xff\xff\xff", "4294967295 octets of payload: at most 131064 were negotiated"),
        (b"\x03\0\1\0\1\xff\xf9", "131065 octets of payload"),
        (b"\x08\0\0\0\0\0\0\x00", "ends with 0x00"),
    ],
)
def test_what_is_no_frame(data: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message) as caught:
        parse(data)
    assert caught.value.reply_code == 501


def test_a_frame_that_is_too_large_is_refused_from_its_header_alone() -> None:
    parser = FrameParser(4096)
    assert list(parser.receive_data(b"\x03\0\1\0\0\x0f\xf8" + b"x")) == []
    parser = FrameParser(4096)
    with pytest.raises(FrameError, match="4089 octets of payload: at most 4088"):
        list(parser.receive_data(b"\x03\0\1\0\0\x0f\xf9"))


def test_frame_max_may_be_set_between_two_frames_of_one_chunk() -> None:
    parser = FrameParser(4096)
    small = encode_frame(c.FRAME_BODY, 1, b"x")
    large = encode_frame(c.FRAME_BODY, 1, bytes(5000))
    frames = parser.receive_data(small + large)
    assert next(frames).payload == b"x"
    parser.frame_max = 0
    assert len(next(frames).payload) == 5000


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 8177, 20000])
def test_a_body_is_cut_to_frame_max(size: int) -> None:
    body = bytes(range(256)) * 80
    body = body[:size]
    properties = encode_properties({"delivery_mode": 2})
    header, *bodies = parse(encode_content(5, properties, body, frame_max=4096), frame_max=4096)
    assert (header.type, header.channel) == (c.FRAME_HEADER, 5)
    assert decode_content_header(header.payload) == ContentHeader(60, size, properties)
    assert [len(frame.payload) for frame in bodies[:-1]] == [4088] * (len(bodies) - 1)
    assert b"".join(frame.payload for frame in bodies) == body
    assert all(frame.payload and frame.type == c.FRAME_BODY and frame.channel == 5 for frame in bodies)


def test_frame_max_zero_means_one_body_frame() -> None:
    frames = parse(encode_content(1, NO_PROPERTIES, bytes(300_000), frame_max=0), frame_max=0)
    assert [len(frame.payload) for frame in frames] == [14, 300_000]


def test_properties_that_do_not_fit_a_frame() -> None:
    with pytest.raises(EncodeError, match="frame_max 4096 has no room"):
        encode_content(1, encode_properties({"headers": {"a": "x" * 5000}}), b"", frame_max=4096)


@given(st.integers(0, (1 << 64) - 1), st.binary(min_size=2, max_size=30))
def test_content_header_equals_the_grammar(body_size: int, properties: bytes) -> None:
    payload = encode_content_header(body_size, properties)
    parsed = grammar.ContentHeader.parse(payload)
    assert (parsed.class_id, parsed.body_size, parsed.properties) == (60, body_size, properties)
    assert decode_content_header(payload) == ContentHeader(60, body_size, properties)


@pytest.mark.parametrize("payload", [b"", bytes(13), b"\0\x3c\0\1" + bytes(10)])
def test_malformed_content_headers(payload: bytes) -> None:
    with pytest.raises(PropertyError):
        decode_content_header(payload)


def test_a_channel_that_does_not_fit() -> None:
    for channel in (-1, 65536):
        with pytest.raises(EncodeError, match=f"on channel {channel}"):
            encode_method_frame(channel, BasicPublish())
