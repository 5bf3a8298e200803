"""Nudge: what asks for a checkpoint when nothing else would, so that files go of which nothing is wanted any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.stream.commands import Trim

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.turn.clock import TurnClock

#: What was written and is not in the log after this time is written again, milliseconds: the session may have ended.
_AGAIN_MS = 5000


class Nudge:
    """Has the group of a stream take a checkpoint, which lets go of old places, though nothing may happen in it."""

    def __init__(self, queue: StreamQueue, clock: TurnClock) -> None:
        self._group = queue.group
        self._raft = queue.group.raft
        self._queue_id = queue.queue_id
        self._clock = clock
        self._again_at = 0

    def takes(self) -> bool:
        """Whether one was taken now. If not, ask again soon."""
        now = self._clock.now
        if self._raft.take_checkpoint():
            self._again_at = 0
            return True
        if now >= self._again_at:
            self._again_at = now + _AGAIN_MS  # nothing was applied since the last one: something is
            self._group.submit(Trim(self._queue_id, 0))
        return False
