"""ConsumerTimeouts: who keeps a delivery unacknowledged for too long is cancelled (setting consumer_timeout).

Only that consumer ends, not its channel: everything that it holds returns to its queue, and the client is told by
basic.cancel. No delivery carries a time: each channel is looked at regularly, and its newest delivery tag is noted with
the time; what was delivered before a note of long ago and is still outstanding has been held for at least that long.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from amqp_broker.channel.lifecycle import cancel_consumer, return_entries

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from queues.queue import Queue
    from queues.timers import Timers

log = logging.getLogger("amqp_broker")

#: How often within the timeout channels are looked at: the timeout is kept to within this part of it.
_LOOKS_PER_TIMEOUT = 10
_MIN_PERIOD_MS = 100


class ConsumerTimeouts:
    """The watch over all channels of a node; it does nothing while the setting, `timeout_ms`, is 0. channels: says
    which there are; one may be gone, and others come, before the next is asked for."""

    def __init__(self, channels: Callable[[], Iterable[Channel]], timers: Timers, timeout_ms: int) -> None:
        self._channels = channels
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._notes: dict[Channel, deque[tuple[int, int]]] = {}

    def start(self, now: int) -> None:
        """Look for the first time."""
        if self._timeout_ms:
            self._look(now)

    def _look(self, now: int) -> None:
        notes: dict[Channel, deque[tuple[int, int]]] = {}
        for channel in self._channels():
            if not channel.is_closing:
                notes[channel] = self._look_at(channel, self._notes.get(channel, deque()), now)
        self._notes = notes
        self._timers.at(now + max(_MIN_PERIOD_MS, self._timeout_ms // _LOOKS_PER_TIMEOUT), self._look)

    def _look_at(self, channel: Channel, notes: deque[tuple[int, int]], now: int) -> deque[tuple[int, int]]:
        last_tag = 0
        while notes and notes[0][0] <= now - self._timeout_ms:
            last_tag = notes.popleft()[1]
        if last_tag:
            self._end_late(channel, last_tag)
        notes.append((now, channel.first_tag + len(channel.unacked) - 1))
        return notes

    def _end_late(self, channel: Channel, last_tag: int) -> None:
        """Whoever still holds a delivery up to `last_tag` gives back everything."""
        if last_tag < channel.first_tag:
            return
        queues: dict[Queue, None] = {}
        for consumer in dict.fromkeys(entry.consumer for entry in channel.outstanding(last_tag)):
            if consumer.queue.keeps_messages:
                continue
            log.warning(
                "consumer '%s' of queue '%s' held a delivery for more than %d ms (consumer_timeout): it is cancelled",
                consumer.tag,
                consumer.queue.name,
                self._timeout_ms,
            )
            if consumer.tag in channel.consumers:
                cancel_consumer(channel, consumer)
                channel.on_consumer_cancelled(consumer)
            tags = [
                tag
                for tag, entry in zip(channel.outstanding_tags(0), channel.outstanding(0), strict=True)
                if entry.consumer is consumer
            ]
            return_entries(channel, [channel.take_one(tag) for tag in tags], queues, False)
        for queue in queues:
            if not queue.is_deleted:
                queue.dispatch(channel.clock.now)
        channel.dispatch()
