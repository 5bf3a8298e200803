"""Link: one blocking AMQP connection with one channel, for everything that is not hot.

It shakes hands, declares, binds and consumes, and then hands its socket, with the octets that it has read too
much, to a hot loop. Heartbeats are off: a loop that is told to stop ends within a fraction of a second, and a
broken peer shows at the socket.

Source of the order of methods: AMQP 0-9-1 §1.4 (class connection).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Self, TypeVar

from amqp_broker.bench.target import Target
from amqp_broker.bench.tls_pipe import TlsPipe
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame

CHANNEL = 1
LOOP_TIMEOUT_MS = 200  # how often a waiting loop looks whether it is to stop

CLIENT_PROPERTIES = {
    "product": "amqp-broker bench",
    "capabilities": {
        "publisher_confirms": True,
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "authentication_failure_close": True,
    },
}

M = TypeVar("M", bound=methods.Method)


class LinkError(Exception):
    """The broker cannot be reached, refused something, or went away: one line."""


def close_reason(method: methods.Method) -> str:
    """What a channel.close or connection.close says."""
    code, text = getattr(method, "reply_code", 0), getattr(method, "reply_text", "")
    return f"the broker sent {method.name}: {code} {text}"


class Link:
    """A connection with channel 1 open. Raises LinkError wherever the broker does not play along."""

    def __init__(self, target: Target, name: str, timeout: float = 30.0) -> None:
        self.target = target
        self.frame_max = constants.DEFAULT_FRAME_MAX
        self.server_properties: Mapping[str, object] = {}
        self._read = b""
        self._pipe: TlsPipe | None = None
        try:
            self.sock = socket.create_connection((target.host, target.port), timeout)
        except OSError as error:
            way_out = "start a broker there (amqp-broker serve) or give another --url"
            raise LinkError(f"cannot reach {target.location}: {error}; {way_out}") from error
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if target.tls is not None:
                self.sock = self._open_tls(target.tls)
            self._shake_hands(name)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.sock.close()

    def _open_tls(self, context: SSLContext) -> socket.socket:
        try:
            self._pipe = TlsPipe(self.sock, context, self.target.host)
        except OSError as error:
            raise LinkError(f"{self.target.location}: no TLS: {error}") from error
        return self._pipe.client_end

    def _why(self, error: OSError) -> OSError:
        """What has gone wrong, where an error at our end may be its consequence only."""
        return error if self._pipe is None else self._pipe.failure or error

    def _shake_hands(self, name: str) -> None:
        target = self.target
        self.send_octets(constants.PROTOCOL_HEADER)
        self.server_properties = self.expect(methods.ConnectionStart, 0).server_properties
        client = Table({**CLIENT_PROPERTIES, "connection_name": name})
        response = b"\0" + target.user.encode() + b"\0" + target.password.encode()
        self.send(methods.ConnectionStartOk(client, "PLAIN", response, "en_US"), 0)
        tune = self.expect(methods.ConnectionTune, 0)
        self.frame_max = min(tune.frame_max or constants.DEFAULT_FRAME_MAX, constants.DEFAULT_FRAME_MAX)
        self.send(methods.ConnectionTuneOk(tune.channel_max, self.frame_max, 0), 0)
        self.send(methods.ConnectionOpen(virtual_host=target.vhost), 0)
        self.expect(methods.ConnectionOpenOk, 0)
        self.call(methods.ChannelOpen(), methods.ChannelOpenOk)

    def send(self, method: methods.Method, channel: int = CHANNEL) -> None:
        """Send one method and wait for nothing."""
        self.send_octets(encode_method_frame(channel, method))

    def call(self, method: methods.Method, answer: type[M]) -> M:
        """Send one method and return its answer."""
        self.send(method)
        return self.expect(answer)

    def send_octets(self, octets: bytes) -> None:
        """Send whole frames, as they are."""
        try:
            self.sock.sendall(octets)
        except OSError as error:
            raise LinkError(f"{self.target.location} is gone: {self._why(error)}") from error

    def expect(self, answer: type[M], channel: int = CHANNEL) -> M:
        """The next method of this kind; what comes before it is passed over."""
        while True:
            kind, number, payload = self._read_frame()
            if kind != constants.FRAME_METHOD:
                continue
            try:
                method = methods.decode_method(payload)
            except MalformedInput as error:
                raise LinkError(f"{self.target.location} sent what is not AMQP 0-9-1: {error}") from error
            if isinstance(method, answer) and number == channel:
                return method
            if isinstance(method, (methods.ConnectionClose, methods.ChannelClose)):
                raise LinkError(f"{self.target.location}: {close_reason(method)}")

    def _read_frame(self) -> tuple[int, int, bytes]:
        while len(self._read) < 8 or len(self._read) < 8 + int.from_bytes(self._read[3:7], "big"):
            if self._read[:4] == b"AMQP":
                offer = self._read[:8]
                raise LinkError(f"{self.target.location} does not speak AMQP 0-9-1; it offers {offer!r}")
            try:
                octets = self.sock.recv(65536)
            except OSError as error:
                raise LinkError(f"{self.target.location} does not answer: {self._why(error)}") from error
            if not octets:
                way_out = "check user, password and vhost in --url"
                raise LinkError(f"{self.target.location} closed the connection without a word; {way_out}")
            self._read += octets
        kind, channel, size = struct.unpack_from(">BHL", self._read)
        payload = self._read[7 : 7 + size]
        self._read = self._read[8 + size :]
        return kind, channel, payload

    def declare_queue(self, name: str, durable: bool, arguments: Mapping[str, object]) -> None:
        """Declare without waiting for the answer; `sync` tells whether it was accepted."""
        table = Table(arguments)
        self.send(methods.QueueDeclare(queue=name, durable=durable, nowait=True, arguments=table))

    def declare_exchange(self, name: str, kind: str, durable: bool) -> None:
        """Declare without waiting for the answer; `sync` tells whether it was accepted."""
        self.send(methods.ExchangeDeclare(exchange=name, type=kind, durable=durable, nowait=True))

    def bind_queue(self, queue: str, exchange: str, key: str, arguments: Mapping[str, object]) -> None:
        """Bind with binding key `key`, without waiting; `sync` tells whether it was accepted."""
        table = Table(arguments)
        bind = methods.QueueBind(
            queue=queue, exchange=exchange, routing_key=key, nowait=True, arguments=table
        )
        self.send(bind)

    def delete_queue(self, name: str) -> None:
        """Delete without waiting for the answer. A queue that is not there is no error."""
        self.send(methods.QueueDelete(queue=name, nowait=True))

    def delete_exchange(self, name: str) -> None:
        """Delete without waiting for the answer. An exchange that is not there is no error."""
        self.send(methods.ExchangeDelete(exchange=name, nowait=True))

    def sync(self) -> None:
        """Return once everything sent before has been done, or raise what it met."""
        self.call(methods.ChannelFlow(active=True), methods.ChannelFlowOk)

    def count_messages(self, queue: str) -> int:
        """How many messages are ready in the queue."""
        answer = self.call(methods.QueueDeclare(queue=queue, passive=True), methods.QueueDeclareOk)
        return int(answer.message_count)

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """The socket, blocking with the time-out that the loops need, and the octets read too much."""
        self.sock.settimeout(None)
        seconds, rest = divmod(LOOP_TIMEOUT_MS, 1000)
        interval = struct.pack("@ll", seconds, rest * 1000)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)
        return self.sock, self._read

    def close(self) -> None:
        """Close as the protocol wants it."""
        self.send(good_bye(), 0)
        self.expect(methods.ConnectionCloseOk, 0)
        self.sock.close()


def good_bye() -> methods.ConnectionClose:
    """The connection.close of a client that has done what it wanted."""
    return methods.ConnectionClose(reply_code=constants.ReplyCode.REPLY_SUCCESS, reply_text="done")
