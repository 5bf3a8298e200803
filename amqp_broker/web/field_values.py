"""Tables and properties of messages out of JSON."""

from __future__ import annotations

import base64
from typing import Final

from amqp_broker.protocol.errors import EncodeError
from amqp_broker.protocol.fields import Table, decode_table, encode_table
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.protocol.properties import PROPERTY_NAMES, encode_properties
from amqp_broker.web.errors import bad_request

_NUMBERS: Final = ("delivery_mode", "priority", "timestamp")


def to_table(values: JsonValue, name: str) -> Table:
    """The field table of a JSON object; an empty list counts as one, as some languages write it. Raises ApiError."""
    if values is None or values == []:
        values = {}
    if not isinstance(values, dict):
        raise bad_request([f"{name}_not_object", values])
    for key, value in values.items():
        try:
            encode_table({key: value})
        except (EncodeError, ValueError) as error:
            raise bad_request(f"{name}.{key}: {error}") from None
    return Table(values)


def arguments_of(row: JsonObject) -> Table:
    """The field table of a row's `arguments`, octet for octet: of `arguments_raw` where JSON does not say them.

    Raises ApiError for values that no field holds.
    """
    raw = row.get("arguments_raw")
    if raw is None:
        return to_table(row["arguments"], "arguments")
    octets = base64.b64decode(str(raw))
    return decode_table(octets, max_bytes=len(octets))


def read_properties(values: JsonValue) -> bytes:
    """The property section of a JSON object. Raises ApiError."""
    if values is None or values == []:
        values = {}
    if not isinstance(values, dict):
        raise bad_request(["properties_not_object", values])
    found: JsonObject = {}
    for name, value in values.items():
        if name not in PROPERTY_NAMES:
            continue
        if name == "headers":
            found[name] = to_table(value, "headers")
        elif name in _NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise bad_request(["not_integer", {name: value}])
            found[name] = value
        elif not isinstance(value, str):
            raise bad_request(["not_string", {name: value}])
        else:
            found[name] = value
    try:
        return encode_properties(found)
    except (EncodeError, ValueError, OverflowError) as error:
        raise bad_request(f"properties: {error}") from None
