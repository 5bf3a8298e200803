"""Messages that come in, and how they are put together of method, header and body frames."""

from __future__ import annotations

from dataclasses import dataclass

from amqp_broker.protocol import constants as c
from amqp_broker.protocol.errors import FrameError
from amqp_broker.protocol.frames import Frame, decode_content_header
from amqp_broker.protocol.methods import BasicDeliver, BasicGetOk, BasicReturn, Method
from amqp_broker.protocol.properties import Properties, decode_properties


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message from a queue. `message_count` is what a get left there, None if it was pushed."""

    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    body: bytes
    raw_properties: bytes
    message_count: int | None = None

    @property
    def properties(self) -> Properties:
        """The properties, decoded anew each time."""
        return decode_properties(self.raw_properties)


@dataclass(frozen=True, slots=True)
class ReturnedMessage:
    """A mandatory message that came back."""

    reply_code: int
    reply_text: str
    exchange: str
    routing_key: str
    body: bytes
    raw_properties: bytes

    @property
    def properties(self) -> Properties:
        """The properties, decoded anew each time."""
        return decode_properties(self.raw_properties)


class Assembly:
    """Collects the content that follows a method: one header frame, then bodies up to its size."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._properties: bytes | None = None
        self._body = bytearray()
        self._body_size = 0

    def add(self, frame: Frame) -> bool:
        """Takes the next frame; True once the content is complete. FrameError if it does not belong."""
        if self._properties is None and frame.type == c.FRAME_HEADER:
            _, self._body_size, self._properties = decode_content_header(frame.payload)
        elif self._properties is not None and frame.type == c.FRAME_BODY:
            self._body += frame.payload
        else:
            raise FrameError(f"frame of type {frame.type} inside the content of {self._method.name}")
        if len(self._body) > self._body_size:
            raise FrameError(
                f"{self._method.name}: {len(self._body)} octets of body, {self._body_size} announced"
            )
        return len(self._body) == self._body_size

    def message(self) -> Delivery | ReturnedMessage:
        """The complete message."""
        method, body, properties = self._method, bytes(self._body), self._properties or b""
        match method:
            case BasicDeliver(consumer_tag, delivery_tag, redelivered, exchange, routing_key):
                return Delivery(
                    consumer_tag, delivery_tag, redelivered, exchange, routing_key, body, properties
                )
            case BasicGetOk(delivery_tag, redelivered, exchange, routing_key, count):
                return Delivery("", delivery_tag, redelivered, exchange, routing_key, body, properties, count)
            case BasicReturn(reply_code, reply_text, exchange, routing_key):
                return ReturnedMessage(reply_code, reply_text, exchange, routing_key, body, properties)
        raise FrameError(f"a client is not sent {method.name}")
