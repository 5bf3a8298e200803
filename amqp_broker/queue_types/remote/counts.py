"""RemoteCounts: the homes of queues that live elsewhere are asked for their counts, before somebody is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.turn.completion import Completion

if TYPE_CHECKING:
    from queues.queue import Queue
    from queues.timers import Timer, Timers

#: A home that has not answered by then is not waited for: its queues show what it said last.
PATIENCE_MS = 1000


class RemoteCounts(Completion[None]):
    """`ask` for each queue, then `asked`. Done when all have counted, or cannot, or the time is over; at once where
    nobody has to be waited for."""

    def __init__(self, timers: Timers, now: int) -> None:
        super().__init__()
        self._left = 1
        self._timer: Timer | None = None
        self._timers = timers
        self._until = now + PATIENCE_MS

    def ask(self, queue: Queue) -> None:
        """Have a queue count."""
        self._left += 1
        queue.count(False, self._counted)

    def asked(self) -> RemoteCounts:
        """That were all."""
        self._counted(None)
        if not self.is_done:
            self._timer = self._timers.at(self._until, lambda now: self.complete(None))
        return self

    def _counted(self, refusal: object) -> None:
        self._left -= 1
        if not self._left:
            if self._timer is not None:
                self._timer.cancel()
            self.complete(None)
