"""A broker's end of one connection, played by a function in a thread: what the client's tests talk to."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import (
    Frame,
    FrameParser,
    decode_content_header,
    encode_content,
    encode_method_frame,
)
from amqp_broker.protocol.properties import NO_PROPERTIES

TIMEOUT_S = 10.0
SERVER_PROPERTIES = Table({"product": "script"})


class Peer:
    """The accepted connection. `expect` asserts what the client sends next; everything else answers."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._parser = FrameParser(0)
        self._frames: list[Frame] = []

    def read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, f"the client has gone after {data!r}"
            data += piece
        return data

    def frame(self) -> Frame:
        """The next frame from the client."""
        while not self._frames:
            data = self.socket.recv(65536)
            assert data, "the client has gone"
            self._frames += self._parser.receive_data(data)
        return self._frames.pop(0)

    def expect(self, kind: type[m.Method], channel: int) -> Any:
        """The next method from the client, which must be of this kind and on this channel."""
        frame = self.frame()
        assert frame.type == c.FRAME_METHOD
        method = m.decode_method(frame.payload)
        assert (type(method), frame.channel) == (kind, channel), f"{method} on channel {frame.channel}"
        return method

    def expect_content(self, channel: int) -> tuple[bytes, list[bytes]]:
        """The property section and the body frames that follow a basic.publish."""
        frame = self.frame()
        assert (frame.type, frame.channel) == (c.FRAME_HEADER, channel)
        header = decode_content_header(frame.payload)
        bodies: list[bytes] = []
        while sum(map(len, bodies)) < header.body_size:
            frame = self.frame()
            assert (frame.type, frame.channel) == (c.FRAME_BODY, channel)
            bodies.append(frame.payload)
        return header.properties, bodies

    def expect_end(self) -> None:
        """The client closes the transport and has sent nothing more."""
        assert not self._frames
        assert self.socket.recv(65536) == b""

    def send(self, channel: int, method: m.Method) -> None:
        self.socket.sendall(encode_method_frame(channel, method))

    def send_message(
        self,
        channel: int,
        method: m.Method,
        body: bytes,
        properties: bytes = NO_PROPERTIES,
        frame_max: int = 131072,
    ) -> None:
        """A method with its content."""
        self.socket.sendall(encode_method_frame(channel, method))
        self.socket.sendall(encode_content(channel, properties, body, frame_max))

    def shake_hands(self, frame_max: int = 131072, channel_max: int = 2047) -> m.ConnectionStartOk:
        """The whole handshake, with the client's start-ok as the result."""
        assert self.read_exactly(8) == c.PROTOCOL_HEADER
        self.send(0, m.ConnectionStart(0, 9, SERVER_PROPERTIES, b"PLAIN AMQPLAIN EXTERNAL", b"en_US"))
        start_ok: m.ConnectionStartOk = self.expect(m.ConnectionStartOk, 0)
        self.send(0, m.ConnectionTune(channel_max, frame_max, 60))
        self.expect(m.ConnectionTuneOk, 0)
        self.expect(m.ConnectionOpen, 0)
        self.send(0, m.ConnectionOpenOk())
        return start_ok

    def open_channel(self, number: int = 1) -> None:
        self.expect(m.ChannelOpen, number)
        self.send(number, m.ChannelOpenOk())

    def close_channel(self, number: int = 1) -> None:
        self.expect(m.ChannelClose, number)
        self.send(number, m.ChannelCloseOk())

    def close(self) -> None:
        """The client's goodbye."""
        self.expect(m.ConnectionClose, 0)
        self.send(0, m.ConnectionCloseOk())
        self.expect_end()


@contextmanager
def scripted(script: Callable[[Peer], None], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL at which `script` plays the broker for one connection. What it raises is raised at the end."""
    raised: list[Exception] = []
    accepted: list[socket.socket] = []

    def play() -> None:
        try:
            connected, _ = listener.accept()
            connected.settimeout(TIMEOUT_S)
            accepted.append(connected)
            if tls is not None:
                connected = tls.wrap_socket(connected, server_side=True)
                accepted.append(connected)
            script(Peer(connected))
        except (AssertionError, OSError, ValueError) as error:
            raised.append(error)
        finally:
            for each in accepted:
                each.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield f"{'amqps' if tls else 'amqp'}://localhost:{listener.getsockname()[1]}"
        finally:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive()
    if raised:
        raise raised[0]
