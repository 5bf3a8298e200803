"""UnusedQueues: argument x-expires. A classic queue that nobody has used for so long is deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queues.classic import ClassicQueue
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker")


class UnusedQueues:
    """remove_queue: deletes one, for good. A queue has one timer at most."""

    def __init__(self, timers: Timers, remove_queue: Callable[[ClassicQueue], None]) -> None:
        self._timers = timers
        self._remove_queue = remove_queue
        self._due: dict[int, Timer] = {}  # by the queue's id

    def watch(self, queue: ClassicQueue) -> None:
        """A queue is there, or what is in force for it has changed."""
        self.forget(queue)
        if queue.settings.expires is not None:
            self._look_at(queue, queue.last_used + queue.settings.expires)

    def forget(self, queue: ClassicQueue) -> None:
        """It is about to be deleted."""
        timer = self._due.pop(queue.queue_id, None)
        if timer is not None:
            timer.cancel()

    def _look_at(self, queue: ClassicQueue, due: int) -> None:
        # A function that names itself would keep the queue until the collector comes.
        self._due[queue.queue_id] = self._timers.at(due, partial(self._look, queue))

    def _look(self, queue: ClassicQueue, now: int) -> None:
        expires = queue.settings.expires
        if queue.is_deleted or expires is None:
            return  # it goes with its virtual host, and is about to be given back
        if queue.dispatcher.consumers or queue.leased_count():
            queue.last_used = now
        if queue.last_used + expires > now:
            self._look_at(queue, queue.last_used + expires)
            return
        log.info("queue '%s' in vhost '%s' expired", queue.name, queue.declaration.vhost)
        self._remove_queue(queue)
