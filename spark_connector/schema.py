"""The row of a message: every column's name, type and meaning, and which of them a read asks for.

A read has all columns, or those of `.schema("body binary, offset bigint")`: a column that is not asked for is neither
fetched nor decoded. (queue, incarnation, offset) names a message for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from spark_connector.errors import SchemaError


class Column(NamedTuple):
    """A column; `part` is what of a message has to be fetched for it: "" for what comes with every one."""

    name: str
    type: str
    part: str
    doc: str


BODY, PROPERTIES, ADDRESS, ENQUEUED_AT = "body", "properties", "address", "enqueued_at"

COLUMNS: Final = (
    Column("body", "binary", BODY, "the octets; cast(body as string) for text"),
    Column("exchange", "string", ADDRESS, "where it was published"),
    Column("routing_key", "string", ADDRESS, "with which key"),
    Column("redelivered", "boolean", "", "somebody may have had it before"),
    Column("content_type", "string", PROPERTIES, "property"),
    Column("content_encoding", "string", PROPERTIES, "property"),
    Column("headers", "map<string,string>", PROPERTIES, "property; see `headersFormat`"),
    Column("delivery_mode", "smallint", PROPERTIES, "property; 2 is persistent"),
    Column("priority", "smallint", PROPERTIES, "property"),
    Column("correlation_id", "string", PROPERTIES, "property"),
    Column("reply_to", "string", PROPERTIES, "property"),
    Column("expiration", "string", PROPERTIES, "property; milliseconds, as text"),
    Column("message_id", "string", PROPERTIES, "property"),
    Column("timestamp", "timestamp", PROPERTIES, "property; whole seconds"),
    Column("type", "string", PROPERTIES, "property"),
    Column("user_id", "string", PROPERTIES, "property"),
    Column("app_id", "string", PROPERTIES, "property"),
    Column("cluster_id", "string", PROPERTIES, "property"),
    Column("queue", "string", "", "the queue it was read from"),
    Column("partition", "int", "", "its number, of a stream with partitions; else 0"),
    Column("incarnation", "string", "", "of the lease group, or of the stream; none in a snapshot"),
    Column("offset", "bigint", "", "its place in that group or stream: dense, from 0; in a snapshot, in the queue"),
    Column("enqueued_at", "timestamp", ENQUEUED_AT, "when the broker took it"),
    Column("delivery_count", "int", "", "how often it was delivered before"),
)
BY_NAME: Final = {each.name: each for each in COLUMNS}
HEADERS_TYPES: Final = {"map": "map<string,string>", "json": "string", "variant": "variant"}


#: Spark's types by the words of the table.
TYPES: Final[dict[str, DataType]] = {
    "binary": BinaryType(), "string": StringType(), "boolean": BooleanType(), "smallint": ShortType(),
    "int": IntegerType(), "bigint": LongType(), "timestamp": TimestampType(), "variant": VariantType(),
    "map<string,string>": MapType(StringType(), StringType()),
}  # fmt: skip


def types(headers_format: str) -> dict[str, str]:
    """Every column's type, in words."""
    return {each.name: each.type for each in COLUMNS} | {"headers": HEADERS_TYPES[headers_format]}


def row_type(headers_format: str) -> StructType:
    """The whole row."""
    return StructType([StructField(name, TYPES[word]) for name, word in types(headers_format).items()])


def check(schema: StructType, headers_format: str) -> None:
    """Raises SchemaError for columns that a message does not have, or not with that type."""
    expected = types(headers_format)
    wanted: dict[str, DataType] = {each.name: each.dataType for each in schema.fields}
    for name, data_type in wanted.items():
        if name not in expected:
            raise SchemaError(f"a message has no column '{name}'; it has {', '.join(expected)}")
        if data_type.simpleString() != expected[name]:
            raise SchemaError(
                f"column '{name}' is {expected[name]}, not {data_type.simpleString()}: "
                f"write it so in .schema(...), and cast it afterwards"
            )


def parts(names: Iterable[str]) -> list[str]:
    """What of every message has to be fetched for these columns."""
    wanted = {BY_NAME[name].part for name in names} - {""}
    return [part for part in (BODY, PROPERTIES, ADDRESS, ENQUEUED_AT) if part in wanted]
