"""Packer: when this node compresses its copy of a stream (queues/stream/packing.py): a page after it has left RAM.

Every node does so by itself, as the settings say that all have; what was packed stays so when they are changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.queue_types.stream.rewriter import SOON_MS, Rewriter
from queues.stream.packing import Packed, Packing

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
    from queues.stream.stream import Stream

log = logging.getLogger("amqp_broker")


class Packer(Rewriter[Packed]):
    """Of one stream. It shares a room with those who compact: a node rewrites one stream at a time."""

    WORD = "compressed"

    def __init__(self, queue: StreamQueue, room: RewritingRoom) -> None:
        self._pager = queue.group.pager
        self._holds_old_places = False
        super().__init__(queue, room, room.pack_every_ms)

    def _look(self, now: int) -> None:
        """See Rewriter."""
        queue, room = self._queue, self._room
        self._wait(self._every_ms)
        stream = queue.stream()
        if self._holds_old_places:
            # Only a checkpoint lets go of them, and the next pass would hold more.
            self._holds_old_places = not self._nudge.takes()
        if self._holds_old_places:
            self._wait(SOON_MS)
            room.call_next()
        elif self._is_free and stream is not None and self._damaged is not stream and stream.log.cold_parts(1):
            if room.enter(self):
                self._begin(stream, Packing(stream.log, self._pager, lambda: self._is_live(stream)).steps())
        else:
            room.call_next()

    def _done(self, stream: Stream, outcome: Packed | None) -> None:
        """See Rewriter."""
        if outcome is not None:
            log.debug("queue '%s': of %d pages those that were packed had %d octets and have %d",
                      self._queue.name, *outcome[:3])  # fmt: skip
            self._holds_old_places = outcome.has_old_places
        self._room.leave()  # who waits in line is before the next pass of this stream
        if outcome is not None and (outcome.has_more or self._holds_old_places):
            self._wait(0)
