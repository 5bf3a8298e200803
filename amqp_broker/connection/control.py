"""Control: everything of a connection that is not hot: methods by their ids, closing, errors, heartbeats, parking.

The handshake is in handshake.py; the handlers of channels are in amqp_broker/channel/*_methods.py.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.channel import audited, handlers
from amqp_broker.channel.lifecycle import close_channel, close_channels, open_channel
from amqp_broker.connection.connection import Connection, connection_of, connections_of
from amqp_broker.errors import AmqpException, ChannelException, ConnectionException, vhost_deleted
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import AWAIT_HEADER, CLOSED, CLOSING, ENDING, OPEN
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode, reply_text
from amqp_broker.protocol.errors import MethodDecodeError, UnknownMethod
from amqp_broker.settings.log_format import about
from amqp_broker.turn.task import Task
from queues.background import SLICE
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.services import ChannelServices
    from amqp_broker.connection.handshake import Handshake
    from amqp_broker.connection.steering import Steering
    from amqp_broker.flow.clients import Clients
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.task import Awaited, Steps
    from queues.timers import Timer

log = logging.getLogger("amqp_broker.connection")

#: What belongs to the beginning of a connection only.
_HANDSHAKE_METHODS = (c.CONNECTION_START_OK, c.CONNECTION_SECURE_OK, c.CONNECTION_TUNE_OK, c.CONNECTION_OPEN)
#: What is refused of these is written down in the audit log.
_AUDITED_CLASSES = (c.CLASS_EXCHANGE, c.CLASS_QUEUE)
#: Octets of a frame besides its payload.
_FRAME_BYTES = 8
#: What it costs of a slice to close a connection; to look at one is 1.
_CLOSING_COST = 15
#: So long the answer to a client's close waits for other nodes and workers, milliseconds: where there is no majority,
#: they hear of it later.
KNOWN_MS = 2000
_CLOSE = int(Reason.CLOSE)
_CHANNEL_OPEN = methods.ChannelOpen.index
_CHANNEL_CLOSE = methods.ChannelClose.index
_CHANNEL_CLOSE_OK = methods.ChannelCloseOk.index


class Control:
    """Shared by all connections of a node."""

    def __init__(self, config: Config, clients: Clients, services: ChannelServices, handshake: Handshake) -> None:
        self._config = config
        self._clients = clients
        self._services = services
        self._pauses = services.pauses
        self._declarations = services.declarations
        self._held = services.held
        self._held_writes = services.held.writes
        self._handshake = handshake
        self._entries = handshake.entries
        self._turn_share = services.turn_share
        self._clock = services.clock
        self._timers = services.timers
        self._steering: Steering | None = None

    def steer_with(self, steering: Steering) -> None:
        """Who is to move to another worker."""
        self._steering = steering

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
            self._while_closing(connection, index)
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

    def _while_closing(self, connection: Connection, index: int) -> None:
        """connection.close was sent: all but its answer, or the client's own close, is passed over."""
        if index == c.CONNECTION_CLOSE_OK:
            self.drop(connection)
        elif index == c.CONNECTION_CLOSE:
            connection.send(0, methods.ConnectionCloseOk())

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
            error.blame(*_ids(index))
            raise

    def _on_unopened(self, connection: Connection, channel_id: int, index: int, payload: bytes) -> None:
        if index == _CHANNEL_OPEN:
            self._decode(payload)
            session = connection.session
            if session is not None and self._entries.are_channels_shared(session):
                self._entries.wait_for_channel(connection, session, partial(self._open_beside, connection, channel_id))
            else:
                connection.channels[channel_id] = open_channel(connection, channel_id, self._services, self._clients)
            self._turn_share.record_request(connection, index)
        else:
            if index >> 16 == c.CLASS_CONNECTION:
                raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method", *_ids(index))
            raise ConnectionException(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", *_ids(index))

    def _open_beside(self, connection: Connection, channel_id: int, beside: int) -> None:
        """channel.open of a user who has a limit, and so many channels at other workers."""
        try:
            channel = open_channel(connection, channel_id, self._services, self._clients, beside)
        except ConnectionException as error:
            error.blame(*_ids(_CHANNEL_OPEN))
            self.on_connection_exception(connection, error)
        else:
            connection.channels[channel_id] = channel

    def _on_closing_channel(self, channel: Channel, index: int) -> None:
        """channel.close was sent: everything is dropped until the client has answered."""
        connection = connection_of(channel.connection)
        if index == _CHANNEL_CLOSE_OK:
            del connection.channels[channel.channel_id]
            channel.end()
        elif index == _CHANNEL_CLOSE:
            connection.send(channel.channel_id, methods.ChannelCloseOk())

    # -- methods ---------------------------------------------------------------------------------------------------

    def on_channel_method(self, channel: Channel, payload: bytes) -> None:
        """A method on an open channel."""
        method = self._decode(payload)
        channel.vhost.check_is_there()
        handler = handlers.HANDLERS.get(method.index)
        connection = connection_of(channel.connection)
        if connection.steered is not None and self._steering is not None and self._steering.goes_first(channel, method):
            connection.position -= len(payload) + _FRAME_BYTES  # it is handled when that is decided
            return
        if self._held_writes and self._held.holds_back(connection, channel.vhost, channel.last_queue, method):
            connection.position -= len(payload) + _FRAME_BYTES  # it is handled when the queue can be used again
            return
        if handler is None:
            if method.index == _CHANNEL_OPEN:
                raise ConnectionException(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen", *_ids(method.index))
            raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method", *_ids(method.index))
        try:
            handler(channel, method)
        except AmqpException as error:
            error.blame(*_ids(method.index))
            if error.reply_code is ReplyCode.ACCESS_REFUSED and method.index >> 16 in _AUDITED_CLASSES:
                audited.refuse(channel, method.name, error.explanation)
            raise
        finally:
            self._turn_share.record_request(connection, method.index)

    @staticmethod
    def _decode(payload: bytes) -> methods.Method:
        try:
            return methods.decode_method(payload)
        except UnknownMethod as error:
            raise ConnectionException(error.reply_code, str(error), error.class_id, error.method_id) from None
        except MethodDecodeError as error:
            raise ConnectionException(ReplyCode.SYNTAX_ERROR, str(error), error.class_id, error.method_id) from None

    # -- errors and closing ----------------------------------------------------------------------------------------

    def on_channel_exception(self, connection: Connection, error: ChannelException) -> None:
        """Close the channel that is being served; on channel 0 the connection."""
        channel = connection.current
        if channel is None or channel.is_closing:
            self.on_connection_exception(connection, error)
            return
        log.info("channel %d of %s: %s - %s", channel.channel_id, connection.peer, error.reply_code.name, error)
        error.blame(*_ids(connection.serving))
        close_channel(channel)
        channel.begin_closing()
        text = reply_text(error.reply_code, error.explanation)
        refusal = methods.ChannelClose(error.reply_code, text, error.class_id, error.method_id)
        connection.send(channel.channel_id, refusal)

    def on_connection_exception(self, connection: Connection, error: AmqpException) -> None:
        """Close the connection. Of what comes behind our close and makes no sense nothing is looked at any more."""
        if connection.state >= CLOSING:
            if connection.state == CLOSING:
                connection.state = ENDING
            return
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
        if connection.state >= CLOSING:
            return
        was_awaiting = connection.state == AWAIT_HEADER
        # Nobody has done anything wrong where the broker stops, or an administrator closes.
        level = logging.INFO if code == ReplyCode.CONNECTION_FORCED else logging.WARNING
        self.log_end(connection, f"closed by the broker with {code.value} {reply_text(code, explanation)}", level)
        self.release(connection)
        if was_awaiting:
            self.abandon(connection)
            return
        connection.send(0, methods.ConnectionClose(code, reply_text(code, explanation), class_id, method_id)
        )
        self._await_end(connection, CLOSING)

    def close_vhost(self, vhost: VHost) -> Steps:
        """Close the connections to a virtual host that is deleted, a few in a slice. Who says something before is
        closed then (VHost.check_is_there)."""
        error = vhost_deleted(vhost.name)
        return self._close_each(self._all(), lambda connection: connection.vhost is vhost, error.explanation)

    def close_user(self, name: str) -> None:
        """Close the open connections of a user who is deleted, and those where he is somebody else, in slices. Its
        permissions are gone already."""

        def is_meant(connection: Connection) -> bool:
            session = connection.session
            return connection.state == OPEN and session is not None and name in (session.user, session.acting)

        steps = self._close_each(self._all(), is_meant, f"user '{name}' is deleted")
        Task(self._services.background, steps)

    def close_all(self) -> Task:
        """Close every connection, as the node stops (RabbitMQ's text), in slices. Done when all have been told."""
        text = "broker forced connection closure with reason 'shutdown'"
        return Task(self._services.background, self._close_each(self._all(), lambda connection: True, text))

    def _all(self) -> list[Connection]:
        return connections_of(self._clients.all())

    def _close_each(
        self, connections: list[Connection], is_meant: Callable[[Connection], bool], text: str
    ) -> Steps:
        """Those of them that are meant, with 320."""
        cost, left = 0, deque(connections)
        connections.clear()
        while left:  # each is let go of in its slice
            connection = left.popleft()
            if is_meant(connection):
                cost += _CLOSING_COST
                if connection.state == ENDING:
                    self._answer_close(connection)
                    self.drop(connection)
                else:
                    self.close(connection, ReplyCode.CONNECTION_FORCED, text)
            cost += 1
            if cost >= SLICE:
                cost = 0
                yield None

    def on_client_close(self, connection: Connection) -> None:
        """connection.close from the client: everything is released, the answer is the last thing that is said. The
        client closes the transport: it may have more on its way to us, and a transport that is closed with unread
        octets is reset, which takes what was said from the client. Whoever has seen the answer may declare anywhere
        what was exclusive here: it is said when other nodes and workers know that that is gone, or after KNOWN_MS."""
        self.log_end(connection, "closed by the client")
        released = self.release(connection)
        self._await_end(connection, ENDING)
        if released is None or released.is_done:
            connection.send(0, methods.ConnectionCloseOk())
            return
        self._pauses.pause(connection, _CLOSE)
        timer = self._timers.at(
            self._clock.now + min(KNOWN_MS, self._config.closing_timeout_ms // 2),
            lambda now: self._answer_close(connection),
        )
        released.when_done(lambda result: self._answer_close(connection, timer))

    def _answer_close(self, connection: Connection, timer: Timer | None = None) -> None:
        """Say close-ok if that is still to be said, to a client that is still there. timer: would have it said."""
        if timer is not None:
            timer.cancel()
        if connection.paused_for & _CLOSE:
            if self._clients.find(connection.number) is connection:
                connection.send(0, methods.ConnectionCloseOk())
            self._pauses.resume(connection, _CLOSE, self._clock.now)

    def end_silent(self, connection: Connection, silent_ms: int) -> None:
        """Nothing has come from the client for so long, though it had promised heartbeats."""
        self.log_end(connection, f"no heartbeat for {silent_ms} ms", logging.WARNING)
        self.release(connection)
        self.abandon(connection)

    def log_end(self, connection: Connection, why: str, level: int = logging.INFO) -> None:
        """The one line on the end of a connection."""
        fields = self._fields("connection_end", connection, why)
        log.log(level, "connection %s%s ended: %s", connection.peer, self._owner(connection), why, extra=fields)

    def opened(self, connection: Connection) -> None:
        """It is open, which is the one line on its beginning."""
        if self._steering is not None:
            self._steering.opened(connection)
        fields = self._fields("connection_open", connection)
        log.info("connection %s%s is open", connection.peer, self._owner(connection), extra=fields)

    def log_arrival(self, connection: Connection) -> None:
        """The line on its beginning at a worker to which it has moved."""
        fields = self._fields("connection_arrival", connection)
        log.info("connection %s%s has come from another worker", connection.peer, self._owner(connection), extra=fields)

    def leave(self, connection: Connection, home: str) -> None:
        """Another worker has its socket. It holds nothing."""
        fields = self._fields("connection_move", connection, home)
        log.info("connection %s%s goes on at %s", connection.peer, self._owner(connection), home, extra=fields)
        self.release(connection)

    @staticmethod
    def _fields(event: str, connection: Connection, reason: str = "") -> dict[str, dict[str, str | int]]:
        session, peer = connection.session, str(connection.peer)
        if session is None:
            return about(event, peer=peer, reason=reason)
        who = {"user": session.user, "by": session.acting, "vhost": session.vhost, "name": session.connection_name}
        return about(event, peer=peer, reason=reason, **who)

    @staticmethod
    def _owner(connection: Connection) -> str:
        """Whose it is, as far as that is known. The name is the client's, and may hold anything."""
        session = connection.session
        if session is None:
            return ""
        vhost = f", vhost {session.vhost!r}" if session.vhost else ""
        name = f", name {session.connection_name!r}" if session.connection_name else ""
        acting = f" by {session.acting!r}" if session.acting else ""
        return f" (user {session.user!r}{acting}{vhost}{name})"

    def refuse_silently(self, connection: Connection, delay_ms: int) -> None:
        """Nothing is said and nothing more is heard; after the delay the transport is closed."""
        self._await_end(connection, ENDING)
        assert connection.timer is not None  # of the end
        connection.timer.cancel()
        connection.timer = self._timers.at(self._clock.now + delay_ms, lambda now: self.drop(connection))

    def drop(self, connection: Connection) -> None:
        """Nothing more is to come: the driver closes our half of the transport when the output is written, and all of
        it when the client closes its own."""
        self._await_end(connection, CLOSED)
        self._clients.drop(connection)

    def abandon(self, connection: Connection) -> None:
        """The driver closes the transport at once, behind what is said: there is nobody, or nobody who has still to
        hear more than the answer to a close."""
        self._answer_close(connection)
        connection.state = CLOSED
        connection.is_abandoned = True
        self._clients.abandon(connection)

    def _await_end(self, connection: Connection, state: int) -> None:
        """The client's end is awaited, for a bounded time and of a bounded number of clients."""
        connection.state = state
        if connection.timer is not None:
            connection.timer.cancel()
        timeout_ms = self._config.closing_timeout_ms
        connection.timer = self._timers.at(self._clock.now + timeout_ms, lambda now: self.abandon(connection))
        closing = self._clients.closing
        closing[connection.number] = connection
        if len(closing) > self._config.max_closing_connections:
            self.abandon(connection_of(next(iter(closing.values()))))

    def release(self, connection: Connection) -> Awaited | None:
        """Give back everything that the connection holds: channels, consumers, deliveries, exclusive queues. What it
        waited for does not keep it from hearing the answer to our close. Returns what is done when it is known wherever
        the exclusive queues were; None: it is."""
        self._pauses.forget(connection)
        close_channels([channel for channel in connection.channels.values() if not channel.is_closing])
        for channel in connection.channels.values():
            channel.end()
        connection.channels.clear()
        connection.current = None
        declarer, connection.declarer = connection.declarer, None
        if declarer is None:
            return None
        vhost, user = declarer.vhost, declarer.session.user
        released = self._declarations.remove_queues(vhost, declarer.leave())
        vhost.leave(user)
        self._clients.leave(connection, user)
        return released


def _ids(index: int) -> tuple[int, int]:
    return index >> 16, index & 0xFFFF
