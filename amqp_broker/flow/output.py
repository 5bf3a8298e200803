"""Output: what a connection has to say, until the driver writes it.

Small frames are put together in one buffer, so that a turn leaves in one write. The chunks of a large body are kept as
they are, between pieces of the buffer, for a vectored write.
"""

from __future__ import annotations

import cython

from amqp_broker.octets.buffer import Buffer
from queues.message import Message

if not cython.compiled:
    import struct

    _pack_tag = struct.Struct(">Q?").pack
    _pack_head = struct.Struct(">BHL").pack
    _pack_size = struct.Struct(">L").pack

#: A buffer that has grown beyond this is given back when it is empty, so that an idle connection is small.
_KEEP_BYTES = 131_072


class Output:
    """Octets in the order in which they leave. `size` counts them."""

    def __init__(self) -> None:
        self.buffer = Buffer(256)
        self.chunks: list[bytes] = []
        self.chunk_bytes = 0
        # Of plain code: the method frame of a delivery up to its tag, and what it was made of.
        self._head = b""
        self._prefix = b""
        self._raw_length = 0

    def size(self) -> int:
        """Octets that wait to be taken."""
        return self.chunk_bytes + self.buffer.length

    def put_frame(self, kind: int, channel_id: int, payload: bytes) -> None:
        """A whole frame (AMQP 0-9-1 §4.2.3)."""
        buffer = self.buffer
        buffer.put_u8(kind)
        buffer.put_u16(channel_id)
        buffer.put_longstr(payload)
        buffer.put_u8(0xCE)

    def put_raw(self, octets: bytes) -> None:
        """Octets that are no frame: the protocol header."""
        self.buffer.put_bytes(octets)

    def put_ack(self, channel_id: int, method_index: int, delivery_tag: int, bits: int) -> None:
        """basic.ack or basic.nack to a publisher."""
        buffer = self.buffer
        buffer.put_u8(1)
        buffer.put_u16(channel_id)
        buffer.put_u32(13)
        buffer.put_u32(method_index)
        buffer.put_u64(delivery_tag)
        buffer.put_u8(bits)
        buffer.put_u8(0xCE)

    def put_deliver(
        self,
        prefix: bytes,
        prefix_size: int,
        delivery_tag: int,
        is_redelivered: bool,
        message: Message,
        channel_id: int,
        frame_max: int,
    ) -> None:
        """basic.deliver with its content. `prefix` is the method frame up to the delivery tag, its size still open;
        compiled, a pointer."""
        buffer = self.buffer
        content = message.content
        is_whole = message.body is None and message.body_size + 8 <= frame_max
        if not cython.compiled:
            raw, end = message.raw, message.header_end
            if prefix is not self._prefix or len(raw) != self._raw_length:
                self._prefix = prefix
                self._raw_length = len(raw)
                self._head = prefix[:3] + _pack_size(len(prefix) + len(raw) + 2) + prefix[7:]
            if not is_whole:
                content = content[:end]
            tag = _pack_tag(delivery_tag, is_redelivered)
            start = buffer.put_joined((self._head, tag, raw, b"\xce", content)) - len(content)
            channel = prefix[1:3]
            if content[1:3] != channel or content[end + 1 : end + 3] != channel:
                buffer.set_u16(start + 1, channel_id)
                if is_whole and message.body_size:
                    buffer.set_u16(start + end + 1, channel_id)
            if not is_whole:
                self._put_body(message, channel_id, frame_max - 8)
        elif is_whole:
            start = buffer.put_framed(prefix, prefix_size, delivery_tag, is_redelivered, message.raw, content)
            buffer.set_u16(start + 1, channel_id)
            if message.body_size:
                buffer.set_u16(start + message.header_end + 1, channel_id)
        else:
            buffer.put_framed(prefix, prefix_size, delivery_tag, is_redelivered, message.raw, b"")
            self.put_content(message, channel_id, frame_max)

    def put_content(self, message: Message, channel_id: int, frame_max: int) -> None:
        """The content header frame and the body frames, split to `frame_max`."""
        buffer = self.buffer
        start = buffer.length
        if message.body is None and message.body_size + 8 <= frame_max:
            buffer.put_bytes(message.content)
            buffer.set_u16(start + 1, channel_id)
            if message.body_size:
                buffer.set_u16(start + message.header_end + 1, channel_id)
            return
        buffer.put_bytes(message.content[: message.header_end])
        buffer.set_u16(start + 1, channel_id)
        self._put_body(message, channel_id, frame_max - 8)

    def _put_body(self, message: Message, channel_id: int, limit: int) -> None:
        """Its body, in frames of at most `limit` octets. Chunks are not copied, unless a frame ends inside one: that is
        so where publisher and consumer have negotiated different sizes."""
        buffer = self.buffer
        chunks = [message.body_bytes()] if message.body is None else message.body
        remaining = message.body_size
        room = 0
        for chunk in chunks:
            length = len(chunk)
            position = 0
            while position < length:
                if room == 0:
                    room = min(limit, remaining)
                    if cython.compiled:
                        buffer.put_u8(3)
                        buffer.put_u16(channel_id)
                        buffer.put_u32(room)
                    else:
                        buffer.put_bytes(_pack_head(3, channel_id, room))
                size = min(room, length - position)
                if buffer.length:
                    self.chunk_bytes += buffer.length
                    self.chunks.append(buffer.take())
                self.chunks.append(chunk if size == length else chunk[position : position + size])
                self.chunk_bytes += size
                position += size
                room -= size
                remaining -= size
                if room == 0:
                    buffer.put_u8(0xCE)

    def take(self) -> list[bytes]:
        """Everything, in order; nothing is left."""
        chunks = self.chunks
        if self.buffer.length:
            chunks.append(self.buffer.take())
        if self.buffer.capacity > _KEEP_BYTES:
            self.buffer = Buffer(256)
        self.chunks = []
        self.chunk_bytes = 0
        return chunks

    def clear(self) -> None:
        """Forget everything."""
        self.take()
