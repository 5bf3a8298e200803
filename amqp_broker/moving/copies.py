"""Copies: the properties under which a message is published that was taken from another queue.

All that is not named here stays, octet for octet, x-death and unknown types of fields included.

| what | becomes |
|---|---|
| delivery_mode | 2: what a confirm says of it is to outlive a crash |
| x-moved-by | the mark of who moved it, with a number: returns are known by it, and a mover knows its own |
| x-delivery-count | goes: the queue that it leaves has counted it |
| CC, BCC | x-moved-cc, x-moved-bcc: they would route the message to more places than the one that was chosen |
| user_id of somebody else | x-moved-user-id: a broker takes no message in another user's name |
"""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol.constants import MOVED_BY
from amqp_broker.protocol.fields import RawValue, Table, encode_value, join_table, split_table
from amqp_broker.protocol.properties import read_property, replace_properties

_RENAMED: Final = {"CC": "x-moved-cc", "BCC": "x-moved-bcc"}
_MOVED_USER: Final = "x-moved-user-id"
_LEFT_OUT: Final = frozenset({MOVED_BY, "x-delivery-count"})
_PERSISTENT: Final = 2


def copied_properties(raw: bytes, mark: str, user: str) -> bytes:
    """The property section under which `user` publishes it. Raises MalformedInput."""
    headers = read_property(raw, "headers", len(raw))
    fields = split_table(headers.raw) if isinstance(headers, Table) else []
    kept = [(_RENAMED.get(name, name), value) for name, value in fields if name not in _LEFT_OUT]
    changes: dict[str, object] = {"delivery_mode": _PERSISTENT}
    owner = read_property(raw, "user_id")
    if owner is not None and owner != user:
        changes["user_id"] = None
        kept.append((_MOVED_USER, RawValue(encode_value(owner))))
    kept.append((MOVED_BY, encode_value(mark)))
    changes["headers"] = Table({}, join_table(kept))
    return replace_properties(raw, **changes)


def mark_of(raw: bytes) -> str:
    """The mark that a message has, "" for none. Raises MalformedInput."""
    headers = read_property(raw, "headers", len(raw))
    mark = headers.get(MOVED_BY) if isinstance(headers, Table) else None
    return mark if isinstance(mark, str) else ""
