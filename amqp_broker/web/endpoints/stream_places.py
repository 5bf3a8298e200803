"""Places in a stream, as requests name them: an offset, a time, first, last, next, or an age; and the offsets that
these are."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from amqp_broker.moving.replayer import End
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.asked import Asked
from amqp_broker.web.errors import bad_request

_WORD: Final = re.compile(r"first|last|next|[0-9]+[YMDhms]")
_OFFSET: Final = re.compile(r"-?[0-9]{1,18}")
_TIME: Final = "a time such as 2026-01-31T12:00:00Z"
_WHAT: Final = f"an offset, {_TIME}, first, last, next, or an age such as 1h"


def time_of(value: str, name: str, what: str = f"{_TIME}, or milliseconds since the epoch") -> int:
    """Of ISO 8601 with a zone: milliseconds since the epoch. what: may be said there. Raises ApiError."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise bad_request(f"{name} is {what}, and not {value[:100]!r}") from None
    if moment.tzinfo is None:
        raise bad_request(f"{name}: a time needs its zone, such as the Z of 2026-01-31T12:00:00Z")
    return max(0, int(moment.timestamp() * 1000))


def place_fields(value: int | str, name: str) -> JsonObject:
    """What `stream.find` is asked for. Raises ApiError."""
    if isinstance(value, int) or _OFFSET.fullmatch(value):
        return {"at": int(value)}
    return {"at": value} if _WORD.fullmatch(value) else {"time": time_of(value, name, _WHAT)}


def offsets_at(asked: Asked, value: int | str, name: str) -> list[tuple[str, int]]:
    """The names of a stream's partitions, and the offset that a place is in each; of one without, its own. Raises
    ApiError, SystemRequestError."""
    stream = asked.name("stream")
    if isinstance(value, int):
        return [(stream, value)]
    found = asked.verb("stream.find", vhost=asked.name("vhost"), name=stream, **place_fields(value, name))
    rows: list[JsonObject] = found.get("partitions", [{"name": stream, **found}])
    return [(row["name"], row["offset"]) for row in rows]


def offset_at(asked: Asked, value: int | str, name: str) -> int:
    """Of what cannot be asked of all partitions at once. Raises ApiError, SystemRequestError."""
    found = offsets_at(asked, value, name)
    if len(found) != 1 or found[0][0] != asked.name("stream"):
        names = ", ".join(each for each, _ in found[:3])
        raise bad_request(f"{name}: a stream with partitions has none; name one of them ({names}, ...), or an offset")
    return found[0][1]


def end_of(asked: Asked, value: int | str, name: str) -> End:
    """Where a range begins or ends: an offset, or a time. Raises ApiError, SystemRequestError."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        return End(offset=offset_at(asked, value, name))
    fields = place_fields(value, name)
    if fields.get("at", 0) < 0:
        raise bad_request(f"{name} is at least 0")
    return End(fields.get("at"), fields.get("time"))
