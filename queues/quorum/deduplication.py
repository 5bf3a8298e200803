"""Deduplication: what one queue remembers of its publishers, so that publishing again changes nothing.

By producer: the highest sequence of each; a message whose sequence is not above it is known. By message id: a window of
the last ones. Both are bounded, and what is forgotten first follows from the log alone.
"""

from __future__ import annotations

from queues.quorum.settings import QuorumSettings
from queues.wire.traffic import Enqueue

#: So many producers are remembered, those who published last.
MOST_PRODUCERS = 10_000


class Deduplication:
    """producers: the highest sequence by producer, who published last at the end. window: by message id, in the order
    of publication, until when it is remembered, milliseconds since the epoch, 0 for as long as it fits."""

    def __init__(self) -> None:
        self.producers: dict[bytes, int] = {}
        self.window: dict[bytes, int] = {}

    def knows(self, command: Enqueue, clock: int) -> bool:
        """Whether the message has been taken before."""
        if command.producer and self.producers.get(command.producer, -1) >= command.producer_sequence:
            return True
        if not command.message_id or command.message_id not in self.window:
            return False
        until = self.window[command.message_id]
        return until == 0 or until > clock

    def remember(self, command: Enqueue, settings: QuorumSettings, clock: int) -> None:
        """The message has been taken."""
        if command.producer:
            self.producers.pop(command.producer, None)
            self.producers[command.producer] = command.producer_sequence
            if len(self.producers) > MOST_PRODUCERS:
                del self.producers[next(iter(self.producers))]
        if not command.message_id or not settings.deduplication_window:
            return
        window = self.window
        window.pop(command.message_id, None)
        ttl = settings.deduplication_ttl
        window[command.message_id] = 0 if ttl is None else clock + ttl
        while window:
            oldest = next(iter(window))
            if len(window) <= settings.deduplication_window and not 0 < window[oldest] <= clock:
                break
            del window[oldest]
