"""Mender: a page of a stream that this node cannot read is had from another member, and written anew beside it.

    a reader, or a pass, meets the damage -> the chunks of these offsets are asked for (page_exchange.py), one member
    after the other -> they are what the page had, as far as can be seen -> a new file, synced -> the log's page lies
    there -> whoever has waited goes on

Invariants:
1. What is taken has all offsets of the page, and as many octets as it had: nothing else that is kept of it changes. Of
   the oldest page, a part of which retention has taken, other members may have the rest alone: then that is the page.
2. A page is mended while no pass writes the pages of its stream anew, and none begins meanwhile. One that is under way
   gives way within a slice and what it has to read or write for it.
3. What was mended and cannot be read again at once is not mended again: the disk is what has to be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.queue_types.stream.page_exchange import where_of
from amqp_broker.queue_types.stream.page_frames import Request
from amqp_broker.queue_types.stream.rewriter import FULL
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task
from queues.stream.log import split_page
from queues.stream.pages import Part
from queues.stream.tail import HEAD_BYTES
from queues.wire.reader import Malformed

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.page_exchange import PageExchange
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.stream.stream import Stream
    from queues.timers import Timers

log = logging.getLogger("amqp_broker")

#: A pass that gives way is looked at so often, milliseconds.
_LOOK_MS = 20
#: All are asked so often while retention takes what was asked for.
_ROUNDS = 5
#: A page that has to be mended again sooner is not, milliseconds.
_AGAIN_MS = 60_000
#: What heads of chunks may add to a page at most, octets: other nodes may have its chunks one by one.
_MORE_BYTES = HEAD_BYTES


class Mender:
    """Of one stream. is_busy: a page is being mended."""

    def __init__(
        self, queue: StreamQueue, exchange: PageExchange, background: Background, timers: Timers, clock: TurnClock
    ) -> None:
        self._queue = queue
        self._group = queue.group
        self._pager = queue.group.pager
        self._exchange = exchange
        self._background = background
        self._timers = timers
        self._clock = clock
        self._waiting: list[tuple[Part | None, Callable[[bool], None]]] = []
        self._mended: dict[int, int] = {}
        self.is_busy = False

    def mend(self, stream: Stream, error: Exception, then: Callable[[bool], None]) -> bool:
        """The page that was found damaged last is mended; `then` hears whether to go on. False: there is nobody to have
        it from."""
        part, now = stream.log.damaged, self._clock.now
        if self.is_busy:
            self._waiting.append((part, then))
            return True
        nodes = self._others()
        self._mended = {first: at for first, at in self._mended.items() if now - at < _AGAIN_MS}
        if part is None or not nodes or part.page.first in self._mended:
            return False
        page = part.page
        log.error("queue '%s': its page of offsets %d to %d cannot be read, and is asked of %s: %s",
                  self._queue.name, page.first, page.last, ", ".join(nodes), where_of(error))  # fmt: skip
        self._mended[page.first] = now
        self._waiting.append((part, then))
        self.is_busy = True
        task = Task(self._background, self._steps(stream, part, nodes))
        task.when_done(lambda is_whole: self._ended(part, is_whole is True))
        return True

    def _others(self) -> list[str]:
        """The other members, the one that leads first."""
        leader = self._group.leader
        return sorted(self._group.wanted_members(), key=lambda name: (name != leader, name))

    def _ended(self, mended: Part, is_whole: bool) -> None:
        self.is_busy = False
        waiting, self._waiting = self._waiting, []
        for part, then in waiting:
            then(is_whole or part is not mended)  # who has met another page comes to it again

    def _steps(self, stream: Stream, part: Part, nodes: list[str]) -> Steps:
        queue, page = self._queue, part.page
        while queue.stop_rewriting():
            yield self._pause()
        for _ in range(_ROUNDS):
            first = max(page.first, stream.first)
            for node in nodes:
                found = yield from self._ask(stream, part, node, first)
                if not self._is_live(stream):
                    return False
                if found is not None:
                    is_whole = yield from self._put(stream, part, found)
                    if is_whole:
                        log.warning("queue '%s': offsets %d to %d are whole again, with what %s has: look after the "
                                    "disk of this node", queue.name, first, page.last, node)  # fmt: skip
                    return is_whole
            yield self._pause()  # retention may be at work, and not as far here as there
            if not self._is_live(stream):
                return False
            if page.location is None or page.last < stream.first:
                return True  # it has taken the page: whoever waits goes on behind it
            if first == max(page.first, stream.first):
                return False
        return False

    def _pause(self) -> Completion[None]:
        pause: Completion[None] = Completion()
        self._timers.at(self._clock.now + _LOOK_MS, lambda now: pause.complete(None))
        return pause

    def _ask(self, stream: Stream, part: Part, node: str, first: int) -> Steps:
        """Returns the page from this offset on, or None."""
        queue, page = self._queue, part.page
        request = Request(
            queue.group.draw_number(), queue.queue_id, first, page.last + 1, part.taken + _MORE_BYTES
        )
        fetched = yield self._exchange.fetch(node, request)
        octets, why = fetched.octets, fetched.why
        if octets is not None:
            found, why = as_page(octets, part, first, bool(stream.settings.key))
            if found is not None:
                return found
        log.warning("queue '%s': offsets %d to %d cannot be had from %s: %s",
                    queue.name, first, page.last, node, why)  # fmt: skip
        return None

    def _put(self, stream: Stream, part: Part, found: Found) -> Steps:
        try:
            return (yield from self._write(stream, part, found))
        except OSError as error:
            if error.errno not in FULL:
                raise
            log.warning("queue '%s': a page that cannot be read is not written anew, the disk is full: %s: make room",
                        self._queue.name, error)  # fmt: skip
            return False

    def _write(self, stream: Stream, part: Part, found: Found) -> Steps:
        """Returns whether the log has it."""
        queue_id, store = self._queue.queue_id, self._pager.page_store
        is_taken = False
        segment = store.begin_segment(queue_id)
        location, pending = store.write_beside(queue_id, segment, found.octets)
        try:
            yield AwaitedRead(pending, self._timers, self._clock)
            if self._is_live(stream):
                pending.result()
                pending = store.sync_beside(queue_id, [segment])
                yield AwaitedRead(pending, self._timers, self._clock)
            if self._is_live(stream):
                pending.result()
                is_taken = stream.log.put(part, location, found.first, found.time, len(found.octets))
                # Where retention has taken it, whoever waits finds out.
                return True
        finally:
            if not is_taken and store.has_segment(queue_id, segment):
                store.release(queue_id, location)
        return False

    def _is_live(self, stream: Stream) -> bool:
        return not self._queue.is_deleted and self._queue.stream() is stream


class Found(NamedTuple):
    """A page as it is to be written: it begins with this offset and time."""

    first: int
    time: int
    octets: bytes


def as_page(octets: bytes, part: Part, first: int, is_compacted: bool) -> tuple[Found | None, str]:
    """Stored chunks as the page has them, or None and why they are not its. first: what is before that is wanted no
    more. is_compacted: some may be gone."""
    page = part.page
    try:
        found = list(split_page(octets, page.first, part.time, is_sound=False)) if octets else []
    except Malformed as error:
        return None, str(error)
    if not found or found[0].first < page.first or (found[0].first > first and not is_compacted):
        return None, "it has other offsets there"
    begin = offset = page.first if is_compacted and first == page.first else found[0].first
    for stored in found:
        if stored.first < offset or (stored.first > offset and not is_compacted):
            return None, "it has other offsets there"
        offset = stored.next
    if offset > page.last + 1 or (offset <= page.last and not is_compacted):
        return None, "it has other offsets there"
    if begin > page.first:  # the oldest page, of which a part is gone on the other node
        return Found(begin, found[0].time, octets), ""
    if len(found) == 1 and len(octets) == HEAD_BYTES + part.taken and found[0].time == part.time:
        octets = octets[HEAD_BYTES:]  # a chunk that is a page by itself
    if len(octets) != part.taken:
        return None, f"it has {len(octets)} octets there and not {part.taken}, as the stream is compacted otherwise"
    return Found(page.first, part.time, octets), ""
