"""Where a consumer of a stream begins: the argument `x-stream-offset`.

The argument is read when the consumer comes, and becomes an offset when it is served for the first time: `next` is then
what no message of this node's log has yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from amqp_broker.queue_types.stream.arguments import age_of, kind_of
from queues.arguments import ArgumentError

if TYPE_CHECKING:
    from queues.stream.stream import Stream

OFFSET: Final = "x-stream-offset"
_LAST_SECOND: Final = 1 << 40  # the stream's times are far below it, and milliseconds of it fit into 63 bits

#: The offset at which a reader of this stream begins, at a time in milliseconds since the epoch.
Start = Callable[["Stream", int], int]

#: The oldest message.
FIRST: Final[Start] = lambda stream, now: stream.first  # noqa: E731  # as the others
_NAMED: Final[Mapping[str, Start]] = {
    "first": FIRST,
    "last": lambda stream, now: stream.log.last_chunk(),
    "next": lambda stream, now: stream.next,
}


def parse_offset(arguments: Mapping[str, object]) -> Start:
    """What x-stream-offset means: a name; an offset; how many from the end, below 0; a time; or an age, "7D". Raises
    ArgumentError."""
    if OFFSET not in arguments:
        return _NAMED["next"]
    value, kind = arguments[OFFSET], kind_of(arguments, OFFSET)
    if kind == "timestamp":
        return _from_time(_seconds(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return _from_offset(value)
    if isinstance(value, str):
        if value in _NAMED:
            return _NAMED[value]
        age = age_of(value)
        if age is not None:
            return lambda stream, now: stream.log.offset_at(max(0, now - age))
    raise ArgumentError(OFFSET, f"{{invalid_stream_offset_arg,{_term(kind, value)}}}")


def _from_offset(offset: int) -> Start:
    """It may be beyond the end: of what this node knows of it, or of all (reader.py sees to that)."""
    def start(stream: Stream, now: int) -> int:
        wanted = stream.next + offset if offset < 0 else offset
        return max(stream.first, wanted)

    return start


def _from_time(seconds: int) -> Start:
    return lambda stream, now: stream.log.offset_at(1000 * min(seconds, _LAST_SECOND))


def _seconds(value: object) -> int:
    if isinstance(value, datetime):
        return int(value.replace(tzinfo=UTC).timestamp())
    assert isinstance(value, int)  # beyond the year 9999
    return value


def _term(kind: str, value: object) -> str:
    """A value in RabbitMQ's words: an Erlang term with its type, so far as such terms are short."""
    if isinstance(value, bool):
        return f"{{{kind},{str(value).lower()}}}"
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return f'{{{kind},<<"{text}">>}}'
    if value is None:
        return f"{{{kind},undefined}}"
    return f"{{{kind},{value}}}" if isinstance(value, float) else f"{{{kind},...}}"
