"""A table on standard output: drawn on a terminal, aligned text in a pipe, one JSON document, or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table as DrawnTable
from rich.text import Text

from amqp_broker.cli.cells import for_people, for_programs

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonValue


@dataclass
class Table:
    """now: when it was so, milliseconds since the epoch. stale: nodes whose part is missing."""

    columns: Sequence[str]
    rows: list[list[JsonValue]]
    now: int = 0
    stale: Sequence[str] = field(default=())


def drawn(table: Table) -> DrawnTable:
    """For a terminal. Numbers stand on the right."""
    found = DrawnTable(box=SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(table.columns):
        are_numbers = all(_is_number(row[place]) for row in table.rows)
        found.add_column(Text(column), justify="right" if are_numbers and table.rows else "left", overflow="fold")
    for row in table.rows:
        pairs = zip(table.columns, row, strict=True)
        found.add_row(*(Text(for_people(column, value, table.now)) for column, value in pairs))
    return found


def _is_number(value: JsonValue) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def aligned(table: Table) -> Iterator[str]:
    """Lines for a pipe: values as they are."""
    cells = [list(table.columns), *([for_programs(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def as_json(table: Table, indent: int | None = 2) -> str:
    """A list of objects."""
    return json.dumps([dict(zip(table.columns, row, strict=True)) for row in table.rows], indent=indent)


def as_csv(table: Table) -> str:
    """RFC 4180, but for octets that are no UTF-8: those are escaped. What is neither text nor a number is JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_csv_cell(value) for value in row])
    return text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def _csv_cell(value: JsonValue) -> JsonValue:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
