"""What commands do to the streams of a group (queues/quorum/execution.py does the rest of a batch)."""

from __future__ import annotations

from queues.pager import Pager
from queues.quorum.effects import Refusal
from queues.stream.commands import AppendChunk, HoldStream, OpenStream, StreamCommand, Trim
from queues.stream.stream import Hold, Stream


def execute(
    streams: dict[int, Stream], command: StreamCommand, clock: int, pager: Pager
) -> tuple[Stream | None, Refusal | None]:
    """Carry out a command. Returns the stream, and why it had no success."""
    stream = streams.get(command.queue_id)
    if isinstance(command, OpenStream):
        if stream is None:
            stream = streams[command.queue_id] = Stream(command.queue_id, command.settings, pager)
        else:
            stream.apply_settings(command.settings, clock)
    elif stream is None:
        return None, Refusal.NO_QUEUE
    elif isinstance(command, AppendChunk):
        stream.append(command.chunk, clock)
    elif isinstance(command, Trim):
        stream.trim(command.first)
    elif isinstance(command, HoldStream):
        stream.hold(command.name, Hold(command.offset, command.until) if command.until else None, clock)
    return stream, None
