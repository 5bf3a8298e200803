"""Rows for tests: `columns_of("body binary, offset bigint")` without a Spark session to parse it."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from spark_connector.schema import TYPES


def columns_of(text: str) -> StructType:
    """Columns with the types that messages have."""
    pairs = (each.split() for each in text.split(", "))
    return StructType([StructField(name, TYPES[word]) for name, word in pairs])
