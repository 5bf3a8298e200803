"""Rows: those of a page as text, each on a line of its own, so that what another node has made is handed on unread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amqp_broker.management.objects.kind import Kind
from amqp_broker.management.written_json import JsonText, encode_value
from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.turn.task import Steps

#: Whatever kind; who has things of one gives them to the same.
AnyKind = Kind[Any, Any]  # own class: each kind has that of its things
Columns = Mapping[str, Callable[[object], JsonValue]]


def make_rows(kind: AnyKind, things: list[object], columns: Columns) -> Steps:
    """Its result: a row of each, None of one that has gone meanwhile. A slice makes one: a queue's has many columns."""
    rows: list[JsonText | None] = []
    prepared = yield from kind.prepare(things, columns)
    for thing in things:
        if kind.is_there(thing):
            seen = kind.look(thing, prepared)
            rows.append(encode_value([column(seen) for column in columns.values()]))
        else:
            rows.append(None)
        yield None
    return rows


def as_lines(rows: list[JsonText | None]) -> str:
    """JSON in ASCII has no line's end in it."""
    return "\n".join("null" if row is None else row for row in rows)


def of_lines(text: str) -> list[JsonText | None]:
    """What `as_lines` was given."""
    return [None if line == "null" else JsonText(line) for line in text.split("\n")] if text else []
