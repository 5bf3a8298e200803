"""`python -m benchmarks.floor`: nearly the least that a broker can do with large bodies, to compare a real one with.

It speaks as much AMQP 0-9-1 as the load generator needs and hands what its one publisher sends to its one consumer as
it came: a read for as much as there is, a write for all whole messages of it. There is no queue, no limit and no
second consumer. Nearly all of its time is the kernel's. Python adds some microseconds to a message, a tenth at 64 KiB,
so that a broker may be above it there; below it is no floor.
"""

from __future__ import annotations

import socket
import struct
import threading

from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame

READ_BYTES = 1 << 20
#: Room for what is left of one read, and the next one.
BUFFER_BYTES = 4 << 20
_FRAME_OVERHEAD = 8  # type, channel and size before the payload, the end octet behind it
_CONSUMER_TAG = "floor"


class Gone(Exception):
    """The client has closed its socket."""


class Floor:
    """What all connections share: who consumes, and who may write now."""

    def __init__(self) -> None:
        self.consumer: socket.socket | None = None
        self.writing = threading.Lock()


class FloorConnection:
    """One client, served by a thread of its own: methods first, and whole messages once it publishes."""

    def __init__(self, floor: Floor, client: socket.socket) -> None:
        self.floor = floor
        self.client = client
        self.buffer = bytearray(BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.count = 0  # octets in the buffer, always from its beginning
        self.delivery_tag = 0

    def run(self) -> None:
        """Serve until the client goes."""
        try:
            with self.client:
                self._need(len(constants.PROTOCOL_HEADER))
                self._drop(len(constants.PROTOCOL_HEADER))
                self._send(methods.ConnectionStart(0, 9, Table({"version": "none"}), b"PLAIN", b"en_US"), 0)
                while True:
                    self._answer_method()
        except (Gone, OSError):
            if self.floor.consumer is self.client:
                self.floor.consumer = None

    def _answer_method(self) -> None:
        size = self._frame_bytes(0)
        (channel,) = struct.unpack_from(">H", self.buffer, 1)
        method = methods.decode_method(bytes(self.view[7 : size - 1]))
        if isinstance(method, methods.BasicPublish):
            self._hand_over(size)
            return
        self._drop(size)
        if isinstance(method, methods.BasicConsume):
            self.floor.consumer = self.client
        answer = answer_to(method)
        if answer is not None:
            self._send(answer, channel)

    def _hand_over(self, method_bytes: int) -> None:
        """Hand over messages as long as they begin as the first one did, `method_bytes` of basic.publish. All are of
        one size."""
        publish = bytes(self.buffer[:method_bytes])
        length = method_bytes + self._frame_bytes(method_bytes)
        (left,) = struct.unpack_from(">Q", self.buffer, method_bytes + 11)
        while left:
            self._need(length + 7)
            (size,) = struct.unpack_from(">L", self.buffer, length + 3)
            left -= size
            length += size + _FRAME_OVERHEAD
        while self.buffer.startswith(publish):
            self._need(length)
            whole = self.count // length
            pieces: list[bytes | memoryview] = []
            for begin in range(0, whole * length, length):
                if not self.buffer.startswith(publish, begin):
                    whole = begin // length
                    break
                pieces += self._delivery(), self.view[begin + method_bytes : begin + length]
            self._deliver(pieces)
            self._drop(whole * length)
            self._frame_bytes(0)

    def _delivery(self) -> bytes:
        self.delivery_tag += 1
        deliver = methods.BasicDeliver(_CONSUMER_TAG, self.delivery_tag, False, "", "floor")
        return encode_method_frame(1, deliver)

    def _deliver(self, pieces: list[bytes | memoryview]) -> None:
        consumer = self.floor.consumer
        if consumer is None:
            raise Gone
        with self.floor.writing:
            while pieces:
                sent = consumer.sendmsg(pieces)
                while pieces and sent >= len(pieces[0]):
                    sent -= len(pieces.pop(0))
                if sent:
                    pieces[0] = memoryview(pieces[0])[sent:]

    def _frame_bytes(self, begin: int) -> int:
        """The octets of the frame at `begin`, all of which are in the buffer then."""
        self._need(begin + 7)
        (size,) = struct.unpack_from(">L", self.buffer, begin + 3)
        self._need(begin + size + _FRAME_OVERHEAD)
        return int(size) + _FRAME_OVERHEAD

    def _need(self, count: int) -> None:
        if count > BUFFER_BYTES - READ_BYTES:
            raise ValueError(f"a message of {count} octets is above the floor's {BUFFER_BYTES - READ_BYTES}")
        while self.count < count:
            received = self.client.recv_into(self.view[self.count :], READ_BYTES)
            if not received:
                raise Gone
            self.count += received

    def _drop(self, count: int) -> None:
        left = self.count - count
        self.view[:left] = self.view[count : self.count]
        self.count = left

    def _send(self, method: methods.Method, channel: int) -> None:
        with self.floor.writing:
            self.client.sendall(encode_method_frame(channel, method))


def answer_to(method: methods.Method) -> methods.Method | None:
    """What a broker says to it, if anything."""
    match method:
        case methods.ConnectionStartOk():
            return methods.ConnectionTune(1, constants.DEFAULT_FRAME_MAX, 0)
        case methods.ConnectionOpen():
            return methods.ConnectionOpenOk()
        case methods.ConnectionClose():
            return methods.ConnectionCloseOk()
        case methods.ChannelOpen():
            return methods.ChannelOpenOk()
        case methods.ChannelFlow():
            return methods.ChannelFlowOk(active=True)
        case methods.BasicQos():
            return methods.BasicQosOk()
        case methods.BasicConsume():
            return methods.BasicConsumeOk(_CONSUMER_TAG)
    return None


def serve() -> None:
    """Serve on a free port of loopback until killed; the first line tells its address."""
    floor = Floor()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"ready amqp://127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            client, _ = server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=FloorConnection(floor, client).run, daemon=True).start()


if __name__ == "__main__":
    serve()
