"""Blobs of messages to Arrow batches of exactly the columns and types that Spark asks for.

Octets that are no UTF-8 in a text column (AMQP does not forbid them) become the replacement character, as in Spark's
own readers; the body stays octets.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from amqp_broker.protocol.fields import Table, decode_table
from spark_connector.columns import PROPERTIES, Columns, Numbers, Texts
from spark_connector.schema import parts

_HEADERS: Final = PROPERTIES.index("headers")


class Decoder:
    """Makes batches for one schema. Pickles as its schema and format."""

    def __init__(self, schema: StructType, headers_format: str, partition: int = 0) -> None:
        self._schema = schema
        self._headers_format = headers_format
        self._partition = partition
        self.arrow_schema = to_arrow_schema(schema, timezone="UTC")
        self.wanted = frozenset(self.arrow_schema.names)
        self.parts = parts(self.arrow_schema.names)

    def __reduce__(self) -> tuple[type[Decoder], tuple[StructType, str, int]]:
        return Decoder, (self._schema, self._headers_format, self._partition)

    def of_partition(self, partition: int) -> Decoder:
        """The same for what comes from another partition of a stream."""
        return Decoder(self._schema, self._headers_format, partition)

    def batch(self, blob: bytes, queue: str, incarnation: str | None) -> pa.RecordBatch:
        """All messages of a blob. Raises MalformedBlob."""
        columns = Columns(blob, self.wanted)
        constants = {"queue": queue, "incarnation": incarnation, "partition": self._partition}
        arrays = []
        for field in self.arrow_schema:
            if field.name in constants:
                arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), columns.rows))
            elif field.name == "headers":
                arrays.append(self._headers(columns.texts[_HEADERS], columns.rows, field.type))
            else:
                arrays.append(_array(columns, field.name, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _headers(self, column: Texts | None, rows: int, arrow_type: pa.DataType) -> pa.Array:
        if column is None or column.nulls == rows:
            return pa.nulls(rows, arrow_type)
        convert = _HEADERS_FORMATS[self._headers_format]
        known: dict[bytes, Any] = {}
        values = []
        for raw in _octets(column, rows).to_pylist():
            if raw is not None and raw not in known:
                if len(known) > _KNOWN_HEADERS:
                    known.clear()
                known[raw] = convert(decode_table(raw))
            values.append(None if raw is None else known[raw])
        return pa.array(values, arrow_type)


#: Publishers say the same again and again: so many different headers are remembered while a blob is decoded.
_KNOWN_HEADERS: Final = 1000


def _array(columns: Columns, name: str, arrow_type: pa.DataType) -> pa.Array:
    column = columns.texts[PROPERTIES.index(name)] if name in PROPERTIES else None
    if column is None:
        column = getattr(columns, name)
    if name == "body":
        return _octets(column, columns.rows)
    if isinstance(column, Texts):
        return _text(column, columns.rows)
    return _numbers(column, columns.rows, arrow_type)


def _validity(column: Texts | Numbers) -> pa.Buffer | None:
    return pa.py_buffer(column.bits) if column.nulls else None


def _octets(column: Texts, rows: int) -> pa.Array:
    buffers = [_validity(column), pa.py_buffer(column.ends), pa.py_buffer(column.data.view())]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, column.nulls)


def _text(column: Texts, rows: int) -> pa.Array:
    """A column of UTF-8; what is none is replaced value by value."""
    data = column.data.take()
    buffers = [_validity(column), pa.py_buffer(column.ends), pa.py_buffer(data)]
    if data.isascii():
        return pa.Array.from_buffers(pa.string(), rows, buffers, column.nulls)
    values = pa.Array.from_buffers(pa.binary(), rows, buffers, column.nulls).to_pylist()
    return pa.array([None if each is None else each.decode("utf-8", "replace") for each in values], pa.string())


def _numbers(column: Numbers, rows: int, arrow_type: pa.DataType) -> pa.Array:
    whole = pa.Array.from_buffers(pa.int64(), rows, [_validity(column), pa.py_buffer(column.values)], column.nulls)
    if pa.types.is_timestamp(arrow_type):
        return whole.view(arrow_type)
    return whole.cast(arrow_type)


# -- headers -----------------------------------------------------------------------------------------------------------


def _as_map(table: Table) -> list[tuple[str, str | None]]:
    """Every value as a text: what is none already is JSON."""
    return [
        (_clean(key), None if value is None else _clean(value) if isinstance(value, str) else _json_text(value))
        for key, value in table.items()
    ]


def _json_text(value: object) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _as_json(table: Table) -> str:
    return json.dumps(_plain(table), ensure_ascii=False)


def _as_variant(table: Table) -> dict[str, bytes]:
    from pyspark.sql.types import VariantVal

    variant = VariantVal.parseJson(_as_json(table))
    return {"value": bytes(variant.value), "metadata": bytes(variant.metadata)}


def _plain(value: object) -> Any:
    """A value of a field table as JSON has it: octets in base64, times as ISO 8601, decimals as numbers where exact."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, dict):
        return {_clean(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)  # JSON has no such number
    return value


def _clean(value: str) -> str:
    """Without the stand-ins for octets that are no UTF-8."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_HEADERS_FORMATS: Final[dict[str, Callable[[Table], Any]]] = {
    "map": _as_map,
    "json": _as_json,
    "variant": _as_variant,
}
