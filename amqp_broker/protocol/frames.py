"""Frames (AMQP 0-9-1 §4.2.3) and contents (§4.2.6) for clients, tools and tests.

The broker's own hot path scans and writes frames in place; this module is for everything that may make an
object of each frame. A frame is one octet of type, two of channel, four of size, the payload, and the end
octet 0xCE.

Invariants:
1. However the octets are cut into chunks, FrameParser yields the same frames, or fails at the same octet.
2. FrameParser keeps no more than one incomplete frame, whose size it has checked as soon as its header was
there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from amqp_broker.protocol import constants as c
from amqp_broker.protocol.errors import EncodeError, FrameError, PropertyError
from amqp_broker.protocol.methods import Method, encode_method

_HEADER: Final = struct.Struct(">BHI")
_CONTENT_HEADER: Final = struct.Struct(">HHQ")
_END: Final = bytes([c.FRAME_END])


class Frame(NamedTuple):
    """One frame without its envelope."""

    type: int
    channel: int
    payload: bytes


class ContentHeader(NamedTuple):
    """A header frame's payload: the class, how many octets of body follow, the property section as it is."""

    class_id: int
    body_size: int
    properties: bytes


def encode_frame(frame_type: int, channel: int, payload: bytes) -> bytes:
    """One whole frame; EncodeError for a channel or a size that does not fit."""
    try:
        return _HEADER.pack(frame_type, channel, len(payload)) + payload + _END
    except struct.error as error:
        text = f"frame of type {frame_type} on channel {channel} with {len(payload)} octets: {error}"
        raise EncodeError(text) from None


def encode_method_frame(channel: int, method: Method) -> bytes:
    """The frame that carries a method; EncodeError for an argument that does not fit."""
    return encode_frame(c.FRAME_METHOD, channel, encode_method(method))


def encode_content_header(body_size: int, properties: bytes, class_id: int = c.CLASS_BASIC) -> bytes:
    """The payload of a header frame: `properties` is a property section, flags included."""
    return _CONTENT_HEADER.pack(class_id, 0, body_size) + properties


def decode_content_header(payload: bytes) -> ContentHeader:
    """The content header in a header frame's payload; PropertyError if it is too short or has a weight."""
    if len(payload) < _CONTENT_HEADER.size + 2:
        raise PropertyError(
            f"content header of {len(payload)} octets: at least {_CONTENT_HEADER.size + 2} belong to it"
        )
    class_id, weight, body_size = _CONTENT_HEADER.unpack_from(payload)
    if weight != 0:
        raise PropertyError(f"content header with weight {weight}: only 0 is defined")
    return ContentHeader(class_id, body_size, payload[_CONTENT_HEADER.size :])


def encode_content(
    channel: int, properties: bytes, body: bytes, frame_max: int = c.DEFAULT_FRAME_MAX
) -> bytes:
    """The header frame and the body frames of a message; `frame_max` 0 means that frames may be of any size.

    An empty body has no body frame. EncodeError where `frame_max` leaves no room for a body or the
    properties.
    """
    header = encode_content_header(len(body), properties)
    largest = frame_max - c.FRAME_OVERHEAD if frame_max else 0xFFFFFFFF
    if largest < 1 or len(header) > largest:
        raise EncodeError(f"content header of {len(header)} octets: frame_max {frame_max} has no room for it")
    frames: list[bytes | memoryview] = [encode_frame(c.FRAME_HEADER, channel, header)]
    view = memoryview(body)
    for start in range(0, len(body), largest):
        part = view[start : start + largest]
        frames += (_HEADER.pack(c.FRAME_BODY, channel, len(part)), part, _END)
    return b"".join(frames)


class FrameParser:
    """Octets in any chunks to frames.

    `frame_max` limits a whole frame's size (0: no limit).
    """

    def __init__(self, frame_max: int = c.DEFAULT_FRAME_MAX) -> None:
        self.frame_max = frame_max
        self._received = bytearray()

    def agree(self, frame_max: int) -> None:
        """The largest frame has been negotiated, octets; 0: of any size."""
        self.frame_max = frame_max

    def receive_data(self, data: bytes) -> Iterator[Frame]:
        """Iterates over the frames that these octets complete; what is not asked for stays for the next call.

        Raises FrameError in the place of the first thing that is no frame, and there again each time.
        """
        self._received += data
        return self._frames()

    def _frames(self) -> Iterator[Frame]:
        received = self._received
        while len(received) >= c.FRAME_HEADER_SIZE:
            frame_type, channel, size = _HEADER.unpack_from(received)
            self._check(frame_type, size)
            end = c.FRAME_HEADER_SIZE + size
            if end >= len(received):
                return
            if received[end] != c.FRAME_END:
                text = f"frame of type {frame_type} on channel {channel} with {size} octets of payload"
                raise FrameError(f"{text} ends with {received[end]:#04x} instead of {c.FRAME_END:#04x}")
            with memoryview(received) as view:
                payload = bytes(view[c.FRAME_HEADER_SIZE : end])
            del received[: end + 1]
            yield Frame(frame_type, channel, payload)

    def _check(self, frame_type: int, size: int) -> None:
        """FrameError unless a frame of this type and size may be."""
        if frame_type not in c.FRAME_TYPES:
            head = bytes(self._received[:8])
            if head.startswith(b"AMQP"):
                raise FrameError(
                    f"the peer offers another protocol: {head!r} instead of {c.PROTOCOL_HEADER!r}"
                )
            raise FrameError(f"unknown frame type {frame_type}")
        if self.frame_max and size > self.frame_max - c.FRAME_OVERHEAD:
            largest = self.frame_max - c.FRAME_OVERHEAD
            raise FrameError(f"frame with {size} octets of payload: at most {largest} were negotiated")
