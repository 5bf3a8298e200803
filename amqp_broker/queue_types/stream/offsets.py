"""Where a consumer of a stream begins: the argument `x-stream-offset`; and where it ends: `x-stream-until`.

The argument is read when the consumer comes, and becomes an offset when it is served for the first time: `next` is then
what no message of this node's log has yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from amqp_broker.queue_types.stream.arguments import age_of, kind_of
from queues.arguments import ArgumentError
from queues.stream.start import Start, StartKind

OFFSET: Final = "x-stream-offset"
UNTIL: Final = "x-stream-until"
_LAST_SECOND: Final = 1 << 40  # the stream's times are far below it, and milliseconds of it fit into 63 bits

#: The oldest message.
FIRST: Final = Start(StartKind.FIRST)
_NAMED: Final[Mapping[str, StartKind]] = {
    "first": StartKind.FIRST, "last": StartKind.LAST, "next": StartKind.NEXT,
}  # fmt: skip


def parse_start(arguments: Mapping[str, object]) -> Start:
    """What x-stream-offset says: a name; an offset; how many from the end, below 0; a time; or an age, "7D". Raises
    ArgumentError."""
    if OFFSET not in arguments:
        return Start(StartKind.NEXT)
    found = _read(arguments, OFFSET)
    if found is None:
        value, kind = arguments[OFFSET], kind_of(arguments, OFFSET)
        raise ArgumentError(OFFSET, f"{{invalid_stream_offset_arg,{_term(kind, value)}}}")
    return found


def parse_until(arguments: Mapping[str, object]) -> Start | None:
    """What x-stream-until says: the end of what there is when the consumer comes, `last`; an offset; a time; or an age.
    None where nothing is said. Raises ArgumentError."""
    if UNTIL not in arguments:
        return None
    if arguments[UNTIL] == "last":
        return Start(StartKind.NEXT)
    found = _read(arguments, UNTIL)
    if found is None or found.kind not in (StartKind.OFFSET, StartKind.TIME, StartKind.AGE):
        raise ArgumentError(UNTIL, f"a consumer ends before an offset from 0 on, a time, an age such as 1h, or with "
                            f"'last', and not at {arguments[UNTIL]!r}")  # fmt: skip
    return found


def _read(arguments: Mapping[str, object], key: str) -> Start | None:
    """None where it is nothing of a stream."""
    value, kind = arguments[key], kind_of(arguments, key)
    if kind == "timestamp":
        return Start(StartKind.TIME, 1000 * min(_seconds(value), _LAST_SECOND))
    if isinstance(value, int) and not isinstance(value, bool):
        return Start(StartKind.OFFSET, value) if value >= 0 else Start(StartKind.FROM_END, -value)
    if isinstance(value, str):
        if value in _NAMED:
            return Start(_NAMED[value])
        age = age_of(value)
        if age is not None:
            return Start(StartKind.AGE, age)
    return None


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
