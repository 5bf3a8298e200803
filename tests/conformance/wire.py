"""A raw AMQP 0-9-1 client for the conformance suite: frames in, frames out, nothing hidden.

It speaks over one blocking socket and never reconnects, retries or reorders. It must not know pytest or the
broker's code.

Invariants:
1. `Sends.PIPELINED` keeps what is sent until an answer is asked for, so that requests reach the broker
   together; `Sends.OCTETS` hands every octet to the kernel by itself. Both must yield the same answers.
2. Every frame received belongs to one expectation: what nobody expected shows up in the next expectation and
   fails it by name.
3. Whoever expects a close answers it with close-ok, as the specification wants.
"""

from __future__ import annotations

import enum
import select
import socket
import struct
import time
from collections import deque
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tests.conformance import wire_codec as codec
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_frames import ANSWER_TIMEOUT_S, Frame, Method, Unexpected, check_close

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Sends(enum.Enum):
    PIPELINED = "pipelined"
    OCTETS = "octets"


class Address(NamedTuple):
    """Where a broker is and who logs in, from an amqp:// URL."""

    host: str
    port: int
    user: str
    password: str
    vhost: str


def parse_url(url: str) -> Address:
    parts = urlsplit(url)
    vhost = unquote(parts.path[1:]) or "/"
    return Address(
        parts.hostname or "127.0.0.1",
        parts.port or 5672,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        vhost,
    )


