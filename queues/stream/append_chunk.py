"""AppendChunk: the command of which a stream has one for every few messages, and its octets.

It is what the other commands are (commands.py), but no tuple: compiled, it is read without a call, and the chunk that
was looked at when it was read, or packed, is the one that is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import cython

from amqp_broker.octets.buffer import Buffer
from queues.stream.chunk import Chunk
from queues.wire.reader import Malformed, Reader

if TYPE_CHECKING:
    from queues.stream.place import Place


# As a chunk is (chunk.py), it is nothing for the collector of cycles.
@cython.no_gc
@cython.cclass
class AppendChunk:
    """A chunk goes to the end of the stream. Refused with NO_QUEUE where the stream is not. place: where it lies on the
    disk of this member, if it does; read: the chunk as it was looked at, if it was. They are no part of the command."""

    def __init__(self, queue_id: int, chunk: bytes, place: Place | None = None, read: Chunk | None = None) -> None:
        self.queue_id = queue_id
        self.chunk = chunk
        self.place = place
        self.read = read

    def __iter__(self) -> Iterator[object]:
        return iter((self.queue_id, self.chunk))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AppendChunk) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks one up

    def placed(self, place: Place) -> AppendChunk:
        """The same, which lies there."""
        return AppendChunk(self.queue_id, self.chunk, place, self.read)


def make_append(queue_id: int, chunk: Chunk) -> AppendChunk:
    """As the constructor does it, of a chunk with octets of its own; compiled without a call."""
    command = AppendChunk.__new__(AppendChunk)
    command.queue_id = queue_id
    command.chunk = chunk.octets
    command.place = None
    command.read = chunk
    return command


def put_append(buffer: Buffer, command: AppendChunk) -> None:
    """Append its fields."""
    buffer.put_u64(command.queue_id)
    buffer.put_bytes(command.chunk)


def get_append(reader: Reader) -> AppendChunk:
    """The command of which these are the fields. Raises Malformed."""
    queue_id, octets = reader.u64(), reader.rest()
    try:
        chunk = Chunk(octets)
        chunk.check()
    except Malformed:
        raise
    except ValueError as error:
        raise reader.fail(str(error)) from None
    if chunk.end != len(octets):
        raise reader.fail(f"a chunk of {len(octets)} octets ends at {chunk.end}")
    return AppendChunk(queue_id, octets, None, chunk)
