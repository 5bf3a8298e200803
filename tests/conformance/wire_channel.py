"""One channel of the raw client: send a method, expect a method, a message or a close.

It must not know sockets or tests. What is expected is the next frame of this channel, whatever it is: nothing
is skipped.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tests.conformance import wire_codec as codec
from tests.conformance.wire_frames import ANSWER_TIMEOUT_S, Message, Method, Unexpected, check_close

if TYPE_CHECKING:
    from tests.conformance.wire import Connection


class Channel:
    """One channel of a Connection."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self._is_opening = False

    def open(self) -> None:
        self.send("channel.open")
        self._is_opening = True

    def send(self, name: str, **arguments: Any) -> None:
        self.connection.send_method(self.number, name, **arguments)

    def next_method(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Method:
        if self._is_opening:
            self._is_opening = False
            self.connection.expect("channel.open-ok", self.number)
        return self.connection.next_method(self.number, timeout_s)

    def expect(self, name: str, timeout_s: float = ANSWER_TIMEOUT_S) -> Method:
        method = self.next_method(timeout_s)
        if method.name != name:
            raise Unexpected(f"{name} was expected on channel {self.number}; the broker sent {method!r}")
        return method

    def call(self, name: str, **arguments: Any) -> Method:
        """Send a method and take its -ok answer."""
        self.send(name, **arguments)
        return self.expect(f"{name}-ok")

    def expect_close(self, code: int, text: str | None = None, by: str | None = None) -> str:
        """A channel.close with this code (and text, and blamed method); answers it."""
        close = self.expect("channel.close")
        check_close(close, code, text, by)
        self.send("channel.close-ok")
        return str(close.reply_text)

    def refused(self, code: int, text: str, name: str, **arguments: Any) -> None:
        """Send a method that must end in a channel.close with this code and text that blames it."""
        self.send(name, **arguments)
        self.expect_close(code, text, by=name)

    # -- content

    def send_content(self, body: bytes, section: bytes, size: int | None = None) -> None:
        """Content header and body frames, split as frame_max wants; `size` claims another body size."""
        header = codec.encode_content_header(len(body) if size is None else size, section)
        self.connection.send_frame(codec.FRAME_HEADER, self.number, header)
        limit = (self.connection.frame_max or 131072) - 8
        for start in range(0, len(body), limit):
            self.connection.send_frame(codec.FRAME_BODY, self.number, body[start : start + limit])

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        mandatory: bool = False,
        immediate: bool = False,
        **properties: Any,
    ) -> None:
        self.send(
            "basic.publish",
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
        )
        self.send_content(body, codec.encode_properties(properties))

    def expect_message(self, name: str, timeout_s: float = ANSWER_TIMEOUT_S) -> Message:
        method = self.expect(name, timeout_s)
        return self._take_content(method)

    def _take_content(self, method: Method) -> Message:
        header = self.connection.next_frame(self.number)
        if header is None or header.kind != codec.FRAME_HEADER:
            raise Unexpected(f"a content header was expected after {method!r}; the broker sent {header!r}")
        class_id, weight, size = struct.unpack(">HHQ", header.payload[:12])
        if (class_id, weight) != (codec.BASIC_CLASS, 0):
            raise Unexpected(f"a content header has class {class_id} and weight {weight}: {header!r}")
        body = b""
        sizes = []
        while len(body) < size:
            frame = self.connection.next_frame(self.number)
            if frame is None or frame.kind != codec.FRAME_BODY:
                raise Unexpected(f"a body frame was expected after {method!r}; the broker sent {frame!r}")
            body += frame.payload
            sizes.append(len(frame.payload))
        if len(body) != size:
            raise Unexpected(f"a body of {size} octets was announced; {len(body)} came")
        return Message(method, header.payload[12:], body, sizes)

    def expect_delivery(self, consumer_tag: str | None = None, timeout_s: float = ANSWER_TIMEOUT_S) -> Message:
        message = self.expect_message("basic.deliver", timeout_s)
        if consumer_tag is not None and message.consumer_tag != consumer_tag:
            raise Unexpected(f"a delivery to {consumer_tag!r} was expected; the broker sent {message!r}")
        return message

    def expect_deliveries(self, *bodies: bytes) -> list[Message]:
        """As many deliveries as bodies, in this order."""
        messages = [self.expect_delivery() for _ in bodies]
        if [message.body for message in messages] != list(bodies):
            raise Unexpected(f"deliveries of {list(bodies)} were expected; the broker sent {messages}")
        return messages

    def expect_confirms(self, count: int) -> list[Method]:
        """Acks and nacks that cover the next `count` sequence numbers (from 1 on a fresh channel), in
        whatever grouping.
        """
        methods: list[Method] = []
        open_numbers = set(range(1, count + 1))
        while open_numbers:
            method = self.next_method()
            if method.name not in ("basic.ack", "basic.nack"):
                raise Unexpected(f"confirms for {sorted(open_numbers)} were expected; the broker sent {method!r}")
            tag = method.delivery_tag
            covered = {number for number in open_numbers if number <= tag} if method.multiple else {tag} & open_numbers
            if not covered:
                raise Unexpected(f"{method!r} covers nothing of {sorted(open_numbers)}")
            open_numbers -= covered
            methods.append(method)
        return methods

    # -- shorthands

    def declare(self, queue: str = "", **arguments: Any) -> str:
        return str(self.call("queue.declare", queue=queue, **arguments).queue)

    def counts(self, queue: str) -> tuple[int, int]:
        """(ready messages, consumers)"""
        answer = self.call("queue.declare", queue=queue, passive=True)
        return answer.message_count, answer.consumer_count

    def consume(self, queue: str, **arguments: Any) -> str:
        return str(self.call("basic.consume", queue=queue, **arguments).consumer_tag)

    def get(self, queue: str, no_ack: bool = True) -> Message | None:
        self.send("basic.get", queue=queue, no_ack=no_ack)
        method = self.next_method()
        if method.name == "basic.get-empty":
            return None
        if method.name != "basic.get-ok":
            raise Unexpected(f"an answer to basic.get was expected; the broker sent {method!r}")
        return self._take_content(method)

    def get_bodies(self, queue: str) -> list[bytes]:
        """Everything that is ready in a queue, taken without acknowledgement."""
        bodies = []
        while (message := self.get(queue)) is not None:
            bodies.append(message.body)
        return bodies

    def expect_silence(self, *queues: str) -> None:
        """Nothing is on its way to this channel: two round trips (through the queues, if named) bring nothing
        but their own answers.
        """
        for _ in range(2):
            for queue in queues:
                self.call("queue.declare", queue=queue, passive=True)
            self.call("channel.flow", active=True)
