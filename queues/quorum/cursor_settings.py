"""CursorSettings: what is in force for a quorum queue over a stream, and its octets in a command or an image.

Behind the octets of QuorumSettings: u8 version (1), u64 stream, u8 kind of start, u64 its value, u8 flags (1 takes
unfiltered, 2 key order), u16 n, n x (u16 length, filter value)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from amqp_broker.octets.buffer import Buffer
from queues.quorum.settings import QuorumSettings, get_settings, put_settings
from queues.stream.start import Start, StartKind
from queues.wire.reader import I64_MAX, Reader

_VERSION = 1
_TAKES_UNFILTERED = 1
_KEY_ORDER = 2


@dataclass(frozen=True, slots=True)
class CursorSettings(QuorumSettings):
    """stream_id: of the stream that has its messages; it stays the one that it was opened with. start: looked for when
    the log has both, the queue and the stream.
    values: of x-stream-filter-value, any of which is wanted; none for all messages. takes_unfiltered: what has no value
    as well. has_key_order: of messages with one routing key, one at a time is out, in order."""

    stream_id: int = 0
    start: Start = Start(StartKind.NEXT)  # noqa: RUF009  # a tuple
    values: tuple[bytes, ...] = ()
    takes_unfiltered: bool = False
    has_key_order: bool = False


def put_cursor_settings(buffer: Buffer, settings: CursorSettings) -> None:
    """Append the settings."""
    put_settings(buffer, settings)
    buffer.put_u8(_VERSION)
    buffer.put_u64(settings.stream_id)
    buffer.put_u8(settings.start.kind)
    buffer.put_u64(min(settings.start.value, I64_MAX))
    buffer.put_u8(
        (_TAKES_UNFILTERED if settings.takes_unfiltered else 0) | (_KEY_ORDER if settings.has_key_order else 0)
    )
    buffer.put_u16(len(settings.values))
    for value in settings.values:
        buffer.put_u16(len(value))
        buffer.put_bytes(value)


def get_cursor_settings(reader: Reader) -> CursorSettings:
    """The settings at the reader's position. Raises Malformed."""
    settings = get_settings(reader)
    version = reader.u8()
    if version != _VERSION:
        raise reader.fail(f"a queue over a stream of version {version}; this program reads {_VERSION}: update it")
    stream_id, kind, value = reader.u64(), reader.u8(), reader.u64()
    if kind not in StartKind.__members__.values() or value > I64_MAX:
        raise reader.fail(f"a start of kind {kind} with {value}")
    flags = reader.flags(_TAKES_UNFILTERED | _KEY_ORDER)
    values = tuple([reader.octets(reader.u16()) for _ in range(reader.u16())])
    return with_cursor(
        settings, stream_id, Start(StartKind(kind), value), values, bool(flags & _TAKES_UNFILTERED),
        bool(flags & _KEY_ORDER),
    )  # fmt: skip


def with_cursor(
    settings: QuorumSettings, stream_id: int, start: Start, values: tuple[bytes, ...], takes_unfiltered: bool,
    has_key_order: bool,
) -> CursorSettings:  # fmt: skip
    """The settings of a quorum queue as those of one over a stream."""
    known: dict[str, Any] = {each.name: getattr(settings, each.name) for each in fields(QuorumSettings)}
    return CursorSettings(
        **known, stream_id=stream_id, start=start, values=values, takes_unfiltered=takes_unfiltered,
        has_key_order=has_key_order,
    )  # fmt: skip
