"""UnusedQueues: argument x-expires. A classic queue that nobody has used for so long is deleted.

Very many may be due at the same time, as all are that were there at a start: they go in slices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queues.background import Background
    from queues.classic import ClassicQueue
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker")

#: So many queues that are due are looked at in one slice.
_AT_ONCE = 16


class UnusedQueues:
    """remove_queue: deletes one, for good. A queue has one timer at most, until it is due."""

    def __init__(
        self, timers: Timers, background: Background, remove_queue: Callable[[ClassicQueue], None]
    ) -> None:
        self._timers = timers
        self._background = background
        self._remove_queue = remove_queue
        self._timer: dict[int, Timer] = {}  # by the queue's id
        self._due: dict[int, ClassicQueue] = {}

    def watch(self, queue: ClassicQueue) -> None:
        """A queue is there, or what is in force for it has changed."""
        self.forget(queue)
        if queue.settings.expires is not None:
            self._look_at(queue, queue.last_used + queue.settings.expires)

    def forget(self, queue: ClassicQueue) -> None:
        """It is about to be deleted."""
        self._due.pop(queue.queue_id, None)
        timer = self._timer.pop(queue.queue_id, None)
        if timer is not None:
            timer.cancel()

    def _look_at(self, queue: ClassicQueue, due: int) -> None:
        # A function that names itself would keep the queue until the collector comes.
        self._timer[queue.queue_id] = self._timers.at(due, partial(self._is_due, queue))

    def _is_due(self, queue: ClassicQueue, now: int) -> None:
        del self._timer[queue.queue_id]
        if not self._due:
            self._background.add(self._look_at_some)
        self._due[queue.queue_id] = queue

    def _look_at_some(self, now: int) -> bool:
        """A slice. Returns whether there are more."""
        for _ in range(min(_AT_ONCE, len(self._due))):
            self._look(self._due.pop(next(iter(self._due))), now)
        return bool(self._due)

    def _look(self, queue: ClassicQueue, now: int) -> None:
        expires = queue.settings.expires
        if queue.is_deleted or expires is None:
            return  # it goes with its virtual host, and is about to be given back
        if queue.is_in_use():
            queue.mark_used(now)
        if queue.last_used + expires > now:
            self._look_at(queue, queue.last_used + expires)
            return
        log.info("queue '%s' in vhost '%s' expired", queue.name, queue.declaration.vhost)
        self._remove_queue(queue)
