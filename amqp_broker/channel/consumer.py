"""ChannelConsumer: a consumer of a queue, held by a channel. It writes deliveries into the connection's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from amqp_broker.messages.facts import MessageFacts, with_header
from amqp_broker.protocol.fields import typed
from amqp_broker.routing.taps import DELIVERED
from queues.consumer import UNLIMITED, Consumer
from queues.message import Delivery, Message, remake_message
from queues.stream.record import is_framed

if cython.compiled:  # pragma: no cover
    from cython.cimports.libc.string import memcpy

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.octets.buffer import Pointer
    from amqp_broker.protocol.fields import Table
    from queues.queue import Queue


#: The header that says how often a message came back: its key in a table.
_COUNT = b"\x10x-delivery-count"
#: Flags of a property section (AMQP 0-9-1 §2.3.5.2).
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x8000, 0x4000, 0x2000


def redelivered_message(queue: Queue, entry: Delivery) -> Message:
    """What a client gets of a message that came back: with the count in a header where the queue counts."""
    message = entry.message
    if entry.returns == 0 or not queue.counts_returns:
        return message
    properties = message.properties()
    if properties.find(_COUNT) < 0:
        counted = _with_last_header(properties, _COUNT + b"l" + entry.returns.to_bytes(8, "big"))
        return remake_message(message, message.raw, counted, message.expiration)
    return with_header(message, MessageFacts(message), "x-delivery-count", typed("l", entry.returns))


def _with_last_header(properties: bytes, field: bytes) -> bytes:
    """A well-formed property section with a header more, on octets: a hundred thousand messages may come back at a
    time."""
    flags = properties[0] << 8 | properties[1]
    position = 2
    if flags & _CONTENT_TYPE:
        position += 1 + properties[position]
    if flags & _CONTENT_ENCODING:
        position += 1 + properties[position]
    if not flags & _HEADERS:
        flags |= _HEADERS
        table = len(field).to_bytes(4, "big") + field
        return b"".join((flags.to_bytes(2, "big"), properties[2:position], table, properties[position:]))
    start = position + 4
    end = start + int.from_bytes(properties[position:start], "big")
    size = (end - start + len(field)).to_bytes(4, "big")
    return b"".join((properties[:position], size, properties[start:end], field, properties[end:]))


#: Octets of a basic.deliver frame before its arguments: frame header (7), class and method id (4).
_DELIVER_HEAD = b"\x00\x00\x00\x00\x00\x3c\x00\x3c"
#: Such a prefix is kept within the consumer (consumer.pxd).
_OWN_BYTES = 72


class ChannelConsumer(Consumer):
    """One basic.consume, or (without a tag) the getter that holds what basic.get has fetched.

    prefetch: the limit of unacknowledged deliveries, 0 for none. credit: how many of them are left. prefix: what its
    deliveries begin with, the method frame up to the delivery tag, its size still open; a getter has none.
    """

    def __init__(
        self,
        channel: Channel,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: Table | None,
    ) -> None:
        super().__init__(no_ack, priority)
        self.channel = channel
        self.tag = tag
        self.is_exclusive = is_exclusive
        self.prefetch = prefetch
        self.arguments = arguments
        self.credit = prefetch or UNLIMITED
        self.is_cancelled = False
        octets = tag.encode("utf-8", "surrogateescape")
        head = b"\x01" + channel.channel_id.to_bytes(2, "big") + _DELIVER_HEAD
        self._set_prefix(head + bytes([len(octets)]) + octets if tag else b"")

    def _set_prefix(self, octets: bytes) -> None:
        """Keep what its deliveries begin with; compiled, within the consumer if it has room, because octets elsewhere
        would be one more place in memory for each of ten thousand consumers in turn."""
        self.prefix_size = len(octets)
        if not cython.compiled:
            self.prefix = octets
            return
        self._long = octets if len(octets) > _OWN_BYTES else b""
        source: Pointer = octets
        if len(octets) <= _OWN_BYTES:
            own: Pointer = self._own  # type: ignore[attr-defined]  # an array
            memcpy(own, source, len(octets))
            source = own
        self.prefix = source

    def has_credit(self) -> bool:
        channel = self.channel
        if not channel.is_flowing:
            return False
        if channel.prefetch and channel.unacked_deliveries >= channel.prefetch:
            channel.short[self] = None
            return False
        if not self.no_ack:
            if self.credit <= 0:
                return False
            if channel.unacked_deliveries >= channel.max_unacked:
                return False
            pager = channel.pager
            if pager.used + pager.others_bytes > pager.budget_bytes and not self._may_hold_more():
                return False
        connection = channel.connection
        output = connection.output
        if connection.is_writable and output.chunk_bytes + output.buffer.length < connection.output_limit:
            return True
        return connection.has_room()

    def trail(self, is_behind: bool) -> None:
        self.channel.trail(is_behind)

    def prefetch_limit(self) -> int:
        """How many unacknowledged deliveries are of any use to it, 0 for no limit: its own limit or its channel's."""
        shared = 0 if self.no_ack else self.channel.prefetch
        if not shared or 0 < self.prefetch < shared:
            return self.prefetch
        return shared

    def shared_limit(self) -> int:
        """Its channel's limit of unacknowledged deliveries, 0 for none."""
        return self.channel.prefetch

    def _may_hold_more(self) -> bool:
        """Memory is short, and what is unacknowledged cannot be paged: who holds much gets nothing until it has
        acknowledged some, or until there is room again (Alarms)."""
        channel = self.channel
        if channel.unacked_deliveries < channel.pager.unacked_allowed():
            return True
        channel.connection.starve()
        return False

    def deliver(self, entry: Delivery) -> None:
        channel = self.channel
        self.credit -= 1
        channel.unacked_deliveries += 1
        message = self.redelivered(entry) if entry.is_redelivered else entry.message
        channel.write_deliver(self.prefix, self.prefix_size, channel.hold(entry), entry.is_redelivered, message)
        if channel.is_traced:
            channel.trace(DELIVERED, self, message, entry.is_redelivered)

    def deliver_record(self, entry: Delivery, octets: bytes, place: int, offset: int, more: bytes) -> bool:
        channel = self.channel
        if channel.is_traced or not is_framed(octets, place, channel.connection.frame_max):
            return False
        self.credit -= 1
        channel.unacked_deliveries += 1
        channel.write_record(self.prefix, self.prefix_size, channel.hold(entry), octets, place, offset, more)
        return True

    def redelivered(self, entry: Delivery) -> Message:
        self.channel.redelivered += 1
        return redelivered_message(self.queue, entry)

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        channel = self.channel
        channel.write_deliver(self.prefix, self.prefix_size, channel.pass_tag(), is_redelivered, message)
        if channel.is_traced:
            channel.trace(DELIVERED, self, message, is_redelivered)

    def follow(self, queue: Queue) -> None:
        """See Consumer. Under its tag another consumer goes on; if that cannot, the client hears that it was
        cancelled."""
        channel = self.channel
        if self.is_cancelled or channel.consumers.get(self.tag) is not self:
            return
        heir = ChannelConsumer(
            channel, self.tag, self.no_ack, self.is_exclusive, self.priority, self.prefetch, self.arguments
        )
        heir.queue = queue
        channel.consumers[self.tag] = heir
        channel.short.pop(self, None)
        self.is_cancelled = True

        def attached(refusal: Exception | None) -> None:
            if heir.is_cancelled:
                return
            if refusal is not None:
                heir.on_queue_gone()
            else:
                queue.credit_returned(heir)
                queue.dispatch(channel.clock.now)

        queue.consume(heir, attached)

    def end(self) -> None:
        """It is nobody's consumer any more, whatever it still holds."""
        self.is_cancelled = True

    def on_queue_gone(self) -> None:
        self.is_cancelled = True
        self.channel.on_consumer_cancelled(self)
