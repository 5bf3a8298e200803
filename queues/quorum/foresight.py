"""Foresight: before an entry of the log is applied, the pages of streams that it is about to read are looked at.

Queues over streams read the stream while the log is applied: what is wanted, whom it is held back by, what has expired,
what becomes a dead letter. A page that cannot be read then would end the node in the middle of an entry. Here it is
found before anything has changed, so that the entry can wait until the page is had from another member. And a page that
has to be read from the disk would hold up everybody: the entry waits until it is there, and is looked at again then.

It changes nothing that members agree on: an entry is applied later here than elsewhere, and comes to the same. What it
looks at depends on what is in RAM here, and is read again then at no cost. What it cannot foresee is found in the
entry: where a page is damaged then, the node stops, as with any defect there; where it is on the disk, the turn waits.
That is what a consumer timeout or a lost node gives back, what has expired behind the first pages, and what is beyond
those that are looked at ahead (cursor_ready.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.quorum.commands import Attach, Batch, Detach, Get, Prefetch
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.stream.coming import await_page
from queues.stream.damaged import reading
from queues.stream.start import page_of, place_of
from queues.wire.traffic import Enqueue, How, Settle

if TYPE_CHECKING:
    from queues.quorum.state import GroupState

_ACK = How.ACK


def look_first(state: GroupState, batch: Batch, waits: bool) -> None:
    """See that what this batch may read can be read. waits: not by reading it here and now, where something else reads
    in the background. Raises Damaged, and Coming."""
    clock = max(state.clock, batch.time)
    if not state.cursors:
        if OpenCursor in set(map(type, batch.commands)):
            _look_for_starts(state, batch, clock, waits)
        return
    for cursor in state.cursors.values():
        if cursor.is_looking(clock):
            _look(cursor, waits)
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
                _look_at_held(cursor, consumer.held, command.ranges, waits)
        elif kind is Get or kind is Attach or kind is OpenCursor:
            found = state.cursors.get(command.queue_id)
            if found is None:
                continue
            cursor = found
        else:
            continue
        if cursor.queue_id not in looked:
            looked[cursor.queue_id] = None
            _look(cursor, waits)
    _look_for_starts(state, batch, clock, waits)


def _look(cursor: CursorQueue, waits: bool) -> None:
    stream = cursor.place.stream
    if stream is not None:
        with reading(stream.queue_id):
            cursor.place.look_ahead(waits, cursor.most_read())


def _look_at_held(
    cursor: CursorQueue, held: dict[int, Any], ranges: tuple[tuple[int, int], ...], waits: bool
) -> None:
    """Of what is not acknowledged some may be a dead letter, which is a copy."""
    stream = cursor.place.stream
    if stream is not None:
        with reading(stream.queue_id):
            for number, (entry, _) in held.items():
                if any(first <= number <= last for first, last in ranges):
                    if waits:
                        await_page(stream.log, entry.sequence)
                    stream.log.look_at(entry.sequence)


def _look_for_starts(state: GroupState, batch: Batch, clock: int, waits: bool) -> None:
    commands: list[Any] = batch.commands
    for command in commands:
        if type(command) is OpenCursor and command.queue_id not in state.queues:
            stream = state.streams.get(command.settings.stream_id)
            if stream is not None and not stream.settings.key:
                with reading(stream.queue_id):
                    page = page_of(command.settings.start, stream, clock)
                    if waits and page >= 0:
                        await_page(stream.log, page)
                    begin = max(stream.first, place_of(command.settings.start, stream, clock))
                    if command.settings.arguments.message_ttl is not None and begin < stream.next:
                        if waits:
                            await_page(stream.log, begin)
                        stream.log.look_at(begin)
