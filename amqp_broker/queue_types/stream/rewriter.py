"""Rewriter: who writes pages of one stream anew on this node, in passes: the compactor and the packer of it.

    now and then, or when somebody asks -> look -> a pass, if there is something to do and the room is free -> ended

Invariants:
1. A pass of a stream that is another one by now, or is not to be written anew any more, finds out and changes nothing.
2. What the disk cannot read, and what is a defect, is said once of a stream, of which there is no pass after that; a
   full disk is said once, and there are passes again with time.
"""

from __future__ import annotations

import errno
import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

from amqp_broker.queue_types.stream.nudge import Nudge
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps, Task
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from collections.abc import Generator

    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
    from queues.stream.stream import Stream
    from queues.timers import Timer
    from storage.disk import Pending

log = logging.getLogger("amqp_broker")

#: What a pass comes to.
Outcome = TypeVar("Outcome")
#: Of a pass: what is to be waited for, or None at the end of a slice.
PassSteps: TypeAlias = "Generator[Pending | None, None, Outcome | None]"
#: While something is under way it is looked at so often, milliseconds.
SOON_MS = 100
#: What a disk says that is full.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Rewriter(Generic[Outcome]):
    """See the module's docstring. WORD: what a stream is that it has been at."""

    WORD: ClassVar[str]

    def __init__(self, queue: StreamQueue, room: RewritingRoom, every_ms: int) -> None:
        self._queue = queue
        self._room = room
        self._every_ms = every_ms
        self._timers = room.timers
        self._clock = room.clock
        self._nudge = Nudge(queue, room.clock)
        self._task: Task | None = None
        self._timer: Timer | None = None
        self._is_ended = False
        self._gives_way = False
        self._is_full = False
        self._damaged: Stream | None = None
        self._wait(every_ms + queue.queue_id % every_ms)  # not all streams of a node at the same time

    def end(self) -> None:
        """The stream is no more, or is left as it is from now on. A pass that is under way finds out."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._room.forget(self)

    def look_again(self) -> None:
        """See Waiting."""
        self._wait(0)

    def _wait(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_ended:
            self._timer = self._timers.at(self._clock.now + delay_ms, self._look)

    def _look(self, now: int) -> None:
        """See to what is to be done, and wait for the next time."""
        raise NotImplementedError

    def _done(self, stream: Stream, outcome: Outcome | None) -> None:
        """A pass is over, with what its steps have returned; None: it came to nothing."""
        raise NotImplementedError

    # -- a pass --------------------------------------------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        """Whether no pass is under way, and one may begin."""
        return self._task is None and not self._queue.is_being_mended

    def give_way(self) -> None:
        """Something else is to be done to the pages first: a pass that is under way finds out, and comes to nothing but
        for what it has done already. Another one begins later."""
        self._gives_way = self._task is not None

    def _is_live(self, stream: Stream) -> bool:
        """Whether it is the stream that counts, and written anew here and now."""
        queue = self._queue
        is_over = self._gives_way or self._is_ended or queue.is_deleted
        return not is_over and queue.stream() is stream

    def _begin(self, stream: Stream, steps: PassSteps[Outcome]) -> None:
        """The room is entered."""
        self._task = task = Task(self._room.background, self._steps(stream, steps))
        task.when_done(lambda outcome: self._ended(stream, task.error, outcome))

    def _steps(self, stream: Stream, steps: PassSteps[Outcome]) -> Steps:
        try:
            while True:
                try:
                    pending = next(steps)
                except StopIteration as end:
                    return end.value
                yield AwaitedRead(pending, self._timers, self._clock) if pending is not None else None
        except CorruptRecord as error:
            self._damaged = stream
            if not self._queue.mend(stream, error, partial(self._mended, error)):
                self._tell_damage(error)
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not self._is_full:
                self._is_full = True
                log.warning("queue '%s' is not %s now, the disk is full: %s: make room",
                            self._queue.name, self.WORD, error)  # fmt: skip
        finally:
            steps.close()
        return None

    def _mended(self, error: CorruptRecord, is_whole: bool) -> None:
        """Of the page that has ended a pass."""
        if is_whole:
            self._damaged = None
            self._wait(0)
        else:
            self._tell_damage(error)

    def _tell_damage(self, error: CorruptRecord) -> None:
        log.error("queue '%s' is not %s here any more, a page of it cannot be read: %s: have the node take "
                  "everything from the others (amqp-broker cluster rejoin)",
                  self._queue.name, self.WORD, error)  # fmt: skip

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._task is not None

    def _ended(self, stream: Stream, error: Exception | None, outcome: Outcome | None) -> None:
        self._task = None
        self._gives_way = False
        if error is not None:
            self._damaged = stream
            log.error("queue '%s' is not %s here any more, as a pass over it has ended with '%s: %s': it can be "
                      "read, and it grows; report it",
                      self._queue.name, self.WORD, type(error).__name__, error)  # fmt: skip
        if outcome is not None:
            self._is_full = False
        self._done(stream, outcome)
