"""Bindings: who is bound to an exchange, by which key and arguments, and when two of them are the same.

It knows names and values only: no exchange type, no queue, no wire format.

Invariants:
1. `comparable` maps values that a headers exchange holds equal to equal hashable values, and no others.
2. Two bindings of one exchange are the same when destination, binding key and comparable arguments are (AMQP
   0-9-1 §1.7.2.3: binding again is no error).
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Hashable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

QUEUE = "queue"
EXCHANGE = "exchange"

_NOT_A_NUMBER = ("not a number",)


class Destination(NamedTuple):
    """Where a binding leads: `kind` is "queue" or "exchange". `again` is 0 but inside of an exchange that still forgets
    bindings of a destination that has gone, and has new ones of its name."""

    kind: str
    name: str
    again: int = 0


class Binding(NamedTuple):
    """One binding of an exchange; `arguments` is the table as the client sent it."""

    destination: Destination
    binding_key: str
    arguments: Mapping[str, object]


Identity = tuple[str, Hashable]


def identity(binding_key: str, arguments: Mapping[str, object]) -> Identity:
    """What tells two bindings to the same destination apart."""
    return binding_key, comparable_table(arguments) if arguments else ()


def comparable_table(table: Mapping[str, object]) -> tuple[tuple[str, Hashable], ...]:
    """The fields of a table in the order of their keys, each value made comparable."""
    return tuple((key, comparable(table[key])) for key in sorted(table))


def comparable(value: object) -> Hashable:
    """A hashable stand-in for a field value, equal for two values that a headers exchange takes for the same.

    As RabbitMQ compares them: integers of every size and floats by value, true and false unlike 1 and 0, a
    byte array like the string of the same octets, a timestamp like its seconds, a decimal like other decimals
    only. Raises ValueError for a value that no AMQP field can hold.
    """
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # A stand-in for NaN, which is unlike itself: a binding that holds one could never be unbound.
        return value if value == value else _NOT_A_NUMBER
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, datetime):
        return timegm(value.utctimetuple())
    if isinstance(value, Decimal):
        return "decimal", value
    if isinstance(value, (list, tuple)):
        return "array", tuple(comparable(item) for item in value)
    if isinstance(value, Mapping):
        return "table", comparable_table(value)
    raise ValueError(
        f"value {value!r} of type {type(value).__name__} is no AMQP field value; send a string instead"
    )
