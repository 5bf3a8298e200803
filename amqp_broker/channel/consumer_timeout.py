"""ConsumerTimeouts: who keeps a delivery unacknowledged for too long is cancelled (setting consumer_timeout).

Only that consumer ends, not its channel: everything that it holds returns to its queue, and the client is told by
basic.cancel. No delivery carries a time: each channel is looked at regularly, and its newest delivery tag is noted with
the time; what was delivered before a note of long ago and is still outstanding has been held for at least that long.

There may be very many channels, and each may hold very much: they are looked through, and give back, in slices.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING

from amqp_broker.channel.lifecycle import cancel_consumer
from amqp_broker.channel.settlement import put_back_many
from amqp_broker.turn.task import Steps, Task
from queues.background import SLICE

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.consumer import ChannelConsumer
    from queues.background import Background
    from queues.message import Delivery
    from queues.timers import Timers

log = logging.getLogger("amqp_broker")

#: How often within the timeout channels are looked at: the timeout is kept to within this part of it.
_LOOKS_PER_TIMEOUT = 10
_MIN_PERIOD_MS = 100
#: So many deliveries of a channel are looked at, or taken out of it, at a time.
_LOOKED_AT = 256


class ConsumerTimeouts:
    """The watch over all channels of a node; it does nothing while the setting, `timeout_ms`, is 0. channels: says
    which there are; one may be gone, and others come, before the next is asked for."""

    def __init__(
        self, channels: Callable[[], Iterable[Channel]], timers: Timers, background: Background, timeout_ms: int
    ) -> None:
        self._channels = channels
        self._timers = timers
        self._background = background
        self._timeout_ms = timeout_ms
        self._notes: dict[Channel, deque[tuple[int, int]]] = {}

    def start(self, now: int) -> None:
        """Look for the first time."""
        if self._timeout_ms:
            self._look(now)

    def _look(self, now: int) -> None:
        period_ms = max(_MIN_PERIOD_MS, self._timeout_ms // _LOOKS_PER_TIMEOUT)

        def look_again(_: object) -> None:
            self._timers.at(now + period_ms, self._look)

        Task(self._background, self._look_at_all(now)).when_done(look_again)

    def _look_at_all(self, now: int) -> Steps:
        notes: dict[Channel, deque[tuple[int, int]]] = {}
        for number, channel in enumerate(self._channels(), 1):
            if not channel.is_closing:
                notes[channel] = noted = self._notes.get(channel, deque())
                last_tag = 0
                while noted and noted[0][0] <= now - self._timeout_ms:
                    last_tag = noted.popleft()[1]
                noted.append((now, channel.delivered_count()))
                if last_tag >= channel.first_tag:
                    yield from self._end_late(channel, last_tag)
            if number % SLICE == 0:
                yield None
        self._notes = notes

    def _end_late(self, channel: Channel, last_tag: int) -> Steps:
        """Whoever still holds a delivery up to `last_tag` gives back everything."""
        late: dict[ChannelConsumer, None] = {}
        for tag in range(channel.first_tag, last_tag + 1, _LOOKED_AT):
            held = held_between(channel, tag, min(tag + _LOOKED_AT - 1, last_tag))
            late |= {consumer: None for _, consumer in held if not consumer.queue.keeps_messages}
            yield None
        if not late or channel.is_closing or not channel.is_open:
            return
        for consumer in late:
            log.warning(
                "consumer '%s' of queue '%s' held a delivery for more than %d ms (consumer_timeout): it is cancelled",
                consumer.tag,
                consumer.queue.name,
                self._timeout_ms,
            )
            if channel.consumers.get(consumer.tag) is consumer:
                cancel_consumer(channel, consumer)
                channel.on_consumer_cancelled(consumer)
        put_back_many(channel, take_of(channel, late))


def held_between(channel: Channel, first_tag: int, last_tag: int) -> list[tuple[int, ChannelConsumer]]:
    """The tags that are outstanding of a channel's, from one to another, each with who holds its delivery."""
    held = [(tag, channel.unacked[tag - channel.first_tag]) for tag in channel.outstanding_tags(last_tag, first_tag)]
    return [(tag, entry.consumer) for tag, entry in held if entry is not None]


def take_of(channel: Channel, consumers: Container[object]) -> Iterator[list[Delivery | None]]:
    """All that these consumers hold leaves the channel, some at a time, the last first. Somebody else may take some of
    the rest meanwhile."""
    end = channel.delivered_count()
    while end >= channel.first_tag + channel.head:
        begin = max(end - _LOOKED_AT + 1, channel.first_tag)
        held = held_between(channel, begin, end)
        yield [channel.take_one(tag) for tag, consumer in held if consumer in consumers]
        end = begin - 1
