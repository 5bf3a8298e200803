"""SimulatedClient: one AMQP connection of a simulated application: octets out, octets in.

It writes frames with the project's codecs and reads what the broker says into events. It decides nothing: what to send
is the workload's business, what it means is the model's.

Invariants:
1. `outgoing` holds octets that the broker has not been given; `operations` those operations, in order, whose octets
   the broker has not handled completely yet.
2. A channel number is never used twice on a connection, so that an event belongs to one channel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.simulation.settings import PASSWORD, USER

FRAME_MAX = 4096


@dataclass(slots=True)
class Operation:
    """Something that a client does. `end`: how many octets the broker must have handled for it to be done."""

    kind: str
    channel: Any
    values: dict[str, Any]
    end: int = 0
    turn: int = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(slots=True)
class Event:
    """A method of the broker's, with its content if it has any."""

    channel_id: int
    method: Any
    properties: bytes = b""
    body: bytes = b""


@dataclass(slots=True)
class _Content:
    method: Any
    size: int = -1
    properties: bytes = b""
    chunks: list[bytes] = field(default_factory=list)
    received: int = 0


class SimulatedClient:
    """One connection. `transport` is the broker's Connection, set by the world."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.transport: Any = None
        self.outgoing = bytearray()
        self.queued = 0
        self.fed = 0
        self.operations: deque[Operation] = deque()
        #: A declaration that the broker has read, and that takes effect when its command is committed.
        self.waiting: Operation | None = None
        self.is_open = False
        self.is_closing = False
        self.is_paused = False
        self.is_blocked = False
        self.channels: dict[int, Any] = {}
        self.consumers: dict[str, Any] = {}
        self.next_channel = 1
        self._incoming = bytearray()
        self._contents: dict[int, _Content] = {}
        self._put(PROTOCOL_HEADER)
        self._send(
            0,
            methods.ConnectionStartOk(
                Table(
                    {
                        "capabilities": {"connection.blocked": True, "consumer_cancel_notify": True},
                        "connection_name": name,
                    }
                ),
                "PLAIN",
                f"\0{USER}\0{PASSWORD}".encode(),
                "en_US",
            ),
        )
        self._send(0, methods.ConnectionTuneOk(2047, FRAME_MAX, 0))
        self._send(0, methods.ConnectionOpen("/"))

    # -- sending -----------------------------------------------------------------------------------------------------

    def _put(self, octets: bytes) -> None:
        self.outgoing += octets
        self.queued += len(octets)

    def _send(self, channel_id: int, method: Any) -> None:
        self._put(encode_method_frame(channel_id, method))

    def send(self, operation: Operation, channel_id: int, method: Any) -> None:
        """Send a method without content; `operation` is what it does."""
        self._send(channel_id, method)
        self._did(operation)

    def publish(
        self, operation: Operation, channel_id: int, method: Any, properties: dict[str, object], body: bytes
    ) -> None:
        """Send a message, its body split into frames of `operation.values["split"]` octets at most."""
        self._send(channel_id, method)
        section = encode_properties(properties)
        head = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section
        self._put(_frame(2, channel_id, head))
        split = operation.values["split"]
        for start in range(0, len(body), split):
            self._put(_frame(3, channel_id, body[start : start + split]))
        self._did(operation)

    def _did(self, operation: Operation) -> None:
        operation.end = self.queued
        self.operations.append(operation)

    def take_chunk(self, size: int) -> bytes:
        """The next octets for the broker."""
        chunk = bytes(self.outgoing[:size])
        del self.outgoing[:size]
        self.fed += len(chunk)
        return chunk

    def take_handled(self) -> Operation | None:
        """The next operation that the broker has handled completely."""
        handled = self.fed - len(self.transport.pending)
        if self.operations and self.operations[0].end <= handled:
            return self.operations.popleft()
        return None

    # -- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """What the broker says, as events in order."""
        self._incoming += data
        events: list[Event] = []
        position = 0
        incoming = self._incoming
        while len(incoming) - position >= 8:
            size = int.from_bytes(incoming[position + 3 : position + 7], "big")
            end = position + 8 + size
            if end > len(incoming):
                break
            assert incoming[end - 1] == 0xCE, "the broker's frame has no frame end"
            assert size + 8 <= FRAME_MAX or not self.is_open, f"a frame of {size + 8} octets is above frame_max"
            channel_id = int.from_bytes(incoming[position + 1 : position + 3], "big")
            self._receive_frame(incoming[position], channel_id, bytes(incoming[position + 7 : end - 1]), events)
            position = end
        del incoming[:position]
        return events

    def _receive_frame(self, kind: int, channel_id: int, payload: bytes, events: list[Event]) -> None:
        if kind == 1:
            assert channel_id not in self._contents, f"a method inside a content on channel {channel_id}"
            method = methods.decode_method(payload)
            if method.has_content:
                self._contents[channel_id] = _Content(method)
            else:
                events.append(Event(channel_id, method))
            return
        if kind == 8:
            return
        content = self._contents[channel_id]
        if kind == 2:
            assert content.size < 0, "two content headers"
            content.size = int.from_bytes(payload[4:12], "big")
            content.properties = payload[12:]
        else:
            content.chunks.append(payload)
            content.received += len(payload)
        if content.received >= content.size:
            assert content.received == content.size, "a body longer than its header says"
            del self._contents[channel_id]
            events.append(Event(channel_id, content.method, content.properties, b"".join(content.chunks)))


def _frame(kind: int, channel_id: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel_id.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
