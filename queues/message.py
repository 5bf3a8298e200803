"""Message, Address, Delivery and Entry: what is published, where it was sent, what somebody holds of it, and its place
in one queue.

A message is kept as the octets that the publisher sent. `content` is a whole content header frame and, for a body
below `SEPARATE_BODY_BYTES`, the one body frame behind it, ready to be copied into a consumer's output with only the two
channel numbers patched. A larger body is kept beside it, frame payload by frame payload, and is never copied again:
it leaves in a vectored write.

Nothing in here decodes properties beyond the fixed facts that every queue needs (persistence, priority, expiration).

Invariants:
1. A Message never changes once it is made; queues share it.
2. `content[:header_end]` is the header frame; the property section is `content[19 : header_end - 1]`.
3. An Entry belongs to one queue; `consumer` is set exactly while the entry is delivered and unacknowledged.
"""

from __future__ import annotations

from typing import Any

import cython

#: Octets of a frame around its payload: type, channel, size and the end octet.
FRAME_OVERHEAD = 8
#: Offset of the property section in a header frame: frame header (7), class id (2), weight (2), body size (8).
PROPERTIES_OFFSET = 19
#: Bodies of this many octets and more are kept apart from `content` and written without a copy.
SEPARATE_BODY_BYTES = 16_384
#: What the bookkeeping of one message in RAM is counted as, in octets.
_OVERHEAD_BYTES = 160

#: No expiration property.
NO_EXPIRATION = -1


class Address:
    """Where a message was published, for who asks for the names. `raw`: as in a Message."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @property
    def exchange(self) -> str:
        """The exchange's name."""
        raw = self.raw
        return raw[1 : 1 + raw[0]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        """The routing key."""
        raw = self.raw
        return raw[2 + raw[0] :].decode("utf-8", "surrogateescape")


# Of what there are millions the collector of cycles knows nothing: it would go through them while nobody is served. A
# message has octets only. A delivery and the consumer who holds it are a cycle, which is ended by whoever ends one of
# both: settling, taking back, a channel that closes.
@cython.no_gc
@cython.cclass
class Message:
    """One published message, shared by all queues that it was routed to. Made by `make_message`.

    raw: where it was published, the exchange and the routing key as two short strings, as on the wire: most messages
    need nothing else of it, and there may be as many addresses as messages.
    content: the header frame and, if `body` is None and body_size > 0, the body frame.
    body: the payloads of the body frames in order, or None when the body is in `content`.
    expiration: milliseconds from the `expiration` property, or NO_EXPIRATION.
    timestamp: when the broker took it, milliseconds since the epoch.
    size: what it counts against the memory budget, octets.
    """

    raw: bytes
    content: bytes
    header_end: int
    body: list[bytes] | None
    body_size: int
    is_persistent: bool
    priority: int
    expiration: int
    timestamp: int
    size: int

    @property
    def address(self) -> Address:
        """Where it was published, to be asked for names."""
        return Address(self.raw)

    def properties(self) -> bytes:
        """The raw property section: flags and values (AMQP 0-9-1 §2.3.5.2)."""
        return self.content[PROPERTIES_OFFSET : self.header_end - 1]

    def body_bytes(self) -> bytes:
        """The whole body, copied."""
        if self.body is not None:
            return b"".join(self.body)
        if self.body_size == 0:
            return b""
        start = self.header_end + 7
        return self.content[start : start + self.body_size]


def make_message(
    raw: bytes,
    content: bytes,
    header_end: int,
    body: list[bytes] | None,
    body_size: int,
    is_persistent: bool,
    priority: int,
    expiration: int,
    timestamp: int,
) -> Message:
    """A message of these parts (a function, because a C call costs less than a constructor's argument tuple)."""
    message = Message.__new__(Message)
    message.raw = raw
    message.content = content
    message.header_end = header_end
    message.body = body
    message.body_size = body_size
    message.is_persistent = is_persistent
    message.priority = priority
    message.expiration = expiration
    message.timestamp = timestamp
    message.size = len(content) + _OVERHEAD_BYTES
    if body is not None:
        message.size += body_size
    return message


def build_message(
    address: Address,
    properties: bytes,
    body: bytes,
    is_persistent: bool,
    priority: int,
    expiration: int,
    timestamp: int,
) -> Message:
    """A message made by the broker itself, from a raw property section and a body."""
    payload = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    content = b"\x02\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    header_end = len(content)
    separate: list[bytes] | None = None
    if len(body) >= SEPARATE_BODY_BYTES:
        separate = [body]
    elif body:
        content += b"\x03\x00\x01" + len(body).to_bytes(4, "big") + body + b"\xce"
    return make_message(
        address.raw, content, header_end, separate, len(body), is_persistent, priority, expiration, timestamp
    )


def remake_message(message: Message, raw: bytes, properties: bytes, expiration: int) -> Message:
    """The message with another address and property section; it shares the body."""
    return with_header(message, raw, header_frame(properties, message.body_size), expiration)


def header_frame(properties: bytes, body_size: int) -> bytes:
    """The content header frame of a message with this property section."""
    size = (12 + len(properties)).to_bytes(4, "big")
    return b"".join(
        (b"\x02\x00\x01", size, b"\x00\x3c\x00\x00", body_size.to_bytes(8, "big"), properties, b"\xce")
    )


def with_header(message: Message, raw: bytes, header: bytes, expiration: int) -> Message:
    """The message with another address and header frame; it shares the body."""
    content = header + message.content[message.header_end :]
    return make_message(
        raw, content, len(header), message.body, message.body_size, message.is_persistent, message.priority,
        expiration, message.timestamp,
    )  # fmt: skip


@cython.no_gc
@cython.cclass
class Delivery:
    """What a channel holds of a message that it was given. Each type of queue may add to it what it needs.

    sequence: the queue's own number of it, rising in the order of publication, or of delivery.
    consumer: who holds it, unacknowledged; its queue is the delivery's.
    returns: how often it came back without being processed (requeued), for x-delivery-limit.
    """

    message: Message
    sequence: int
    consumer: Any
    returns: int
    is_redelivered: bool


@cython.no_gc
@cython.cclass
class Entry(Delivery):
    """A message in a queue that has it in its own order; while somebody holds it, the delivery itself.

    sequence: its original position.
    expires_at: milliseconds since the epoch, 0 for never.
    journal_segment: the journal segment that holds its durable copy, 0 for none.
    page: the stored page that holds its durable copy, or None.
    consumer: None while it is ready.
    """

    expires_at: int
    journal_segment: int
    page: Any

    def put_off(self, until: int) -> None:
        """What is to happen with it at `expires_at` happens then."""
        self.expires_at = until

    def rely_on(self, journal_segment: int) -> None:
        """Its durable copy is written there."""
        self.journal_segment = journal_segment


def make_entry(message: Message, sequence: int, expires_at: int, journal_segment: int) -> Entry:
    """A ready entry that was never delivered."""
    entry = Entry.__new__(Entry)
    entry.message = message
    entry.sequence = sequence
    entry.expires_at = expires_at
    entry.journal_segment = journal_segment
    entry.page = None
    entry.consumer = None
    entry.returns = 0
    entry.is_redelivered = False
    return entry
