"""Retainer: has a stream begin where its limits say, where the marks that its members agree on are too far apart, or
nobody publishes so that there were new ones (queues/stream/exact_cut.py).

    now and then -> this node leads the stream's group -> a look at its pages -> Retain, a command of the log

A hold that comes with the log before Retain counts, though it was not there at the look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.queue_types.stream.rewriter import PassSteps, Rewriter
from queues.stream.commands import Retain
from queues.stream.exact_cut import PARTS, Cut, ExactCut

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
    from queues.stream.settings import StreamSettings
    from queues.stream.stream import Stream


class _Seen(NamedTuple):
    """As a stream was at a look. octets: of all that was ever published. held: the lowest offset of a hold."""

    settings: StreamSettings
    octets: int
    clock: int
    held: int


class Retainer(Rewriter[Cut]):
    """Of one stream with limits, on each member. It writes no page, and has its looks beside those who do."""

    WORD = "kept to its limits"

    def __init__(self, queue: StreamQueue, room: RewritingRoom) -> None:
        self._group = queue.group
        self._machine = queue.group.machine
        self._raft = queue.group.raft
        self._seen: _Seen | None = None
        super().__init__(queue, room, room.retain_every_ms)
        self._wait(1 + queue.queue_id % room.retain_every_ms)  # a policy is obeyed soon

    def _look(self, now: int) -> None:
        """See Rewriter."""
        self._wait(self._every_ms)
        stream = self._queue.stream()
        if stream is None or not self._leads() or not self._is_free or self._damaged is stream:
            return
        clock = max(self._machine.clock, now)
        seen = _Seen(stream.settings, stream.marks.octets, clock, _held(stream, clock))
        if stream.first < stream.next and self._is_news(seen):
            self._seen = seen
            self._begin(stream, self._pass(stream, clock))

    def _leads(self) -> bool:
        return self._group.guest is None and bool(self._raft.is_leader)

    def _is_news(self, now: _Seen) -> bool:
        """Whether enough has happened since the last look, for which pages may have to be read."""
        before, age, limit = self._seen, now.settings.max_age, now.settings.max_length_bytes
        if before is None or (before.settings, before.held) != (now.settings, now.held):
            return True
        is_older = age is not None and now.clock - before.clock >= age // PARTS
        return is_older or (limit is not None and now.octets - before.octets > limit // PARTS)

    def _pass(self, stream: Stream, clock: int) -> PassSteps[Cut]:
        return (yield from ExactCut(stream, clock, lambda: self._is_live(stream)).steps())

    def _done(self, stream: Stream, outcome: Cut | None) -> None:
        """See Rewriter."""
        if outcome is None or not self._is_live(stream) or not self._leads():
            return
        held = _held(stream, self._machine.clock)
        first = min(outcome.first, held) if held >= 0 else outcome.first
        if max(first, outcome.least) > stream.first:
            self._seen = None  # whether it was cut is looked at the next time
            self._group.submit(Retain(self._queue.queue_id, *outcome))


def _held(stream: Stream, clock: int) -> int:
    return min([hold.offset for hold in stream.holds.values() if hold.until > clock], default=-1)
