"""Compactor: when this node compacts its copy of a stream (queues/stream/compaction.py), and what it says of that.

    now and then, or when somebody asks -> a Pass -> a checkpoint that names what it has made is on the disk
    -> CompactedTo: all members hear of it -> tombstones before what all have said may go, after a while

Every node does so by itself, one stream at a time.

Invariants:
1. A node says only what a checkpoint on its disk has: after a crash it has compacted as much as it has said.
2. Tombstones go only before what all members have said, voters and learners, by this node's copy of the log; and only
   when this node has known that for the age of a tombstone: who has just read what it hides has so long to come to it.
   A node that starts counts from its start.
3. A look costs the same however many pages a stream has; and a pass begins only if it has something to do: pages that
   it has not gone over, or a tombstone that may go.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.queue_types.stream.rewriter import SOON_MS, PassSteps, Rewriter
from queues.stream.commands import CompactedTo
from queues.stream.compaction import Outcome, Overtaken, Pass, Rules
from queues.stream.source import CompactionFigures

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
    from queues.stream.compacted import Compacted
    from queues.stream.stream import Stream

log = logging.getLogger("amqp_broker")

#: It is looked so often for so long at most after somebody has asked, milliseconds.
_ASKED_MS = 60_000
#: After a pass that came to nothing the next one begins no sooner, milliseconds.
_BACK_OFF_MS = 1000
#: What was said and is not in the log after this time is said again: the session may have ended.
_AGAIN_MS = 5000


class Compactor(Rewriter[Outcome]):
    """Of one stream."""

    WORD = "compacted"

    def __init__(self, queue: StreamQueue, room: RewritingRoom) -> None:
        self._group = queue.group
        self._machine = queue.group.machine
        self._node = queue.group.own_node
        self._said = self._said_at = 0
        self._checkpointed = 0
        self._ripe = self._ripening = self._ripens_since = 0
        self._asked_for = self._asked_until = self._not_before = 0
        super().__init__(queue, room, room.every_ms)

    def grown(self) -> None:
        """Something has happened in the stream."""
        stream = self._queue.stream()
        if stream is not None:
            compacted = stream.compacted
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
        compacted = stream.compacted
        return CompactionFigures(
            compacted.below, self._dirty_percent(stream), compacted.tombstones, self._agreed(stream)
        )

    # -- when ----------------------------------------------------------------------------------------------------------

    def _look(self, now: int) -> None:
        """See Rewriter."""
        queue, room = self._queue, self._room
        stream = queue.stream()
        is_under_way = False
        if stream is not None:
            compacted = stream.compacted
            self._keep_to_what_was_said(stream, compacted)
            self._ripen(stream, now)
            is_under_way = self._tell(stream, compacted)
            if not self._is_free or self._damaged is stream or now < self._not_before:
                pass
            elif self._is_worth_it(stream, compacted):
                if room.enter(self):
                    self._begin(stream, self._pass(stream))
            elif compacted.wanted and self._agreed(stream) >= compacted.wanted:
                compacted.want(0)
                self._asked_for = 0
            if not compacted.wanted and compacted.is_enough:
                self._asked_until = 0
        is_soon = is_under_way or now < self._asked_until
        self._wait(SOON_MS if is_soon else self._every_ms)
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
        most = min(self._gone_below(stream), compacted.below - 1)
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
        return max(min(held, stream.next), stream.compacted.needed)

    def _agreed(self, stream: Stream) -> int:
        return min([stream.claims.get(name, 0) for name in self._group.all_members()], default=0)

    def _ripen(self, stream: Stream, now: int) -> None:
        """What all have said for as long as tombstones stay is ripe."""
        if self._ripening == self._ripe:
            self._ripening, self._ripens_since = max(self._agreed(stream), self._ripe), now
        if now - self._ripens_since >= stream.settings.tombstone_age:
            self._ripe = self._ripening

    def _gone_below(self, stream: Stream) -> int:
        """Tombstones before may go."""
        return min(self._ripe, self._agreed(stream))

    def _dirty_percent(self, stream: Stream) -> int:
        octets = stream.log.unpacked_octets
        return 100 * stream.log.octets_from(stream.compacted.below) // octets if octets else 0

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _pass(self, stream: Stream) -> PassSteps[Outcome]:
        rules = Rules(
            self._limit(stream), self._room.most_keys, self._gone_below(stream),
            self._machine.clock - stream.settings.tombstone_age,
        )  # fmt: skip
        work = Pass(stream.log, stream.settings.key, self._group.pager, rules, lambda: self._is_live(stream))
        try:
            outcome: Outcome | None = yield from work.steps()
        except Overtaken:
            return None
        return outcome

    def _done(self, stream: Stream, outcome: Outcome | None) -> None:
        """See Rewriter."""
        is_in_vain = outcome is None and self._queue.stream() is stream
        self._not_before = self._clock.now + _BACK_OFF_MS if is_in_vain else 0
        if outcome is not None:
            self._room.count(outcome.records)
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
