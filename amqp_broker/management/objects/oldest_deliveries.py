"""OldestDeliveries: since when the delivery of a queue is unacknowledged that has been so for longest.

A queue whose log knows who holds what says so itself (Queue.held_since). Of any other the channels of its consumers are
looked at, and what other nodes were sent: a channel has its deliveries in order, so the first that it holds of each
consumer stands near the beginning. Only where somebody holds something whom the queue does not know any more, by
basic.get or after basic.cancel, all channels of this node are looked at.

Invariant: a slice looks at a few hundred deliveries, or at some channels, at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.turn.task import Steps
from queues.consumer import UNLIMITED
from queues.numbered_consumer import NumberedConsumer
from queues.queue import Queue

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.management.objects.channels import Channels
    from amqp_broker.queue_types.remote.home import Home
    from queues.consumer import Consumer

#: So many deliveries, and so many consumers or channels, are looked at in one slice.
_DELIVERIES = 256
_SOME = 64

#: Of each consumer that holds something, when its first delivery was made, milliseconds since the epoch.
_Firsts = dict["Consumer", int]


def held_count(consumer: ChannelConsumer) -> int:
    """How many deliveries it holds, or the getter has fetched."""
    return int(consumer.prefetch or UNLIMITED) - int(consumer.credit)


def oldest_of(channel: Channel) -> int | None:
    """When the delivery was made that a channel has held for longest; None where it holds none."""
    return channel.held_since(channel.first_tag + channel.head) if channel.head < len(channel.unacked) else None


class OldestDeliveries:
    """home: the sessions of other nodes with the queues of this one."""

    def __init__(self, channels: Channels, home: Home) -> None:
        self._channels = channels
        self._home = home

    def of(self, queues: Iterable[Queue]) -> Steps:
        """Its result: by queue, milliseconds since the epoch, of those of which something is held."""
        look = _Look(self._channels, self._home)
        found: dict[Queue, int] = {}
        for number, queue in enumerate(queues, 1):
            if (known := queue.held_since()) is not None:
                first = yield from _first(known)
            else:
                first = yield from look.of(queue)
            if first is not None:
                found[queue] = first
            if number % _SOME == 0:
                yield None
        return found


class _Look:
    """One look: a channel is looked at once for all queues. _all: of each queue, by everybody, once that was asked."""

    def __init__(self, channels: Channels, home: Home) -> None:
        self._channels = channels
        self._home = home
        self._seen: dict[Channel, _Firsts] = {}
        self._all: dict[Queue, int] | None = None

    def of(self, queue: Queue) -> Steps:
        """Its result: of a queue of which this node has the messages, or the consumers; None where nobody holds any."""
        left = queue.unacked_count()
        if not left and not queue.keeps_messages:
            return None
        first: int | None = None
        for number, consumer in enumerate(list(queue.attached()), 1):
            if isinstance(consumer, NumberedConsumer):
                since = _first_held(consumer)
                left -= len(consumer.held)
            elif isinstance(consumer, ChannelConsumer) and (count := held_count(consumer)):
                since = (yield from self._firsts(consumer.channel)).get(consumer)
                left -= count
            else:
                since = None
            first = _earlier(first, since)
            if number % _SOME == 0:
                yield None
        if left > 0:
            if self._all is None:
                self._all = yield from self._by_queue()
            first = _earlier(first, self._all.get(queue))
        return first

    def _firsts(self, channel: Channel) -> Steps:
        """Its result: _Firsts of a channel. By delivery tag, which stays where it is when others are settled."""
        if channel in self._seen:
            return self._seen[channel]
        firsts: _Firsts = {}
        left, tag, looked_at = int(channel.held_count()), 0, 0
        while left > 0:
            tag = max(tag, channel.first_tag + channel.head)
            index = tag - channel.first_tag
            if index >= len(channel.unacked):
                break
            delivery = channel.unacked[index]
            if delivery is not None and delivery.consumer is not None and delivery.consumer not in firsts:
                firsts[delivery.consumer] = channel.held_since(tag)
                left -= held_count(delivery.consumer)
            tag += 1
            looked_at += 1
            if looked_at % _DELIVERIES == 0:
                yield None
        self._seen[channel] = firsts
        return firsts

    def _by_queue(self) -> Steps:
        """Its result: of all queues of which a channel of this node, or another node, holds something."""
        found: dict[Queue, int] = {}

        def add(firsts: Iterable[tuple[Consumer, int]]) -> None:
            for consumer, since in firsts:
                if consumer.queue is not None:
                    found[consumer.queue] = min(since, found.get(consumer.queue, since))

        for number, each in enumerate(self._channels.walk(None, lambda one: True), 1):
            if each is not None:
                add((yield from self._firsts(each[1])).items())
            if each is None or number % _SOME == 0:
                yield None
        for session in list(self._home.sessions.values()):
            consumers = iter(list(session.consumers.values()))
            while some := list(islice(consumers, _SOME)):
                add((one, since) for one in some if (since := _first_held(one)) is not None)
                yield None
        return found


def _first(known: Iterator[int | None]) -> Steps:
    first: int | None = None
    for since in known:
        if since is None:
            yield None
        first = _earlier(first, since)
    return first


def _first_held(consumer: NumberedConsumer) -> int | None:
    for _, since in consumer.held.values():
        return since
    return None


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
