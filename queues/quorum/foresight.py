"""Foresight: before an entry of the log is applied, the pages of streams that it is about to read are looked at.

Queues over streams read the stream while the log is applied: what is wanted, whom it is held back by, what has expired,
what becomes a dead letter. A page that cannot be read then would end the node in the middle of an entry. Here it is
found before anything has changed, so that the entry can wait until the page is had from another member.

It changes nothing that members agree on; what it looks at depends on what is in RAM here, and is read again then at no
cost. What it cannot foresee (a page that is damaged between the look and the entry, what a consumer timeout makes a
dead letter) is found in the entry: the node stops, as with any defect there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.quorum.commands import Attach, Batch, Detach, Get, Prefetch
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.traffic import Enqueue, How, Settle
from queues.stream.damaged import reading
from queues.stream.start import place_of

if TYPE_CHECKING:
    from queues.quorum.state import GroupState

_ACK = How.ACK


def look_first(state: GroupState, batch: Batch) -> None:
    """See that what this batch may read can be read. Raises Damaged."""
    clock = max(state.clock, batch.time)
    if not state.cursors:
        if OpenCursor in set(map(type, batch.commands)):
            _look_for_starts(state, batch, clock)
        return
    for cursor in state.cursors.values():
        if cursor.is_looking(clock):
            _look(cursor)
    origin = state.origins.get(batch.origin) if batch.origin else None
    looked: dict[int, None] = {}
    commands: list[Any] = batch.commands
    for command in commands:
        kind = type(command)
        if kind is Enqueue:
            continue
        if kind is Settle or kind is Prefetch or kind is Detach:
            consumer = origin.consumers.get(command.consumer) if origin is not None else None
            if consumer is None or not isinstance(consumer.queue, CursorQueue):
                continue
            cursor = consumer.queue
            if kind is Settle and command.how is not _ACK:
                _look_at_held(cursor, consumer.held, command.ranges)
        elif kind is Get or kind is Attach:
            found = state.cursors.get(command.queue_id)
            if found is None:
                continue
            cursor = found
        else:
            continue
        if cursor.queue_id not in looked:
            looked[cursor.queue_id] = None
            _look(cursor)
    _look_for_starts(state, batch, clock)


def _look(cursor: CursorQueue) -> None:
    stream = cursor.place.stream
    if stream is not None:
        with reading(stream.queue_id):
            cursor.place.look_ahead()


def _look_at_held(cursor: CursorQueue, held: dict[int, Any], ranges: tuple[tuple[int, int], ...]) -> None:
    """Of what is not acknowledged some may be a dead letter, which is a copy."""
    stream = cursor.place.stream
    if stream is not None:
        with reading(stream.queue_id):
            for number, (entry, _) in held.items():
                if any(first <= number <= last for first, last in ranges):
                    stream.log.look_at(entry.sequence)


def _look_for_starts(state: GroupState, batch: Batch, clock: int) -> None:
    commands: list[Any] = batch.commands
    for command in commands:
        if type(command) is OpenCursor and command.queue_id not in state.queues:
            stream = state.streams.get(command.settings.stream_id)
            if stream is not None and not stream.settings.key:
                with reading(stream.queue_id):
                    place_of(command.settings.start, stream, clock)
