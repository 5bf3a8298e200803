"""Streams for the tests of them: declared with arguments that are written as x_max_age="7D", read from an offset."""

from __future__ import annotations

from typing import Any

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_frames import Message

#: What RabbitMQ 3.10 does otherwise with its streams, or does not do.
NEWER = "its streams do not"


def arguments_of(**arguments: Any) -> dict[str, Any]:
    """As a table, x-queue-type among them."""
    return {"x-queue-type": "stream", **{key.replace("_", "-"): value for key, value in arguments.items()}}


def declare(channel: Channel, name: str, **arguments: Any) -> str:
    """A stream."""
    return channel.declare(name, durable=True, arguments=arguments_of(**arguments))


def reader(connection: Connection, prefetch: int = 100) -> Channel:
    """A channel that may consume from streams."""
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=prefetch)
    return channel


def consume(channel: Channel, queue: str, offset: object = "first", **arguments: Any) -> str:
    """From this offset on."""
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    return channel.consume(queue, arguments={"x-stream-offset": offset, **table})


def offset_of(message: Message) -> int:
    """The offset that a delivery says, which is a signed long."""
    said = message.typed_headers["x-stream-offset"]
    assert said.kind == "l"
    return int(said.value)


def read(connection: Connection, queue: str, count: int, offset: object = "first", **arguments: Any) -> list[Message]:
    """So many messages from an offset on, and no more: of one that reads and goes."""
    channel = reader(connection)
    consume(channel, queue, offset, **arguments)
    messages = [channel.expect_delivery() for _ in range(count)]
    channel.expect_silence(queue)
    channel.call("channel.close", reply_code=200)
    return messages
