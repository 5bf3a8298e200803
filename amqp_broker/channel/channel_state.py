"""ChannelState: what there is to know of a channel that is quiet, so that another process can go on with it.

Quiet is one that has nothing under way and holds nothing: no consumer, no delivery, nothing half received, unconfirmed
or uncommitted. All that is left of it are numbers and modes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.channel.channel import Channel
from amqp_broker.channel.commit import Transaction
from amqp_broker.flow.state import OPEN

if TYPE_CHECKING:
    from amqp_broker.channel.services import ChannelServices
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.declarer import Declarer
    from queues.wire.reader import Reader

_FLOWING, _CONFIRMING, _IN_TX, _HAS_QUEUE = 1, 2, 4, 8
#: Number, flags, the octets of `last_queue`; then the fields from `prefetch` on.
_HEAD: Final = struct.Struct(">HBH")
_NUMBERS: Final = struct.Struct(">14q")


class ChannelState(NamedTuple):
    """is_in_tx: it has said tx.select. next_tag: of the next delivery. confirmed: so many publishes were numbered, all
    of which are confirmed. The others are as they are called in Channel."""

    channel_id: int
    is_flowing: bool
    is_confirming: bool
    is_in_tx: bool
    last_queue: str | None
    prefetch: int
    consumer_prefetch: int
    next_tag: int
    confirmed: int
    published: int
    extra: int
    unroutable: int
    returned: int
    passed: int
    redelivered: int
    unwanted: int
    got: int
    got_no_ack: int
    got_nothing: int

    def encode(self) -> bytes:
        """Octets, for `read`."""
        flags = _FLOWING * self.is_flowing | _CONFIRMING * self.is_confirming | _IN_TX * self.is_in_tx
        name = b""
        if self.last_queue is not None:
            flags |= _HAS_QUEUE
            name = self.last_queue.encode("utf-8", "surrogateescape")
        return b"".join((_HEAD.pack(self.channel_id, flags, len(name)), name, _NUMBERS.pack(*self[5:])))

    @classmethod
    def read(cls, reader: Reader) -> ChannelState:
        """The next one. Raises Malformed."""
        channel_id, flags, length = _HEAD.unpack(reader.octets(_HEAD.size))
        if flags & ~(_FLOWING | _CONFIRMING | _IN_TX | _HAS_QUEUE):
            raise reader.fail(f"flags {flags} of channel {channel_id}, some of which are unknown")
        name = reader.octets(length).decode("utf-8", "surrogateescape")
        is_flowing, is_confirming, is_in_tx = (bool(flags & bit) for bit in (_FLOWING, _CONFIRMING, _IN_TX))
        last_queue = name if flags & _HAS_QUEUE else None
        numbers = _NUMBERS.unpack(reader.octets(_NUMBERS.size))
        return cls(channel_id, is_flowing, is_confirming, is_in_tx, last_queue, *numbers)


def is_busy(channel: Channel) -> bool:
    """Whether it has, or does, something that is no number: it will not be quiet soon, if its client does nothing."""
    transaction = channel.transaction
    return bool(
        channel.is_closing
        or channel.expecting
        or channel.consumers
        or channel.reply_consumer is not None
        or channel.unacked
        or channel.held_count()
        or (transaction is not None and len(transaction))
    )


def is_unconfirmed(channel: Channel) -> bool:
    """Whether some of its publishes are neither confirmed nor nacked."""
    return bool(channel.confirms.published != channel.confirms.confirmed)


def state_of(channel: Channel) -> ChannelState:
    """Of one that is quiet."""
    channel.count_published()
    return ChannelState(
        channel.channel_id, channel.is_flowing, channel.is_confirming, channel.transaction is not None,
        channel.last_queue, channel.prefetch, channel.consumer_prefetch, channel.delivered_count() + 1,
        channel.confirms.published, channel.published, channel.extra, channel.unroutable, channel.returned,
        channel.passed, channel.redelivered, channel.unwanted, channel.got, channel.got_no_ack, channel.got_nothing,
    )  # fmt: skip


def go_on_with(
    connection: Client, declarer: Declarer, state: ChannelState, services: ChannelServices
) -> Channel:
    """The channel of an open connection that has come from another process, and has still to keep it."""
    assert connection.state == OPEN
    channel = Channel(connection, declarer, state.channel_id, services)
    channel.is_flowing = state.is_flowing
    channel.is_confirming = state.is_confirming
    if state.is_in_tx:
        channel.set_transaction(Transaction(connection.config.max_tx_size_bytes))
    channel.last_queue = state.last_queue
    channel.prefetch, channel.consumer_prefetch = state.prefetch, state.consumer_prefetch
    channel.first_tag = state.next_tag
    channel.confirms.go_on_from(state.confirmed)
    channel.published, channel.extra = state.published, state.extra
    # Where it comes from has told its exchanges and the counts of sizes.
    channel.counted = channel.sized = state.published + state.confirmed
    channel.counted_extra = state.extra
    channel.unroutable, channel.returned = state.unroutable, state.returned
    channel.passed, channel.redelivered, channel.unwanted = state.passed, state.redelivered, state.unwanted
    channel.got, channel.got_no_ack, channel.got_nothing = state.got, state.got_no_ack, state.got_nothing
    connection.clients.go_on_with_channel(
        state.published + state.confirmed, state.confirmed, channel.messages_delivered(), channel.routed_count()
    )
    return channel
