"""A client for load tests: one socket, one channel, everything that happens is an event for its thread.

Unlike the project's own client it tells of every single confirm, also of those that arrived just before the broker was
killed: what was confirmed and what was not is the whole point here.
"""

from __future__ import annotations

import select
import socket
from typing import TypeVar

from amqp_broker.client.messages import Assembly, Delivery
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import FrameParser, encode_content, encode_method_frame
from amqp_broker.protocol.properties import encode_properties

TIMEOUT_S = 30.0
CHANNEL = 1
PERSISTENT = encode_properties({"delivery_mode": 2})
TRANSIENT = encode_properties({"delivery_mode": 1})

Event = m.Method | Delivery
Reply = TypeVar("Reply", bound=m.Method)


class BrokerGone(Exception):
    """The connection is lost: the broker was killed, or has died."""


class Refused(AssertionError):
    """The broker does not do what it is asked, or parts from the client. Only one that is ending may."""


class LoadConnection:
    """An open connection with channel 1 in confirm mode; `published` counts its publishes. Raises BrokerGone."""

    def __init__(self, host: str, port: int) -> None:
        self.published = 0
        self._parser = FrameParser()
        self._assembly: Assembly | None = None
        self._unsent = bytearray()
        self._events: list[Event] = []
        self._publish_frames: dict[tuple[str, str], bytes] = {}
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_S)
        except OSError as error:
            raise BrokerGone(str(error)) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open()
        except BaseException:
            self._socket.close()
            raise

    def _open(self) -> None:
        self._unsent += c.PROTOCOL_HEADER
        self._wait_for(m.ConnectionStart)
        self._send(0, m.ConnectionStartOk(Table({}), "PLAIN", b"\0guest\0guest", "en_US"))
        tune = self._wait_for(m.ConnectionTune)
        self._send(0, m.ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        self._send(0, m.ConnectionOpen("/"))
        self._wait_for(m.ConnectionOpenOk)
        self.call(m.ChannelOpen(), m.ChannelOpenOk)
        self.call(m.ConfirmSelect(), m.ConfirmSelectOk)

    def call(self, method: m.Method, reply: type[Reply]) -> Reply:
        """Send a method and wait for its reply; other events stay for `poll`."""
        self.send(method)
        return self._wait_for(reply)

    def send(self, method: m.Method) -> None:
        """Queue a method; `flush` and `poll` send it."""
        self._send(CHANNEL, method)

    def publish(self, exchange: str, routing_key: str, body: bytes, is_persistent: bool) -> int:
        """Queue a message. Returns its number among the confirms."""
        return self.publish_with(exchange, routing_key, body, PERSISTENT if is_persistent else TRANSIENT)

    def publish_with(self, exchange: str, routing_key: str, body: bytes, section: bytes) -> int:
        """The same, with these properties."""
        frame = self._publish_frames.get((exchange, routing_key))
        if frame is None:
            frame = encode_method_frame(CHANNEL, m.BasicPublish(0, exchange, routing_key))
            self._publish_frames[exchange, routing_key] = frame
        self._unsent += frame
        self._unsent += encode_content(CHANNEL, section, body)
        self.published += 1
        return self.published

    def flush(self) -> None:
        """Send what is queued."""
        if self._unsent:
            try:
                self._socket.sendall(self._unsent)
            except OSError as error:
                raise BrokerGone(str(error)) from error
            self._unsent.clear()

    def poll(self, timeout_s: float) -> list[Event]:
        """Deliveries and methods that have arrived, waiting for the first at most so long."""
        self.flush()
        if not self._events:
            self._receive(timeout_s)
        events, self._events = self._events, []
        return events

    def drop(self) -> None:
        """Close the socket without a word."""
        self._socket.close()

    def _send(self, channel: int, method: m.Method) -> None:
        self._unsent += encode_method_frame(channel, method)

    def _wait_for(self, reply: type[Reply]) -> Reply:
        self.flush()
        while True:
            for index, event in enumerate(self._events):
                if isinstance(event, reply):
                    del self._events[index]
                    return event
            if not self._receive(TIMEOUT_S):
                raise AssertionError(f"no {reply.__name__} within {TIMEOUT_S} s: the broker hangs")

    def _receive(self, timeout_s: float) -> bool:
        """Read once. Returns whether anything came."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return False
        try:
            data = self._socket.recv(262_144)
        except OSError as error:
            raise BrokerGone(str(error)) from error
        if not data:
            raise BrokerGone("end of stream")
        for frame in self._parser.receive_data(data):
            if self._assembly is None:
                if frame.type == c.FRAME_METHOD:
                    self._on_method(m.decode_method(frame.payload))
            elif self._assembly.add(frame):
                message = self._assembly.message()
                assert isinstance(message, Delivery)
                self._events.append(message)
                self._assembly = None
        return True

    def _on_method(self, method: m.Method) -> None:
        if isinstance(method, m.ConnectionClose | m.ChannelClose):
            raise Refused(f"the broker refuses: {method.reply_code} {method.reply_text}")
        if method.has_content:
            self._assembly = Assembly(method)
        else:
            self._events.append(method)
