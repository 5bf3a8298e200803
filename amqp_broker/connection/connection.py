"""Connection: frames in, frames out, for one client. The hot half; handshake, methods and closing are in control.py.

    AWAIT_HEADER -> STARTING -> OPEN -> CLOSING -> ENDING -> CLOSED
        CLOSING: we said connection.close and await its answer; all else is passed over
        ENDING:  the last is said, such as close-ok; what comes is discarded until the client closes the transport
        CLOSED:  the driver closes the transport: our half when the output is written, or all of it (`is_abandoned`)

Invariants:
1. Frames of one chunk are handled in order, to completion. While `is_parked`, nothing is handled: what arrives waits
   in `pending`, and the driver stops reading.
2. Everything that is said goes through `output`; `touch` puts the connection on the node's list for this turn.
3. An exception is handled in one place, `receive`: soft ones close the channel, hard ones the connection, and a defect
   of ours closes the connection with 541.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from amqp_broker.channel.channel import Channel
from amqp_broker.channel.refusals import unexpected_frame
from amqp_broker.errors import ChannelException, ConnectionException
from amqp_broker.flow.output import Output
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.content import ContentScanner

if TYPE_CHECKING:
    from amqp_broker.auth.session import Session
    from amqp_broker.routing.vhost import VHost

if not cython.compiled:
    import struct

    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

    # A frame's type, channel, size, and what is the index of its method if it is one (AMQP 0-9-1 §4.2.3).
    _unpack_head = struct.Struct(">BHLL").unpack_from

_AWAIT_HEADER = 0
_OPEN = 2
_CLOSING = 3
_ENDING = 4
_CLOSED = 5

# The states, for everybody else (the names above are C integers in a compiled module).
AWAIT_HEADER = _AWAIT_HEADER
STARTING = 1
OPEN = _OPEN
CLOSING = _CLOSING
ENDING = _ENDING
CLOSED = _CLOSED

_METHOD = 1
_HEADER = 2
_BODY = 3
_HEARTBEAT = 8
#: An unfinished body frame of which more than this is there is taken in parts.
_PARTIAL_BYTES = 16_384
_BASIC_PUBLISH = 60 << 16 | 40
_BASIC_ACK = 60 << 16 | 80


class Connection:
    """One client connection. `peer` says who it is (connection/peer.py)."""

    def __init__(self, node: Any, control: Any, publisher: Any, config: Any, peer: Any, number: int, now: int) -> None:
        self.node = node
        self.clock = node.clock
        self.readers = node.readers
        self.control = control
        self.publisher = publisher
        self.config = config
        self.peer = peer
        self.number = number
        self.state = _AWAIT_HEADER
        self.output = Output()
        self.scanner = ContentScanner(config.max_table_depth)
        self.vhost: VHost = None  # type: ignore[assignment]  # set by connection.open
        self.channels: dict[int, Channel] = {}
        self.current: Channel | None = None
        self.frame_max = config.initial_frame_max
        self.payload_max = config.initial_frame_max - 8
        self.output_limit = config.output_limit_bytes
        self.pending = b""
        self.is_dirty = False
        self.is_abandoned = False
        self.is_writable = True
        self.is_starved = False
        self.is_parked = False
        self.unsent_bytes = 0
        self.is_choked = False
        self.is_sated = False
        self.is_paused = False
        self.has_published = False
        self.homes: dict[Any, None] = {}
        self.is_told_blocked = False
        self.last_received = now
        self.last_sent = now
        self.received_bytes = 0
        self.session: Session = None  # type: ignore[assignment]  # set by connection.start-ok
        self.handshake_step = 0
        self.serving = 0
        self.partial_left = 0
        self.partial_channel: Any = None
        self.exclusive_queues: dict[Any, None] = {}
        self.late_cancels: list[Any] | None = None
        self.timer: Any = None  # that of the handshake, then of heartbeats, then of the end
        self.transport: Any = None
        self.position = 0

    # -- output --------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """There is something in the output: the driver writes it at the end of the turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.node.dirty.append(self)

    def note_homes(self, homes: list[Any]) -> None:
        """It publishes to queues that live on other nodes: links to these, whose troubles are its own."""
        for link in homes:
            if link not in self.homes:
                self.homes[link] = None
                self.node.alarms.tell(self)

    def has_room(self) -> bool:
        """Whether deliveries may be put into the output; if not, the driver's `writable` brings them back."""
        output = self.output
        if self.is_writable and output.chunk_bytes + output.buffer.length < self.output_limit:
            return True
        self.starve()
        return False

    def forget(self) -> None:
        """The transport is gone: what would keep this connection alive, and what it alone keeps alive, is let go."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.pending = b""
        self.partial_channel = None
        self.late_cancels = None
        self.homes.clear()

    def starve(self) -> None:
        """Deliveries to it stop until `Node.writable`."""
        self.is_starved = True
        self.node.starved[self] = None

    def take_output(self) -> list[bytes]:
        """What is to be written now, in order."""
        self.is_dirty = False
        self.last_sent = self.clock.now
        return self.output.take()

    # -- input ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: int) -> None:
        """A chunk from the transport. Keeps what is not a whole frame yet."""
        if self.pending:
            data = self.pending + data
        consumed = self.receive(data, len(data), now)
        self.pending = data[consumed:]

    def receive_buffer(self, data: bytearray, length: int, now: int) -> None:
        """A chunk in a buffer of the driver's, behind what was `pending` before: data[:length] is all there is."""
        if not cython.compiled:
            self.pending = b""
            self.receive_data(bytes(memoryview(data)[:length]), now)
            return
        source: Any = data
        consumed = self.receive(source, length, now)
        self.pending = source[consumed:length]

    def receive(self, data: bytes, length: int, now: int) -> int:
        """Handle every whole frame of data[:length]. Returns how many octets were consumed."""
        self.last_received = now
        self.position = 0
        self.serving = 0
        while self.position < length and not self.is_parked and self.state < _ENDING:
            try:
                if self.state == _AWAIT_HEADER:
                    if not self._receive_protocol_header(data, length):
                        break
                elif not self._receive_frames(data, length):
                    break
            except ChannelException as error:
                self.control.on_channel_exception(self, error)
            except ConnectionException as error:
                self.control.on_connection_exception(self, error)
            except Exception as error:  # noqa: BLE001  # a defect of ours ends one connection, with 541
                self.control.on_defect(self, error)
        # What comes behind the end of a connection is nobody's.
        return length if self.state >= _ENDING else self.position

    def _receive_protocol_header(self, data: bytes, length: int) -> bool:
        """The first eight octets (AMQP 0-9-1 §4.2.2). Returns whether there is more to do."""
        if length < 8 and data[:length] == b"AMQP"[:length]:
            return False
        if length < 8 and length >= 4 and data[:4] == b"AMQP":
            return False
        header = data[: min(length, 8)]
        self.position = length if length < 8 else 8
        self.control.on_protocol_header(self, header)
        return True

    def _receive_frames(self, data: bytes, length: int) -> bool:
        """Handle frames until the data or the patience ends. Returns whether there may be more to do."""
        if self.partial_left and not self._receive_rest(data, length):
            return False
        position = self.position
        while length - position >= 7:
            if cython.compiled or length - position < 11:
                kind = data[position]
                channel_id = get_u16(data, position + 1)
                size = get_u32(data, position + 3)
                index = 0
            else:
                kind, channel_id, size, index = _unpack_head(data, position)
            if size > self.payload_max or kind > 8:
                self.position = length
                self._refuse_frame(kind, size)
            end = position + 8 + size
            if end > length:
                self.position = position
                if kind == _BODY and length - position > _PARTIAL_BYTES:
                    self._receive_part(data, position, size, length)
                return False
            if data[end - 1] != 0xCE:
                self.position = length
                raise ConnectionException(
                    ReplyCode.FRAME_ERROR, f"frame of {size} octets ends with {data[end - 1]} instead of 206"
                )
            self.position = end
            channel = self.current
            if channel is None or channel.channel_id != channel_id or not channel.is_open:
                channel = self._find_channel(channel_id)
            if channel is None or channel.is_closing or self.state != _OPEN:
                if self.state != _CLOSING or channel_id == 0:
                    self._receive_elsewhere(kind, channel_id, data, position, end)
            elif kind == _METHOD:
                if size < 4:
                    raise ConnectionException(ReplyCode.FRAME_ERROR, f"method frame of {size} octets")
                if cython.compiled:
                    index = get_u32(data, position + 7)
                self.serving = index
                if channel.expecting:
                    raise unexpected_frame(channel.expecting)
                if index == _BASIC_PUBLISH:
                    if (self.readers.is_shut or not self.has_published) and self.readers.holds_back(self):
                        self.position = position
                        return False
                    channel.receive_publish(data, position + 11, end - 1)
                elif index == _BASIC_ACK and size == 13:
                    channel.receive_ack(get_u64(data, position + 11), (data[position + 19] & 1) != 0)
                else:
                    self.control.on_channel_method(channel, data[position + 7 : end - 1])
            elif kind == _HEADER:
                self.serving = _BASIC_PUBLISH
                self.position = channel.receive_header(data, position, end, length)
            elif kind == _BODY:
                self.serving = _BASIC_PUBLISH
                channel.receive_body(data, position + 7, end - 1)
            else:
                self._receive_elsewhere(kind, channel_id, data, position, end)
            position = self.position
            if self.is_parked or self.state >= _ENDING:
                return False
        self.position = position
        return False

    def _receive_part(self, data: bytes, position: int, size: int, length: int) -> None:
        """The beginning of a long body frame, data[position:length]: take what is there, so that it is not copied again
        with the rest. The last octet of the payload waits for the frame's end."""
        channel = self._find_channel(get_u16(data, position + 1))
        if channel is None or channel.is_closing or self.state != _OPEN or not channel.expects_body():
            return
        end = min(length, position + 7 + size - 1)
        self.serving = _BASIC_PUBLISH
        self.partial_channel = channel
        self.partial_left = size + 1 - (end - position - 7)
        self.position = end
        channel.receive_body(data, position + 7, end)

    def _receive_rest(self, data: bytes, length: int) -> bool:
        """More of the body frame whose beginning was taken. Returns whether its end has come."""
        channel = self.partial_channel
        position = self.position
        left = self.partial_left
        is_whole = length - position >= left
        if is_whole:
            end = position + left - 1
            if data[end] != 0xCE:
                self.partial_left = 0
                self.position = length
                raise ConnectionException(ReplyCode.FRAME_ERROR, f"frame ends with {data[end]} instead of 206")
        else:
            end = min(length, position + left - 2)
        self.partial_left = 0 if is_whole else left - (end - position)
        self.position = end + 1 if is_whole else end
        if is_whole:
            self.partial_channel = None
        if end > position and channel.is_open and not channel.is_closing and self.state == _OPEN:
            self.serving = _BASIC_PUBLISH
            self.current = channel
            channel.receive_body(data, position, end)
        return is_whole

    def _find_channel(self, channel_id: int) -> Channel | None:
        channel = self.channels.get(channel_id)
        if channel is not None and not channel.is_closing:
            self.current = channel
        return channel

    def _receive_elsewhere(self, kind: int, channel_id: int, data: bytes, position: int, end: int) -> None:
        """A frame that is not for an open channel of an open connection."""
        self.control.on_frame(self, kind, channel_id, data[position + 7 : end - 1])

    def _refuse_frame(self, kind: int, size: int) -> None:
        if kind not in (_METHOD, _HEADER, _BODY, _HEARTBEAT):
            raise ConnectionException(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        raise ConnectionException(
            ReplyCode.FRAME_ERROR, f"frame payload of {size} octets is above the negotiated {self.payload_max}"
        )
