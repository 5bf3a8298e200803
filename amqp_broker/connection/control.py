"""Control: everything of a connection that is not hot: methods by their ids, closing, errors, heartbeats, parking.

The handshake is in handshake.py; the handlers of channels are in amqp_broker/channel/*_methods.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from amqp_broker.channel import handlers
from amqp_broker.channel.lifecycle import close_channel, close_channels, open_channel
from amqp_broker.connection.connection import AWAIT_HEADER, CLOSED, CLOSING, OPEN, Connection
from amqp_broker.errors import AmqpException, ChannelException, ConnectionException
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode, reply_text
from amqp_broker.protocol.errors import MethodDecodeError, UnknownMethod
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.connection.handshake import Handshake
    from amqp_broker.node import Node

log = logging.getLogger("amqp_broker.connection")

#: What belongs to the beginning of a connection only.
_HANDSHAKE_METHODS = (c.CONNECTION_START_OK, c.CONNECTION_SECURE_OK, c.CONNECTION_TUNE_OK, c.CONNECTION_OPEN)
_CHANNEL_OPEN = methods.ChannelOpen.index
_CHANNEL_CLOSE = methods.ChannelClose.index
_CHANNEL_CLOSE_OK = methods.ChannelCloseOk.index


class Control:
    """Shared by all connections of a node."""

    def __init__(self, node: Node, handshake: Handshake) -> None:
        self._node = node
        self._handshake = handshake

    # -- frames that are not for an open channel -------------------------------------------------------------------

    def on_protocol_header(self, connection: Connection, header: bytes) -> None:
        """The first octets of a client."""
        self._handshake.on_protocol_header(connection, header)

    def on_frame(self, connection: Connection, kind: int, channel_id: int, payload: bytes) -> None:
        """A frame on channel 0, on a channel that is not open, or on a connection that is not open."""
        if kind == c.FRAME_HEARTBEAT:
            if channel_id or payload:
                code = ReplyCode.UNEXPECTED_FRAME if channel_id else ReplyCode.FRAME_ERROR
                raise ConnectionException(
                    code,
                    f"heartbeat frame on channel {channel_id} with {len(payload)} octets: it has to be empty, on 0",
                )
            return
        if kind not in (c.FRAME_METHOD, c.FRAME_HEADER, c.FRAME_BODY):
            raise ConnectionException(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        index = int.from_bytes(payload[:4], "big") if kind == c.FRAME_METHOD else 0
        if connection.state == CLOSING:
            self._while_closing(connection, channel_id, index)
            return
        if channel_id == 0:
            self._on_channel_zero(connection, kind, index, payload)
            return
        if connection.state != OPEN:
            raise ConnectionException(
                ReplyCode.COMMAND_INVALID, f"frame on channel {channel_id} before connection.open-ok"
            )
        channel = connection.channels.get(channel_id)
        if channel is None:
            self._on_unopened(connection, channel_id, index, payload)
        elif channel.is_closing:
            self._on_closing_channel(channel, index)

    def _while_closing(self, connection: Connection, channel_id: int, index: int) -> None:
        """connection.close was sent: all but its answer, or the client's own close, is dropped."""
        if channel_id:
            return
        if index == c.CONNECTION_CLOSE_OK:
            self.drop(connection)
        elif index == c.CONNECTION_CLOSE:
            self.send(connection, 0, methods.ConnectionCloseOk())

    def _on_channel_zero(self, connection: Connection, kind: int, index: int, payload: bytes) -> None:
        if kind != c.FRAME_METHOD:
            raise ConnectionException(ReplyCode.UNEXPECTED_FRAME, f"content frame of type {kind} on channel 0")
        method = self._decode(payload)
        if index >> 16 != c.CLASS_CONNECTION or (connection.state == OPEN and index in _HANDSHAKE_METHODS):
            raise ConnectionException(
                ReplyCode.CHANNEL_ERROR, "unexpected method in connection state running", *_ids(index)
            )
        try:
            self._handshake.on_method(connection, method)
        except AmqpException as error:
            error.class_id, error.method_id = _ids(index)
            raise

    def _on_unopened(self, connection: Connection, channel_id: int, index: int, payload: bytes) -> None:
        if index == _CHANNEL_OPEN:
            self._decode(payload)
            open_channel(connection, channel_id)
        else:
            if index >> 16 == c.CLASS_CONNECTION:
                raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method", *_ids(index))
            raise ConnectionException(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", *_ids(index))

    def _on_closing_channel(self, channel: Channel, index: int) -> None:
        """channel.close was sent: everything is dropped until the client has answered."""
        connection = channel.connection
        if index == _CHANNEL_CLOSE_OK:
            del connection.channels[channel.channel_id]
            channel.is_open = False
        elif index == _CHANNEL_CLOSE:
            self.send(connection, channel.channel_id, methods.ChannelCloseOk())

    # -- methods ---------------------------------------------------------------------------------------------------

    def on_channel_method(self, channel: Channel, payload: bytes) -> None:
        """A method on an open channel."""
        method = self._decode(payload)
        handler = handlers.HANDLERS.get(method.index)
        if handler is None:
            if method.index == _CHANNEL_OPEN:
                raise ConnectionException(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen", *_ids(method.index))
            raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method", *_ids(method.index))
        try:
            handler(channel, method)
        except AmqpException as error:
            if not error.class_id:
                error.class_id, error.method_id = _ids(method.index)
            raise
        finally:
            self._node.turn_share.note_request(channel.connection, method.index)

    @staticmethod
    def _decode(payload: bytes) -> Any:
        try:
            return methods.decode_method(payload)
        except UnknownMethod as error:
            raise ConnectionException(error.reply_code, str(error), error.class_id, error.method_id) from None
        except MethodDecodeError as error:
            raise ConnectionException(ReplyCode.SYNTAX_ERROR, str(error), error.class_id, error.method_id) from None

    def send(self, connection: Connection, channel_id: int, method: Any) -> None:
        """Put a method into the output."""
        connection.output.put_frame(c.FRAME_METHOD, channel_id, methods.encode_method(method))
        connection.touch()

    # -- errors and closing ----------------------------------------------------------------------------------------

    def on_channel_exception(self, connection: Connection, error: ChannelException) -> None:
        """Close the channel that is being served; on channel 0 the connection."""
        channel = connection.current
        if channel is None or channel.is_closing:
            self.on_connection_exception(connection, error)
            return
        log.info("channel %d of %s: %s - %s", channel.channel_id, connection.peer, error.reply_code.name, error)
        if not error.class_id:
            error.class_id, error.method_id = _ids(connection.serving)
        close_channel(channel)
        channel.is_closing = True
        text = reply_text(error.reply_code, error.explanation)
        self.send(
            connection,
            channel.channel_id,
            methods.ChannelClose(error.reply_code, text, error.class_id, error.method_id),
        )

    def on_connection_exception(self, connection: Connection, error: AmqpException) -> None:
        """Close the connection."""
        if connection.state in (CLOSING, CLOSED):
            if connection.state == CLOSING:
                self.drop(connection)
            return
        log.warning("connection %s: %s - %s", connection.peer, error.reply_code.name, error)
        self.close(connection, error.reply_code, error.explanation, error.class_id, error.method_id)

    def on_defect(self, connection: Connection, error: Exception) -> None:
        """An exception that nobody foresaw: a defect of ours. The connection ends, the node goes on.

        What the disk raises is no matter of one connection: it is raised again, and the node stops.
        """
        if isinstance(error, OSError | StorageError):
            raise error
        log.error("defect while serving %s", connection.peer, exc_info=error)
        self.on_connection_exception(
            connection, ConnectionException(ReplyCode.INTERNAL_ERROR, f"defect in the broker: {type(error).__name__}")
        )

    def close(
        self, connection: Connection, code: ReplyCode, explanation: str, class_id: int = 0, method_id: int = 0
    ) -> None:
        """Send connection.close and wait for the answer, which the client owes within the closing timeout."""
        if connection.state in (CLOSING, CLOSED):
            return
        was_awaiting = connection.state == AWAIT_HEADER
        self.release(connection)
        connection.state = CLOSING
        if was_awaiting:
            self.drop(connection)
            return
        self.send(
            connection, 0, methods.ConnectionClose(code, reply_text(code, explanation), class_id, method_id)
        )
        self._node.timers.at(
            self._node.now + self._node.config.closing_timeout_ms, lambda now: self._give_up(connection)
        )

    def _give_up(self, connection: Connection) -> None:
        if connection.state == CLOSING:
            self.drop(connection)

    def on_client_close(self, connection: Connection) -> None:
        """connection.close from the client: everything is released, the answer is the last thing that is said."""
        self.release(connection)
        self.send(connection, 0, methods.ConnectionCloseOk())
        self.drop(connection)

    def drop(self, connection: Connection) -> None:
        """Nothing more is read; the driver closes the transport when the output is written."""
        connection.state = CLOSED
        self._node.dropped.append(connection)

    def release(self, connection: Connection) -> None:
        """Give back everything that the connection holds: channels, consumers, deliveries, exclusive queues."""
        close_channels([channel for channel in connection.channels.values() if not channel.is_closing])
        for channel in connection.channels.values():
            channel.is_open = False
        connection.channels.clear()
        connection.current = None
        broker = self._node.broker
        for queue in list(connection.exclusive_queues):
            broker.declarations.remove_queue(connection.vhost, queue)
        connection.exclusive_queues.clear()
        if connection.vhost is not None:
            connection.vhost.connections -= 1
            connection.vhost = None  # type: ignore[assignment]
        broker.dead_letters.run(self._node.now)



def _ids(index: int) -> tuple[int, int]:
    return index >> 16, index & 0xFFFF
