"""StreamSettings: what is in force for one stream, and its octets in a command or an image.

    u64 + 1, or 0 for off, each: max length octets, max age; u64 octets of a segment; u8 octets of a filter;
    short key, "" for a stream that is not compacted; u64 age of tombstones; u8 compression: 0 none, 1 zlib
"""

from __future__ import annotations

from dataclasses import dataclass

from amqp_broker.octets.buffer import Buffer
from queues.stream.keys import is_key
from queues.wire.reader import I64_MAX, Reader, octets_of

#: RabbitMQ's.
SEGMENT_BYTES = 500_000_000
FILTER_BYTES = 16
#: How pages are compressed that have left RAM, in the order of their numbers.
COMPRESSIONS = ("none", "zlib")
#: A day, milliseconds.
TOMBSTONE_AGE = 86_400_000


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """max_length_bytes: of chunks that are kept, octets. max_age: for how long a message is kept, milliseconds. Both
    None for ever. segment_bytes: how exactly they are obeyed, octets. filter_bytes: of a chunk's Bloom filter. key: by
    what it is compacted (keys.py), "" if it is not. tombstone_age: for how long a tombstone stays at least,
    milliseconds. compression: of pages that have left RAM, one of COMPRESSIONS."""

    max_length_bytes: int | None = None
    max_age: int | None = None
    segment_bytes: int = SEGMENT_BYTES
    filter_bytes: int = FILTER_BYTES
    key: str = ""
    tombstone_age: int = TOMBSTONE_AGE
    compression: str = COMPRESSIONS[0]


def put_settings(buffer: Buffer, settings: StreamSettings) -> None:
    """Append the settings."""
    for value in (settings.max_length_bytes, settings.max_age):
        buffer.put_u64(0 if value is None else min(value, I64_MAX) + 1)
    buffer.put_u64(settings.segment_bytes)
    buffer.put_u8(settings.filter_bytes)
    buffer.put_shortstr(octets_of(settings.key))
    buffer.put_u64(min(settings.tombstone_age, I64_MAX))
    buffer.put_u8(COMPRESSIONS.index(settings.compression))


def get_settings(reader: Reader) -> StreamSettings:
    """The settings at the reader's position. Raises Malformed."""
    numbers: list[int | None] = []
    for _ in range(2):
        value = reader.u64()
        if value > I64_MAX + 1:
            raise reader.fail(f"a setting of {value}")
        numbers.append(value - 1 if value else None)
    segment, size = reader.u64(), reader.u8()
    if size < FILTER_BYTES or segment > I64_MAX:
        raise reader.fail(f"segments of {segment} octets, filters of {size}")
    key, age = reader.name(), reader.u64()
    if (key and not is_key(key)) or age > I64_MAX:
        raise reader.fail(f"a stream that is compacted by '{key}', with tombstones of {age} ms")
    compression = reader.u8()
    if compression >= len(COMPRESSIONS):
        raise reader.fail(f"a stream with compression {compression}, which this program does not know: update it")
    return StreamSettings(numbers[0], numbers[1], segment, size, key, age, COMPRESSIONS[compression])
