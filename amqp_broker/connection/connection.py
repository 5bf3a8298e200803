"""Connection: frames in, frames out, for one client. The hot half; handshake, methods and closing are in control.py.

Its states, and what others use of it, are those of a Client (flow/client.py, flow/state.py).

Invariants:
1. Frames of one chunk are handled in order, to completion. While it is paused for something that keeps
   it from that (Reason), what arrives waits in `pending`, and the driver stops reading.
2. Everything that is said goes through `output`; `touch` notes the connection for this turn.
3. An exception is handled in one place, `receive`: soft ones close the channel, hard ones the connection, and a defect
   of ours closes the connection with 541.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import cython

from amqp_broker.channel.channel import Channel
from amqp_broker.channel.refusals import unexpected_frame
from amqp_broker.errors import AmqpException, ChannelException, ConnectionException, vhost_deleted
from amqp_broker.flow.client import Client
from amqp_broker.flow.reason import HANDLING
from amqp_broker.flow.state import AWAIT_HEADER, CLOSED, CLOSING, ENDING, OPEN
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.auth.session import Session
    from amqp_broker.connection.connection_state import ConnectionState
    from amqp_broker.connection.control import Control
    from amqp_broker.connection.transport import Transport
    from amqp_broker.flow.client import OpenChannel
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.declarer import Declarer
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.flow.peer import Peer
    from amqp_broker.octets.buffer import Pointer
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timer

if not cython.compiled:
    import struct

    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64

    # A frame's type, channel, size, and what is the index of its method if it is one (AMQP 0-9-1 §4.2.3).
    _unpack_head = struct.Struct(">BHLL").unpack_from

# Names of others as integers of this module, which a compiled one compares in C.
_AWAIT_HEADER = AWAIT_HEADER
_OPEN = OPEN
_CLOSING = CLOSING
_ENDING = ENDING
_HANDLING = HANDLING

#: `handshake_step` of a connection that is open.
OPENED = 3

_METHOD = 1
_HEADER = 2
_BODY = 3
_HEARTBEAT = 8
#: An unfinished body frame of which more than this is there is taken in parts.
_PARTIAL_BYTES = 16_384
_BASIC_PUBLISH = 60 << 16 | 40
#: The exchange's name in a publish to the node itself, and where it is looked at: behind the heads of frame and method,
#: up to the beginning of the routing key.
_SYSTEM = b"\x0aamq.system"
_SEEN_OF_ADDRESS = 13 + len(_SYSTEM) + 7
_BASIC_ACK = 60 << 16 | 80
_BASIC_REJECT = 60 << 16 | 90
_BASIC_NACK = 60 << 16 | 120


def is_request(address: bytes) -> bool:
    """Whether a basic.publish with this exchange's name, and the beginning of this routing key, asks the node something
    or has it do something, and takes and brings no messages (leases and transactions)."""
    return address.startswith(_SYSTEM) and not address[len(_SYSTEM) + 1 :].startswith((b"lease.", b"txn."))


class Connection(Client):
    """One client connection."""

    def __init__(
        self,
        clients: Clients,
        pauses: Pauses,
        clock: TurnClock,
        config: Config,
        peer: Peer,
        number: int,
        control: Control,
    ) -> None:
        super().__init__(clients, pauses, clock, config, peer, number)
        self.control = control
        self.channels: dict[int, Channel] = {}
        self.current: Channel | None = None
        self.pending = b""
        self.is_abandoned = False
        self.last_received = clock.now
        self.last_sent = clock.now
        self.connected_at = clock.now
        self.handshake_step = 0
        self.serving = 0
        self.partial_left = 0
        self.partial_channel: Channel | None = None
        self.timer: Timer | None = None  # that of the handshake, then of heartbeats, then of the end
        self.transport: Transport | None = None
        self.position = 0

    def go_on_with(self, state: ConnectionState, session: Session, declarer: Declarer) -> None:
        """It was open at another worker, and its client knows nothing of that."""
        self.state = _OPEN
        self.handshake_step = OPENED
        self.session = session
        self.declarer = declarer
        self.frame_max, self.payload_max = state.frame_max, state.payload_max
        self.received_bytes, self.sent_bytes = state.received_bytes, state.sent_bytes
        self.connected_at = state.connected_at

    # -- output --------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """The transport is gone: what would keep this connection alive, and what it alone keeps alive, is let go."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.state = CLOSED
        self.output.clear()
        self.pending = b""
        self.partial_channel = None
        self.late_cancels = None
        self.homes.clear()

    def set_transport(self, transport: Transport | None) -> None:
        """What the driver writes it to; None when that is gone."""
        self.transport = transport

    def set_timer(self, timer: Timer) -> None:
        """What ends it, unless it goes on before."""
        self.timer = timer

    def take_output(self) -> list[bytes]:
        """What is to be written now, in order."""
        self.is_dirty = False
        self.last_sent = self.clock.now
        self.sent_bytes += self.output.size()
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
        source: Pointer = data
        consumed = self.receive(source, length, now)
        self.pending = source[consumed:length]

    def receive(self, data: bytes, length: int, now: int) -> int:
        """Handle every whole frame of data[:length]. Returns how many octets were consumed."""
        self.last_received = now
        self.position = 0
        self.serving = 0
        while self.position < length and not self.paused_for & _HANDLING and self.state < _ENDING:
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
        if self.state >= _ENDING:
            self.position = length
        self.received_bytes += self.position
        return self.position

    def said_bytes(self) -> int:
        """See Client."""
        return self.received_bytes + self.position

    def served_later(self) -> Callable[[Callable[[], None]], None]:
        """See Client."""
        return partial(self._serve, self.current, self.serving)

    def _serve(self, channel: Channel | None, index: int, answer: Callable[[], None]) -> None:
        """As `receive` calls a handler."""
        self.current = channel
        self.serving = index
        if channel is not None and (channel.is_closing or not channel.is_open):
            return
        if channel is not None and channel.vhost.is_deleted:
            self.control.on_connection_exception(self, vhost_deleted(channel.vhost.name))
            return
        try:
            answer()
        except AmqpException as error:
            error.blame(index >> 16, index & 0xFFFF)
            if isinstance(error, ChannelException):
                self.control.on_channel_exception(self, error)
            else:
                self.control.on_connection_exception(self, error)
        except Exception as error:  # noqa: BLE001  # a defect of ours ends one connection, with 541
            self.control.on_defect(self, error)

    def refuse(self, channel_id: int, error: ChannelException) -> None:
        """See Client."""
        served = self.current
        self.current = self.channels[channel_id]
        self.control.on_channel_exception(self, error)
        self.current = served

    def channel_count(self) -> int:
        """See Client."""
        return len(self.channels)

    def has_channel(self, channel: OpenChannel) -> bool:
        """See Client."""
        return self.channels.get(channel.channel_id) is channel

    def forget_channel(self, channel_id: int) -> None:
        """See Client."""
        del self.channels[channel_id]

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
                    self._receive_other(kind, channel_id, data, position, end)
            elif kind == _METHOD:
                if size < 4:
                    raise ConnectionException(ReplyCode.FRAME_ERROR, f"method frame of {size} octets")
                if cython.compiled:
                    index = get_u32(data, position + 7)
                self.serving = index
                if channel.expecting:
                    raise unexpected_frame(channel.expecting)
                if index == _BASIC_PUBLISH:
                    if (
                        (self.pauses.is_shut or not self.has_published)
                        and not self._is_heard(channel, data[position + 13 : min(position + _SEEN_OF_ADDRESS, end)])
                        and self.pauses.holds_back(self)
                    ):
                        self.position = position
                        return False
                    channel.receive_publish(data, position + 11, end - 1)
                elif index == _BASIC_ACK and size == 13:
                    channel.receive_ack(get_u64(data, position + 11), (data[position + 19] & 1) != 0)
                elif index in (_BASIC_REJECT, _BASIC_NACK) and size == 13 and channel.may_refuse(data[position + 19]):
                    channel.receive_refusal(get_u64(data, position + 11))
                else:
                    self.control.on_channel_method(channel, data[position + 7 : end - 1])
            elif kind == _HEADER:
                self.serving = _BASIC_PUBLISH
                self.position = channel.receive_header(data, position, end, length)
            elif kind == _BODY:
                self.serving = _BASIC_PUBLISH
                channel.receive_body(data, position + 7, end - 1)
            else:
                self._receive_other(kind, channel_id, data, position, end)
            position = self.position
            if self.paused_for & _HANDLING or self.state >= _ENDING:
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
        assert channel is not None  # something of its body is missing
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

    def _is_heard(self, channel: Channel, address: bytes) -> bool:
        """Whether a publish to this address waits for no memory and no disk. Who sees to an alarm has to be heard while
        it is on: operators by their tools, and the management process. Whoever else asks, or keeps requests for a
        commit, could fill the memory with them, or queues with the answers."""
        is_operators = self.session is not None and self.session.is_operators
        return is_operators and channel.transaction is None and is_request(address)

    def _receive_other(self, kind: int, channel_id: int, data: bytes, position: int, end: int) -> None:
        """A frame that is not for an open channel of an open connection."""
        self.control.on_frame(self, kind, channel_id, data[position + 7 : end - 1])

    def _refuse_frame(self, kind: int, size: int) -> None:
        if kind not in (_METHOD, _HEADER, _BODY, _HEARTBEAT):
            raise ConnectionException(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        raise ConnectionException(
            ReplyCode.FRAME_ERROR, f"frame payload of {size} octets is above the negotiated {self.payload_max}"
        )


def connection_of(client: Client) -> Connection:
    """What the rooms below call a client: the node makes no others."""
    assert isinstance(client, Connection), f"{type(client).__name__} is a client and no Connection: make one"
    return client


def connections_of(clients: list[Client]) -> list[Connection]:
    """The same list of them."""
    return clients  # type: ignore[return-value]  # see connection_of; to look at each costs, and a turn has three
