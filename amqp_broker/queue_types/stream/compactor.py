"""Compactor: when this node compacts its copy of a stream (queues/stream/compaction.py), and what it says of that.

    now and then, or when somebody asks -> a Pass -> a checkpoint that names what it has made is on the disk
    -> CompactedTo: all members hear of it -> tombstones before what all have said may go

Every node does so by itself, one stream at a time.

Invariants:
1. A node says only what a checkpoint on its disk has: after a crash it has compacted as much as it has said.
2. Tombstones go only before what all members have said, voters and learners, by this node's copy of the log.
3. A look costs the same however many pages a stream has; and a pass begins only if it has something to do: pages that
   it has not gone over, or a tombstone that may go.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Protocol

from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps, Task
from queues.stream.commands import CompactedTo, Trim
from queues.stream.compaction import KEY_BYTES, Outcome, Overtaken, Pass, Rules
from queues.stream.source import CompactionFigures
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.stream.compacted import Compacted
    from queues.stream.stream import Stream
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker")

#: While something is under way it is looked at so often, milliseconds; for so long at most after somebody has asked.
SOON_MS = 100
_ASKED_MS = 60_000
#: After a pass that came to nothing the next one begins no sooner, milliseconds.
_BACK_OFF_MS = 1000
#: What was said and is not in the log after this time is said again: the session may have ended.
_AGAIN_MS = 5000
#: What a disk says that is full.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Waiting(Protocol):
    """Who has passes over a stream."""

    def look_again(self) -> None:
        """A pass may begin."""


class CompactionRoom:
    """What all compactors of a node share: one of them at a time has a pass, the others wait in line. passes, records:
    how many there were, and what they have taken, since the node began."""

    def __init__(self, config: Config, timers: Timers, clock: TurnClock, background: Background) -> None:
        self.timers = timers
        self.clock = clock
        self.background = background
        self.every_ms = config.stream_compaction_ms
        self.pack_every_ms = config.stream_compression_ms
        self.percent = config.stream_compaction_percent
        self.most_keys = config.stream_compaction_keys_bytes // KEY_BYTES
        self.busy: Waiting | None = None
        self.waiting: dict[Waiting, None] = {}
        self.passes = 0
        self.records = 0

    def enter(self, compactor: Waiting) -> bool:
        """Whether it may begin a pass. If not, it is asked to look again when it may."""
        if self.busy is not None:
            self.waiting[compactor] = None
            return False
        self.waiting.pop(compactor, None)
        self.busy = compactor
        return True

    def forget(self, compactor: Waiting) -> None:
        """It does not wait any more."""
        self.waiting.pop(compactor, None)

    def leave(self) -> None:
        """The pass is over."""
        self.busy = None
        self.call_next()

    def call_next(self) -> None:
        """Whoever has waited longest may look again."""
        if self.busy is None and self.waiting:
            following = next(iter(self.waiting))
            del self.waiting[following]
            following.look_again()


class Nudge:
    """Has the group of a stream take a checkpoint, which lets go of old places, though nothing may happen in it."""

    def __init__(self, queue: StreamQueue, clock: TurnClock) -> None:
        self._queue = queue
        self._clock = clock
        self._again_at = 0

    def takes(self) -> bool:
        """Whether one was taken now. If not, ask again soon."""
        queue, now = self._queue, self._clock.now
        if queue.group.raft.take_checkpoint():
            self._again_at = 0
            return True
        if now >= self._again_at:
            self._again_at = now + _AGAIN_MS  # nothing was applied since the last one: something is
            queue.group.submit(Trim(queue.queue_id, 0))
        return False


class Compactor:
    """Of one stream."""

    def __init__(self, queue: StreamQueue, room: CompactionRoom) -> None:
        self._queue = queue
        self._room = room
        self._group = queue.group
        self._machine = queue.group.machine
        self._node = queue.group.stream.origin
        self._clock = room.clock
        self._timers = room.timers
        self._task: Task | None = None
        self._timer: Timer | None = None
        self._said = self._said_at = 0
        self._checkpointed = 0
        self._nudge = Nudge(queue, room.clock)
        self._is_full = False
        self._damaged: Stream | None = None
        self._asked_for = self._asked_until = self._not_before = 0
        # Not all streams of a node at the same time.
        self._wait(room.every_ms + queue.queue_id % room.every_ms)

    def end(self) -> None:
        """The stream is no more. A pass that is under way finds out."""
        if self._timer is not None:
            self._timer.cancel()
        self._room.forget(self)

    def look_again(self) -> None:
        """A pass may begin."""
        self._wait(0)

    def grown(self) -> None:
        """Something has happened in the stream."""
        stream = self._queue.stream()
        if stream is not None:
            compacted = stream.log.compacted
            self._keep_to_what_was_said(stream, compacted)
            is_new = compacted.wanted and compacted.wanted != self._asked_for
            if is_new or not (compacted.is_enough or self._asked_until):
                self._asked_for = compacted.wanted
                self._asked_until = self._clock.now + _ASKED_MS
                self._wait(0)

    def _keep_to_what_was_said(self, stream: Stream, compacted: Compacted) -> None:
        """What this node has said before it lost its folder may come with the log, behind an install."""
        compacted.said_before(min(stream.claims.get(self._node, 0), stream.next))

    def figures(self, stream: Stream) -> CompactionFigures:
        """See CompactionFigures."""
        compacted = stream.log.compacted
        return CompactionFigures(
            compacted.below, self._dirty_percent(stream), compacted.tombstones, self._agreed(stream)
        )

    # -- when ----------------------------------------------------------------------------------------------------------

    def _wait(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.at(self._clock.now + delay_ms, self._look)

    def _look(self, now: int) -> None:
        """See to what is to be done."""
        self._timer = None
        queue, room = self._queue, self._room
        if queue.is_deleted:
            return
        stream = queue.stream()
        is_under_way = False
        if stream is not None:
            compacted = stream.log.compacted
            self._keep_to_what_was_said(stream, compacted)
            is_under_way = self._tell(stream, compacted)
            if self._task is not None or self._damaged is stream or now < self._not_before:
                pass
            elif self._is_worth_it(stream, compacted):
                if room.enter(self):
                    self._begin(stream)
            elif compacted.wanted and self._agreed(stream) >= compacted.wanted:
                compacted.wanted = self._asked_for = 0
            if not compacted.wanted and compacted.is_enough:
                self._asked_until = 0
        is_soon = is_under_way or now < self._asked_until
        self._wait(SOON_MS if is_soon else room.every_ms)
        room.call_next()

    def _is_worth_it(self, stream: Stream, compacted: Compacted) -> bool:
        log, limit = stream.log, self._limit(stream)
        asked = min(max(compacted.wanted, compacted.needed), limit)
        if asked > compacted.below:
            if log.first > compacted.below:  # retention has taken what was to be done
                compacted.passed_by_retention(min(log.first, asked))
            if log.tail_begin < asked:
                log.seal()
            return asked > compacted.below and log.is_on_disk(compacted.below)
        clock, age = self._machine.clock, stream.settings.tombstone_age
        old_enough = compacted.time + (age if compacted.wanted else 2 * age) <= clock
        # The last one stays in any case, so that it is no reason.
        most = min(self._agreed(stream), compacted.below - 1)
        if compacted.tombstones and old_enough and compacted.first < most and limit >= compacted.below:
            return True
        if limit <= compacted.below or not log.is_on_disk(compacted.below):
            return False
        new = log.octets_from(compacted.below)
        reachable = max(new - log.octets_from(limit), 0)
        return 100 * reachable >= self._room.percent * (log.unpacked_octets - new + reachable) > 0

    def _limit(self, stream: Stream) -> int:
        """What is held stays as it is; but not what this member has to compact before it serves anybody."""
        held = min([hold.offset for hold in stream.holds.values()], default=stream.next)
        return max(min(held, stream.next), stream.log.compacted.needed)

    def _agreed(self, stream: Stream) -> int:
        raft = self._group.raft
        return min([stream.claims.get(name, 0) for name in (*raft.members, *raft.learners)], default=0)

    def _dirty_percent(self, stream: Stream) -> int:
        octets = stream.log.unpacked_octets
        return 100 * stream.log.octets_from(stream.log.compacted.below) // octets if octets else 0

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream) -> None:
        rules = Rules(
            self._limit(stream), self._room.most_keys, self._agreed(stream),
            self._machine.clock - stream.settings.tombstone_age,
        )  # fmt: skip
        self._task = task = Task(self._room.background, self._steps(stream, rules))
        task.when_done(lambda result: self._ended(stream, task.error, result))

    def _steps(self, stream: Stream, rules: Rules) -> Steps:
        queue, room = self._queue, self._room
        is_live = lambda: queue.stream() is stream and not queue.is_deleted  # noqa: E731  # as it is now
        work = Pass(stream.log, stream.settings.key, self._group.pager, rules, is_live)
        try:
            steps = work.steps()
            while True:
                try:
                    pending = next(steps)
                except StopIteration as end:
                    return end.value
                yield AwaitedRead(pending, room.timers, room.clock) if pending is not None else None
        except Overtaken:
            return None
        except CorruptRecord as error:
            self._damaged = stream
            log.error("queue '%s' is not compacted here any more, a page of it cannot be read: %s: have the node take "
                      "everything from the others (amqp-broker cluster rejoin)", queue.name, error)  # fmt: skip
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not self._is_full:
                self._is_full = True
                log.warning("queue '%s' is not compacted now, the disk is full: %s: make room", queue.name, error)
        return None

    def _ended(self, stream: Stream, error: Exception | None, outcome: Outcome | None) -> None:
        self._task = None
        if error is not None:
            self._damaged = stream
            log.error("queue '%s' is not compacted here any more, as a pass over it has ended with '%s: %s': it can be "
                      "read, and it grows; report it", self._queue.name, type(error).__name__, error)  # fmt: skip
        is_in_vain = outcome is None and self._queue.stream() is stream
        self._not_before = self._clock.now + _BACK_OFF_MS if is_in_vain else 0
        if outcome is not None:
            self._is_full = False
            self._room.passes += 1
            self._room.records += outcome.records
            log.debug("queue '%s': compacted below offset %d, %d messages of %d octets are gone",
                      self._queue.name, *outcome)  # fmt: skip
        if not self._queue.is_deleted:
            self._wait(SOON_MS)
            self._queue.wake_readers()
        self._room.leave()

    # -- saying --------------------------------------------------------------------------------------------------------

    def _tell(self, stream: Stream, compacted: Compacted) -> bool:
        """See to it that a checkpoint has what was done, and that all hear of it then. Returns whether that is under
        way."""
        group = self._group
        claimed = stream.claims.get(self._node, 0)
        now = self._clock.now
        is_new = compacted.synced > self._said or now - self._said_at >= _AGAIN_MS
        if compacted.synced > claimed and is_new:
            self._said, self._said_at = compacted.synced, now
            group.submit(CompactedTo(self._queue.queue_id, compacted.synced))
        if compacted.below > compacted.synced and self._checkpointed != compacted.below and self._nudge.takes():
            self._checkpointed = compacted.below
        return compacted.below > claimed
