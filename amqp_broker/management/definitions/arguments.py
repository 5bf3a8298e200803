"""Field tables as JSON and back.

RabbitMQ's definitions have no form for byte arrays, timestamps, decimals and the width of an integer: they come
out as strings and numbers, and stay such when they are read again. Where that would lose something, our definitions
hold the octets of the table besides, under `arguments_raw`, which RabbitMQ passes over.

Invariant: `read_arguments` of what `describe_arguments` wrote gives the same table, octet for octet.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from amqp_broker.protocol.errors import EncodeError, FieldError
from amqp_broker.protocol.fields import Table, decode_table, encode_table
from amqp_broker.protocol.json_values import field_as_json


class BadArgument(ValueError):
    """`key` says where, below the entity: "arguments.x-message-ttl" or "arguments_raw"."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}: {text}")
        self.key = key
        self.text = text


def describe_arguments(raw: bytes) -> dict[str, object]:
    """The keys `arguments` and, where it is needed, `arguments_raw` of one entity.

    Raises FieldError where `raw` is no field table.
    """
    table = decode_table(raw, max_bytes=len(raw))
    as_json = table_as_json(table)
    described: dict[str, object] = {"arguments": as_json}
    if not _is_encoded_as(as_json, raw):
        described["arguments_raw"] = base64.b64encode(raw).decode("ascii")
    return described


def table_as_json(table: Mapping[str, object]) -> dict[str, object]:
    """A table as it is shown."""
    return {key: field_as_json(value) for key, value in table.items()}


def read_arguments(arguments: Mapping[str, object], encoded: object = None) -> Table:
    """The table of `arguments`, or of `encoded` (`arguments_raw`) where there is one.

    Raises BadArgument for a value that no field holds, and where the two do not say the same.
    """
    if encoded is not None:
        return _read_raw(arguments, encoded)
    for key, value in arguments.items():
        try:
            encode_table({key: value})
        except EncodeError as error:
            raise BadArgument(f"arguments.{key}", str(error)) from None
    return Table(arguments)


def _read_raw(arguments: Mapping[str, object], encoded: object) -> Table:
    try:
        raw = base64.b64decode(str(encoded), validate=True)
        table = decode_table(raw, max_bytes=len(raw))
    except (binascii.Error, ValueError, FieldError):
        raise BadArgument("arguments_raw", "it is not the base64 of a field table; remove it") from None
    if not _is_same(arguments, {key: field_as_json(value) for key, value in table.items()}):
        raise BadArgument("arguments_raw", "it says something else than arguments; remove it after an edit")
    return table


def _is_encoded_as(arguments: Mapping[str, object], raw: bytes) -> bool:
    """Whether the table of what JSON holds has these octets: JSON knows one kind of integer only, for one thing."""
    try:
        return encode_table(arguments) == raw
    except EncodeError:
        return False


def _is_same(one: object, other: object) -> bool:
    """Whether two values are equal, and of the same types at every depth."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and one == other
