"""Compactor: when this node compacts its copy of a stream (queues/stream/compaction.py), and what it says of that.

    now and then, or when somebody asks -> a Pass -> a checkpoint that names what it has made is on the disk
    -> CompactedTo: all members hear of it -> tombstones before what all have said may go

Every node does so by itself, one stream at a time.

Invariants:
1. A node says only what a checkpoint on its disk has: after a crash it has compacted as much as it has said.
2. Tombstones go only before what all members have said, voters and learners, by this node's copy of the log.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

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
_SOON_MS = 100
_ASKED_MS = 60_000
#: What was said and is not in the log after this time is said again: the session may have ended.
_AGAIN_MS = 5000
_FULL = (errno.ENOSPC, errno.EDQUOT)


class CompactionRoom:
    """What all compactors of a node share: one of them at a time has a pass. passes, records: how many there were, and
    what they have taken, since the node began."""

    def __init__(self, config: Config, timers: Timers, clock: TurnClock, background: Background) -> None:
        self.timers = timers
        self.clock = clock
        self.background = background
        self.every_ms = config.stream_compaction_ms
        self.percent = config.stream_compaction_percent
        self.most_keys = config.stream_compaction_keys_bytes // KEY_BYTES
        self.busy: Compactor | None = None
        self.passes = 0
        self.records = 0


class Compactor:
    """Of one stream."""

    def __init__(self, queue: StreamQueue, room: CompactionRoom) -> None:
        self._queue = queue
        self._room = room
        self._group = queue.group
        self._machine = queue.group.machine
        self._clock = room.clock
        self._timers = room.timers
        self._task: Task | None = None
        self._timer: Timer | None = None
        self._said = self._said_at = 0
        self._checkpointed = 0
        self._is_nudged = False
        self._is_damaged = False
        self._asked_until = 0
        self._wait(room.every_ms)

    def end(self) -> None:
        """The stream is no more. A pass that is under way finds out."""
        if self._timer is not None:
            self._timer.cancel()

    def grown(self) -> None:
        """Something has happened in the stream."""
        stream = self._queue.stream()
        if stream is not None:
            compacted = stream.log.compacted
            if (compacted.wanted and not self._asked_until) or not compacted.is_enough:
                self._asked_until = self._clock.now + _ASKED_MS
                self._wait(0)

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
            is_under_way = self._tell(stream, compacted)
            if self._task is not None or self._is_damaged:
                pass
            elif self._is_worth_it(stream, compacted):
                is_under_way = True
                if room.busy is None:
                    self._begin(stream, compacted)
            elif compacted.wanted and self._agreed(stream) >= compacted.wanted:
                compacted.wanted = 0
            if not compacted.wanted and compacted.is_enough:
                self._asked_until = 0
        is_soon = is_under_way or now < self._asked_until
        self._wait(_SOON_MS if is_soon else room.every_ms)

    def _is_worth_it(self, stream: Stream, compacted: Compacted) -> bool:
        if not compacted.is_enough or min(compacted.wanted, self._limit(stream)) > compacted.below:
            return True
        clock, age = self._machine.clock, stream.settings.tombstone_age
        old_enough = compacted.time + (age if compacted.wanted else 2 * age) <= clock
        if compacted.tombstones and old_enough and compacted.first < self._agreed(stream):
            return True
        return self._dirty_percent(stream) >= self._room.percent and self._may_go_on(stream, compacted)

    def _may_go_on(self, stream: Stream, compacted: Compacted) -> bool:
        """Whether there is a page more that may be compacted."""
        parts = stream.log.stored_parts(self._limit(stream))
        return bool(parts) and parts[-1].page.last >= compacted.below

    def _limit(self, stream: Stream) -> int:
        """What is held stays as it is; but not what this member has to compact before it serves anybody."""
        held = min([hold.offset for hold in stream.holds.values()], default=stream.next)
        return max(min(held, stream.next), stream.log.compacted.needed)

    def _agreed(self, stream: Stream) -> int:
        raft = self._group.raft
        return min([stream.claims.get(name, 0) for name in (*raft.members, *raft.learners)], default=0)

    def _dirty_percent(self, stream: Stream) -> int:
        octets = stream.log.octets
        below = stream.log.compacted.below
        new = sum([size for _, size in stream.log.page_ends(below)]) if below < stream.next else 0
        return 100 * new // octets if octets else 0

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream, compacted: Compacted) -> None:
        if compacted.wanted > compacted.below or not compacted.is_enough:
            stream.log.seal()
        rules = Rules(
            self._limit(stream), self._room.most_keys, self._agreed(stream),
            self._machine.clock - stream.settings.tombstone_age,
        )  # fmt: skip
        self._room.busy = self
        self._task = Task(self._room.background, self._steps(stream, rules))
        self._task.when_done(lambda result: self._ended(stream, result))

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
            self._is_damaged = True
            log.error("queue '%s' is not compacted here any more, a page of it cannot be read: %s: have the node take "
                      "everything from the others (amqp-broker cluster rejoin)", queue.name, error)  # fmt: skip
        except OSError as error:
            if error.errno not in _FULL:
                raise
            log.warning("queue '%s' is not compacted now, the disk is full: %s", queue.name, error)
        return None

    def _ended(self, stream: Stream, outcome: Outcome | None) -> None:
        self._room.busy = None
        self._task = None
        if outcome is not None:
            self._room.passes += 1
            self._room.records += outcome.records
            log.debug("queue '%s': compacted below offset %d, %d messages of %d octets are gone",
                      self._queue.name, *outcome)  # fmt: skip
        if not self._queue.is_deleted:
            self._wait(_SOON_MS)
            self._queue.wake_readers()

    # -- saying --------------------------------------------------------------------------------------------------------

    def _tell(self, stream: Stream, compacted: Compacted) -> bool:
        """See to it that a checkpoint has what was done, and that all hear of it then. Returns whether that is under
        way."""
        group = self._group
        claimed = stream.claims.get(group.stream.origin, 0)
        now = self._clock.now
        is_new = compacted.synced > self._said or now - self._said_at >= _AGAIN_MS
        if compacted.synced > claimed and is_new:
            self._said, self._said_at = compacted.synced, now
            group.submit(CompactedTo(self._queue.queue_id, compacted.synced))
        if compacted.below > compacted.synced and self._checkpointed != compacted.below:
            if group.raft.take_checkpoint():
                self._checkpointed = compacted.below
                self._is_nudged = False
            elif not self._is_nudged:
                self._is_nudged = True  # nothing was applied since the last one: something is
                group.submit(Trim(self._queue.queue_id, 0))
        return compacted.below > claimed
