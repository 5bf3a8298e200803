"""Connection: the handshake, and the frames of all channels over one transport.

Blocking, and for one thread at a time. While it waits for anything it reads, and what arrives goes to the
channel it is for; while it sends it reads too, so that a broker which must be read before it reads on cannot
deadlock it. It asks for no heartbeats: nobody would send them between two calls.

Invariants:
1. Frames leave in the order in which they were asked for; answers that a received frame demands join the same
queue.
2. Once closed, for whatever reason, every call on it and on its channels raises the error that says why.
3. KeyboardInterrupt may come between two octets: what is said behind that is nothing that the broker understands, and
what is heard nothing that is understood here, so a `with` that ends by it aborts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from amqp_broker.client.address import Address, parse_url
from amqp_broker.client.channel import Channel
from amqp_broker.client.errors import ClientError, ClientTimeout, ConnectFailed, ConnectionClosed
from amqp_broker.client.transport import READ, WRITE, Transport, deadline_in
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import Frame, FrameParser, encode_content, encode_method_frame

if TYPE_CHECKING:
    from ssl import SSLContext

CLIENT_PROPERTIES: Final = {
    "product": "amqp_broker client",
    "platform": "Python",
    "capabilities": {
        "authentication_failure_close": True,
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "exchange_exchange_bindings": True,
        "publisher_confirms": True,
    },
}
DEFAULT_TIMEOUT: Final = 10.0


M = TypeVar("M", bound=m.Method)


class Connection:
    """An open AMQP connection; made by `Connection.open`, closed by `close` or at the end of a `with` block.

    `timeout` (seconds, None: for ever) is how long any one call may take unless it is given another.
    `server_properties` is what the broker said of itself, `blocked_reason` why it takes no publishes now, or
    None.
    """

    def __init__(self, transport: Transport, timeout: float | None) -> None:
        self.timeout = timeout
        self.server_properties = Table()
        self.blocked_reason: str | None = None
        self.frame_max = c.FRAME_MIN_SIZE
        self.channel_max = 0
        self._transport = transport
        self._parser = FrameParser()
        self._unsent = bytearray()
        self._channels: dict[int, Channel] = {}
        self._replies: list[m.Method] = []
        self._error: ClientError | None = None

    @classmethod
    def open(
        cls,
        url: str,
        timeout: float | None = DEFAULT_TIMEOUT,
        *,
        ssl_context: SSLContext | None = None,
        mechanism: str = "PLAIN",
        name: str = "",
        client_properties: Mapping[str, object] | None = None,
        frame_max: int = c.DEFAULT_FRAME_MAX,
        authorization_identity: str = "",
        virtual_host: str | None = None,
    ) -> Self:
        """Connects to amqp://user:password@host:port/virtual-host, logs in and opens the virtual host.

        amqps:// speaks TLS, with the standard library's default context unless one is given. `mechanism` is
        PLAIN or EXTERNAL. `authorization_identity` is the user that the session is to be of, where that is another
        than who logs in (PLAIN, RFC 4616); `virtual_host` takes the place of the URL's. Raises ValueError for a bad
        URL, ConnectFailed with the broker's code where it refuses.
        """
        address = parse_url(url)
        if virtual_host is not None:
            address = replace(address, virtual_host=virtual_host)
        identity = {"connection_name": name} if name else {}
        properties = Table({**CLIENT_PROPERTIES, **identity, **(client_properties or {})})
        connection = cls._connected(address, timeout, ssl_context)
        with connection._refused_by(address):
            connection._shake_hands(address, mechanism, properties, frame_max, authorization_identity)
        return connection

    @classmethod
    def greet(cls, url: str, timeout: float | None = DEFAULT_TIMEOUT, ssl_context: SSLContext | None = None) -> Table:
        """What the broker says of itself to whoever comes, before a login; nobody logs in. Raises as `open` does."""
        address = parse_url(url)
        connection = cls._connected(address, timeout, ssl_context)
        with connection._refused_by(address):
            connection._read_start(deadline_in(timeout))
        connection._transport.close()
        return connection.server_properties

    @classmethod
    def _connected(cls, address: Address, timeout: float | None, ssl_context: SSLContext | None) -> Self:
        """With a transport, on which nothing has been said."""
        if ssl_context is not None and not address.is_tls:
            raise ValueError(f"{address} is not encrypted although an ssl_context is given: write amqps://")
        if address.is_tls and ssl_context is None:
            import ssl

            ssl_context = ssl.create_default_context()
        return cls(Transport.connect(address.host, address.port, timeout, ssl_context, str(address)), timeout)

    @contextmanager
    def _refused_by(self, address: Address) -> Iterator[None]:
        """What fails in the block says who refused, and leaves no transport open."""
        try:
            yield
        except ClientError as error:
            self._fail(error)
            if error.reply_code:
                raise ConnectFailed(f"{address} refuses", error.reply_code, error.reply_text) from error
            raise ConnectFailed(f"no connection to {address}: {error}") from error
        except BaseException:
            self._transport.close()
            raise

    def _read_start(self, deadline: float) -> m.ConnectionStart:
        self._unsent += c.PROTOCOL_HEADER
        start = self._wait_for_reply(deadline, "connection.start", m.ConnectionStart)
        self.server_properties = start.server_properties
        return start

    def _shake_hands(
        self, address: Address, mechanism: str, properties: Table, frame_max: int, identity: str
    ) -> None:
        """AMQP 0-9-1 §2.2.4: header, start, tune, open."""
        deadline = deadline_in(self.timeout)
        start = self._read_start(deadline)
        offered = start.mechanisms.decode("ascii", "replace").split()
        if mechanism not in offered:
            raise ClientError(f"mechanism {mechanism} is not among those offered: {' '.join(offered)}")
        login = f"{identity}\0{address.user}\0{address.password}" if mechanism == "PLAIN" else ""
        response = login.encode("utf-8", "surrogateescape")
        self.send(0, m.ConnectionStartOk(properties, mechanism, response, "en_US"))
        tune = self._wait_for_reply(deadline, "the answer to the login", m.ConnectionTune)
        limits = [limit for limit in (frame_max, tune.frame_max) if limit]  # 0 means none
        self.frame_max = min(limits, default=0)
        self.channel_max = tune.channel_max or c.MAX_CHANNEL
        self._parser.agree(self.frame_max)
        self.send(0, m.ConnectionTuneOk(self.channel_max, self.frame_max, 0))
        self.send(0, m.ConnectionOpen(address.virtual_host))
        self._wait_for_reply(deadline, f"the answer to opening {address.virtual_host!r}", m.ConnectionOpenOk)

    def wait_at_most(self, timeout: float | None) -> None:
        """How long any one call may take from now on, unless it is given another time: seconds, None for ever."""
        self.timeout = timeout

    def channel(self) -> Channel:
        """Opens a channel with the lowest number that is free."""
        self.check_open()
        free = (number for number in range(1, self.channel_max + 1) if number not in self._channels)
        number = next(free, None)
        if number is None:
            raise ClientError(f"all {self.channel_max} channels of the connection are open: close one first")
        channel = Channel(self, number)
        self._channels[number] = channel
        channel.call(m.ChannelOpen())
        return channel

    def call(self, method: m.Method, timeout: float | None = None) -> m.Method:
        """Sends a method of the connection itself, such as update-secret, and returns its reply."""
        self.send(0, method)
        expected = m.METHODS_BY_NAME[method.replies[0]]
        try:
            return self._wait_for_reply(self.deadline(timeout), f"the reply to {method.name}", expected)
        except ClientTimeout as error:
            self._fail(error)  # or the late reply would be taken for that of another call
            raise

    def close(self) -> None:
        """Closes the connection in good order; nothing happens when it is closed already."""
        if self._error is not None:
            return
        try:
            self.call(m.ConnectionClose(c.ReplyCode.REPLY_SUCCESS, "closed by the client"))
        except ClientError as error:
            self._fail(error)
        else:
            self._fail(ConnectionClosed("the connection was closed by this program"))

    def abort(self) -> None:
        """Closes the transport without a word: for a broker that does not answer any more."""
        self._fail(ConnectionClosed("the connection was aborted by this program"))

    @property
    def is_open(self) -> bool:
        return self._error is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort() if isinstance(error, KeyboardInterrupt) else self.close()

    # For channels

    def deadline(self, timeout: float | None) -> float:
        """When a call ends that was given `timeout`, or none of its own."""
        return deadline_in(self.timeout if timeout is None else timeout)

    def check_open(self) -> None:
        """Raises the error that closed the connection, if one did."""
        if self._error is not None:
            raise self._error

    def send(
        self, channel: int, method: m.Method, properties: bytes = b"", body: bytes | None = None
    ) -> None:
        """Queues a method, with its content where `body` is given; `flush` and every wait send it."""
        self.check_open()
        octets = encode_method_frame(channel, method)
        if body is not None:
            octets += encode_content(channel, properties, body, self.frame_max)
        self._unsent += octets

    def flush(self, deadline: float) -> None:
        """Sends what is queued, reading what arrives meanwhile."""
        while self._unsent:
            self.check_open()
            sent = self._send_some()
            del self._unsent[:sent]
            if not sent:
                self._wait_for_room(deadline)
                self._receive()

    def pump(self, deadline: float, purpose: str) -> None:
        """Waits until something has arrived and hands it to the channels; or ClientTimeout."""
        self.flush(deadline)
        self.check_open()
        if not self._receive():
            self._transport.wait(READ, deadline, purpose)
            self._receive()
        self.flush(deadline)

    def poll(self) -> None:
        """Hands what has arrived by now to the channels, without waiting."""
        self.check_open()
        self._receive()
        self.check_open()

    def release(self, number: int) -> None:
        """A channel number may be used again."""
        self._channels.pop(number, None)

    # Input and output

    def _wait_for_room(self, deadline: float) -> None:
        """Waits until something can be sent or read; a broker that takes nothing may have said why."""
        try:
            self._transport.wait(READ | WRITE, deadline, "room to send")
        except ClientTimeout as error:
            self._receive()
            if self.blocked_reason is None:
                raise
            raise ClientTimeout(f"{error}, which says that it is blocked: {self.blocked_reason}") from None

    def _send_some(self) -> int:
        """Sends what fits. When the peer has gone, what it said last tells why: that is raised."""
        try:
            with memoryview(self._unsent) as view:
                return self._transport.send_some(view)
        except ConnectionClosed as error:
            with suppress(ConnectionClosed):
                self._receive()
            self._fail(error)
            self.check_open()
            raise

    def _receive(self) -> bool:
        """Reads what is there and dispatches it; False when there was nothing."""
        try:
            data = self._transport.receive_some()
        except ConnectionClosed as error:
            self._fail(error)
            raise
        if data is None:
            return False
        try:
            for frame in self._parser.receive_data(data):
                self._on_frame(frame)
                if self._error is not None:
                    break
        except MalformedInput as error:
            self._fail(
                ConnectionClosed(f"{self._transport.peer} does not speak AMQP 0-9-1 as it should: {error}")
            )
        return True

    def _on_frame(self, frame: Frame) -> None:
        if frame.type == c.FRAME_HEARTBEAT:
            return
        if frame.channel:
            channel = self._channels.get(frame.channel)
            if channel is not None:
                channel.on_frame(frame)
            return
        match m.decode_method(frame.payload):
            case m.ConnectionClose(reply_code, reply_text):
                self._unsent += encode_method_frame(0, m.ConnectionCloseOk())
                with suppress(ClientError), memoryview(self._unsent) as view:
                    self._transport.send_some(view)
                self._fail(ConnectionClosed("connection closed by the broker", reply_code, reply_text))
            case m.ConnectionBlocked(reason):
                self.blocked_reason = reason
            case m.ConnectionUnblocked():
                self.blocked_reason = None
            case method:
                self._replies.append(method)

    def _wait_for_reply(self, deadline: float, purpose: str, expected: type[M]) -> M:
        while not self._replies:
            self.pump(deadline, purpose)
            if not self._replies:
                self.check_open()
        reply = self._replies.pop(0)
        if not isinstance(reply, expected):
            raise ClientError(f"{self._transport.peer} sent {reply.name} instead of {expected.name}")
        return reply

    def _fail(self, error: ClientError) -> None:
        """Closes the transport; from here on everything raises `error`."""
        if self._error is None:
            self._error = error
        self._unsent.clear()
        self._transport.close()