class Connection:
    """One socket to a broker; `open` does the whole handshake, or the steps can be made one by one."""

    def __init__(self, address: Address, sends: Sends = Sends.PIPELINED) -> None:
        self.address = address
        self.vhost = address.vhost
        self.sends = sends
        self.frame_max = 0
        self.server_properties: dict[str, Any] = {}
        self._socket = socket.create_connection((address.host, address.port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._unsent = bytearray()
        self._waiting: dict[int, deque[Frame]] = {}
        self._at_end = False
        self._next_channel = 1

    # -- sending

    def send_octets(self, octets: bytes) -> None:
        if self.sends is Sends.PIPELINED or len(octets) > 100_000:
            self._unsent += octets
            return
        self.flush()
        for index in range(len(octets)):
            self._transmit(octets[index : index + 1])

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        if unsent:
            self._transmit(unsent)

    def _transmit(self, octets: bytes | bytearray) -> None:
        """Send, and read meanwhile: two sides that only write would wait for each other."""
        view = memoryview(octets)
        while view:
            readable, writable, _ = select.select([self._socket], [self._socket], [], ANSWER_TIMEOUT_S)
            if not readable and not writable:
                raise Unexpected(f"the broker stopped reading with {len(view)} octets to send")
            if readable and not self._receive_more():
                return  # closed by the broker: what it said last is in the buffer
            if writable:
                try:
                    view = view[self._socket.send(view[:65536]) :]
                except (BrokenPipeError, ConnectionResetError):
                    return  # likewise

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send_octets(codec.encode_frame(kind, channel, payload))

    def send_method(self, channel: int, name: str, **arguments: Any) -> None:
        self.send_frame(codec.FRAME_METHOD, channel, codec.encode_method(name, **arguments))

    # -- receiving

    def _receive_more(self) -> bool:
        try:
            piece = self._socket.recv(262144)
        except (ConnectionResetError, BrokenPipeError):
            piece = b""
        if not piece:
            self._at_end = True
        self._received += piece
        return bool(piece)

    def read_octets(self, count: int, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        """Exactly `count` octets, or fewer when the broker closed the transport."""
        self.flush()
        deadline = time.monotonic() + timeout_s
        while len(self._received) < count and not self._at_end:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([self._socket], [], [], remaining)[0]:
                raise Unexpected(f"nothing came within {timeout_s} s; {len(self._received)} octets of {count} are here")
            self._receive_more()
        piece = bytes(self._received[:count])
        del self._received[:count]
        return piece

    def read_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Frame | None:
        """The next frame of any channel, heartbeats included; None once the broker closed the transport."""
        head = self.read_octets(7, timeout_s)
        if not head:
            return None
        if len(head) < 7:
            raise Unexpected(f"the broker closed the transport inside a frame header: {head!r}")
        kind, channel, size = struct.unpack(">BHI", head)
        rest = self.read_octets(size + 1, timeout_s)
        if len(rest) <= size or rest[size] != codec.FRAME_END:
            raise Unexpected(f"the broker sent a frame without a proper end: {head!r} {rest!r}")
        if self.frame_max and size + 8 > self.frame_max:
            raise Unexpected(f"the broker sent a frame of {size + 8} octets; frame_max is {self.frame_max}")
        return Frame(kind, channel, rest[:size])

    def keep_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> int | None:
        """Receive one frame and keep it for its channel, which is returned; None once the broker closed the
        transport.

        Heartbeats are left out.
        """
        while (frame := self.read_frame(timeout_s)) is not None:
            if frame.kind != codec.FRAME_HEARTBEAT:
                self._waiting.setdefault(frame.channel, deque()).append(frame)
                return frame.channel
        return None

    def next_frame(self, channel: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Frame | None:
        """The next frame of one channel; frames of other channels are kept for them, save for channel 0's."""
        waiting = self._waiting.setdefault(channel, deque())
        while not waiting:
            received = self.keep_frame(timeout_s)
            if received is None:
                return None
            if received == 0 and channel != 0:
                said = self._describe(self._waiting[0].popleft())
                raise Unexpected(f"on channel {channel} an answer was expected; the connection got {said}")
        return waiting.popleft()

    @staticmethod
    def _describe(frame: Frame) -> str:
        if frame.kind == codec.FRAME_METHOD:
            return repr(
                Method(
                    codec.decode_method(frame.payload)[0],
                    frame.channel,
                    codec.decode_method(frame.payload)[1],
                )
            )
        return f"a frame of type {frame.kind} on channel {frame.channel} with {frame.payload[:40]!r}"

    def next_method(self, channel: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Method:
        frame = self.next_frame(channel, timeout_s)
        if frame is None:
            raise Unexpected("the broker closed the transport without a word")
        if frame.kind != codec.FRAME_METHOD:
            raise Unexpected(f"a method was expected; the broker sent {self._describe(frame)}")
        return Method(codec.decode_method(frame.payload)[0], frame.channel, codec.decode_method(frame.payload)[1])

    def expect(self, name: str, channel: int = 0, timeout_s: float = ANSWER_TIMEOUT_S) -> Method:
        method = self.next_method(channel, timeout_s)
        if method.name != name:
            raise Unexpected(f"{name} was expected; the broker sent {method!r}")
        return method

    def expect_close(
        self, code: int, text: str | None = None, by: str | None = None, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> str:
        """A connection.close with this code (and text, and blamed method); answers it and awaits the end of
        the transport.
        """
        close = self.expect("connection.close", timeout_s=timeout_s)
        check_close(close, code, text, by)
        self.send_method(0, "connection.close-ok")
        self.expect_end()
        return str(close.reply_text)

    def expect_end(self, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """The broker closes the transport, and says nothing more on channel 0."""
        while (frame := self.read_frame(timeout_s)) is not None:
            if frame.channel == 0 and frame.kind != codec.FRAME_HEARTBEAT:
                raise Unexpected(f"the end of the transport was expected; the broker sent {self._describe(frame)}")

    # -- the handshake, step by step and whole

    def start(self, header: bytes = codec.PROTOCOL_HEADER) -> Method:
        self.send_octets(header)
        start = self.expect("connection.start")
        self.server_properties = start.server_properties
        return start

    def send_start_ok(
        self,
        user: str | None = None,
        password: str | None = None,
        mechanism: str = "PLAIN",
        response: bytes | None = None,
        capabilities: dict[str, Any] | None = None,
        client_properties: dict[str, Any] | None = None,
    ) -> None:
        if response is None:
            name, secret = user or self.address.user, password or self.address.password
            response = b"\0" + name.encode() + b"\0" + secret.encode()
        properties = {
            "product": "conformance suite",
            "capabilities": CAPABILITIES if capabilities is None else capabilities,
            **(client_properties or {}),
        }
        self.send_method(
            0,
            "connection.start-ok",
            client_properties=properties,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )

    def tune(self, frame_max: int | None = None, channel_max: int | None = None, heartbeat: int = 0) -> Method:
        """Await the broker's offer and answer it: unchanged where nothing is given, without heartbeats."""
        offer = self.expect("connection.tune")
        self.frame_max = offer.frame_max if frame_max is None else frame_max
        channels = offer.channel_max if channel_max is None else channel_max
        self.send_method(0, "connection.tune-ok", channel_max=channels, frame_max=self.frame_max, heartbeat=heartbeat)
        return offer

    def open(
        self,
        user: str | None = None,
        password: str | None = None,
        vhost: str | None = None,
        capabilities: dict[str, Any] | None = None,
        frame_max: int | None = None,
        channel_max: int | None = None,
        heartbeat: int = 0,
    ) -> Connection:
        self.vhost = self.vhost if vhost is None else vhost
        self.start()
        self.send_start_ok(user, password, capabilities=capabilities)
        self.tune(frame_max, channel_max, heartbeat)
        self.send_method(0, "connection.open", virtual_host=self.vhost)
        self.expect("connection.open-ok")
        return self

    def channel(self, number: int | None = None) -> Channel:
        """A fresh channel: channel.open is sent at once, its open-ok is taken by the first expectation."""
        channel = self.unopened_channel(number)
        channel.open()
        return channel

    def unopened_channel(self, number: int | None = None) -> Channel:
        if number is None:
            number = self._next_channel
            self._next_channel += 1
        return Channel(self, number)

    def fill(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Put messages into a queue and wait until the broker confirmed that they are there."""
        channel = self.channel()
        channel.call("confirm.select")
        for body in bodies:
            channel.publish("", queue, body, **properties)
        channel.expect_confirms(len(bodies))
        channel.call("channel.close", reply_code=200)

    def let_pass(self, milliseconds: int) -> None:
        """Wait by the broker's own clock: a message of this time to live has expired and come back as a dead
        letter.
        """
        channel = self.channel()
        expired = channel.declare(exclusive=True)
        arguments = {
            "x-message-ttl": milliseconds,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": expired,
        }
        waiting = channel.declare(exclusive=True, arguments=arguments)
        channel.consume(expired, no_ack=True)
        channel.publish("", waiting)
        channel.expect_delivery(timeout_s=milliseconds / 1000 + ANSWER_TIMEOUT_S)
        channel.call("channel.close", reply_code=200)

    def close(self) -> None:
        """A polite close: connection.close, close-ok, then the socket."""
        self.send_method(0, "connection.close", reply_code=200, reply_text="done")
        while (frame := self.next_frame(0)) is not None:
            if codec.decode_method(frame.payload)[0] == "connection.close-ok":
                break
        self.drop()

    def drop(self) -> None:
        """Close the socket without a word."""
        self._socket.close()
