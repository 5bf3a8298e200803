"""Packer: when this node compresses its copy of a stream (queues/stream/packing.py): a page after it has left RAM.

Every node does so by itself, as the settings say that all have; what was packed stays so when they are changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.queue_types.stream.compactor import FULL, SOON_MS, Nudge
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps, Task
from queues.stream.packing import Packed, Packing
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.compactor import CompactionRoom
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.stream.stream import Stream
    from queues.timers import Timer

log = logging.getLogger("amqp_broker")


class Packer:
    """Of one stream. It shares a room with those who compact: a node rewrites one stream at a time."""

    def __init__(self, queue: StreamQueue, room: CompactionRoom) -> None:
        self._queue = queue
        self._room = room
        self._pager = queue.group.pager
        self._timers = room.timers
        self._clock = room.clock
        self._every_ms = room.pack_every_ms
        self._task: Task | None = None
        self._timer: Timer | None = None
        self._damaged: Stream | None = None
        self._is_full = False
        self._nudge = Nudge(queue, room.clock)
        self._holds_old_places = False
        self._wait(self._every_ms + queue.queue_id % self._every_ms)  # not all streams at the same time

    def end(self) -> None:
        """The stream is no more, or is not to be packed. A pass that is under way finds out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._room.forget(self)

    def look_again(self) -> None:
        """A pass may begin."""
        self._wait(0)

    def _wait(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.at(self._clock.now + delay_ms, self._look)

    def _look(self, now: int) -> None:
        queue, room = self._queue, self._room
        self._wait(self._every_ms)
        stream = queue.stream()
        if self._holds_old_places and not queue.is_deleted:
            # Only a checkpoint lets go of them, and the next pass would hold more.
            self._holds_old_places = not self._nudge.takes()
        if self._holds_old_places:
            self._wait(SOON_MS)
            room.call_next()
        elif self._task is None and stream is not None and self._damaged is not stream and stream.log.cold_parts(1):
            if room.enter(self):
                self._task = task = Task(room.background, self._steps(stream))
                task.when_done(lambda result: self._ended(stream, task.error, result))
        else:
            room.call_next()

    def _steps(self, stream: Stream) -> Steps:
        queue = self._queue
        is_live = lambda: queue.stream() is stream and not queue.is_deleted  # noqa: E731  # as it is now
        steps = Packing(stream.log, self._pager, is_live).steps()
        try:
            while True:
                try:
                    pending = next(steps)
                except StopIteration as end:
                    return end.value
                yield AwaitedRead(pending, self._timers, self._clock)
        except CorruptRecord as error:
            self._damaged = stream
            log.error("queue '%s' is not compressed here any more, a page of it cannot be read: %s: have the node take "
                      "everything from the others (amqp-broker cluster rejoin)", queue.name, error)  # fmt: skip
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not self._is_full:
                self._is_full = True
                log.warning("queue '%s' is not compressed now, the disk is full: %s: make room", queue.name, error)
        finally:
            steps.close()
        return None

    def _ended(self, stream: Stream, error: Exception | None, packed: Packed | None) -> None:
        self._task = None
        if error is not None:
            self._damaged = stream
            log.error("queue '%s' is not compressed here any more, as a pass over it has ended with '%s: %s': it can "
                      "be read, and it grows; report it", self._queue.name, type(error).__name__, error)  # fmt: skip
        if packed is not None:
            self._is_full = False
            log.debug("queue '%s': of %d pages those that were packed had %d octets and have %d",
                      self._queue.name, *packed[:3])  # fmt: skip
            self._holds_old_places = packed.has_old_places
        self._room.leave()  # who waits in line is before the next pass of this stream
        if packed is not None and (packed.has_more or self._holds_old_places) and self._timer is not None:
            self._wait(0)
