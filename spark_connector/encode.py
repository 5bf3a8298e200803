"""Rows to messages: Arrow batches with columns named as in `schema` become exchange, routing key, properties and body.

Only `body` is required (octets or text; `value` is another name for it); what a column does not say comes from the
options. Columns that belong to the reading of a message (queue, offset, ...) are read over, so that what was read can
be written as it is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from amqp_broker.protocol.errors import EncodeError
from amqp_broker.protocol.properties import encode_properties
from spark_connector.columns import PROPERTIES
from spark_connector.errors import OptionError, PublishFailed, SchemaError
from spark_connector.options import Options
from spark_connector.schema import BY_NAME

_BODY_NAMES: Final = ("body", "value")
_ADDRESS: Final = ("exchange", "routing_key")
#: So many different property sections are remembered.
_KNOWN: Final = 4096
_FIXED: Final = struct.Struct(">QQBH")
_U32: Final = struct.Struct(">L")


class Outgoing(NamedTuple):
    """A message to be published."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class Encoder:
    """Makes messages of rows with one schema. Raises SchemaError, OptionError when it is made."""

    def __init__(self, schema: StructType, options: Options) -> None:
        types = {each.name: each.dataType for each in schema.fields}
        bodies = [name for name in _BODY_NAMES if name in types]
        if len(bodies) != 1:
            raise SchemaError(f"a message needs one column 'body' (or 'value'); there are {', '.join(types) or 'none'}")
        self._body = bodies[0]
        if not isinstance(types[self._body], BinaryType | StringType):
            raise SchemaError(
                f"column '{self._body}' is {types[self._body].simpleString()}: make it binary or string, "
                "for instance with to_json(struct(*))"
            )
        unknown = [name for name in types if name not in BY_NAME and name not in _BODY_NAMES]
        if unknown and not options.ignore_unknown_columns:
            raise SchemaError(
                f"column '{unknown[0]}' is no part of a message: drop it, put it into the body with "
                "to_json(struct(*)), or set ignoreUnknownColumns=true"
            )
        self._properties = [name for name in PROPERTIES if name in types]
        if "headers" in types and not isinstance(types["headers"], MapType | StringType):
            raise SchemaError("column 'headers' has to be map<string,string>, or a string that holds a JSON object")
        self._addressed = [name in types for name in _ADDRESS]
        if not self._addressed[1] and options.routing_key is None:
            raise OptionError(
                "option 'routingKey' is missing: name the routing key (on the default exchange: the queue), or give "
                "the rows a column 'routing_key'"
            )
        self._exchange = options.exchange
        self._routing_key = options.routing_key
        self._mode = 2 if options.persistent else None
        self._known: dict[Any, bytes] = {}

    def messages(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        """One for each row, in order. Raises PublishFailed for what no message can carry."""
        rows = batch.num_rows
        bodies = batch.column(batch.schema.get_field_index(self._body)).to_pylist()
        exchanges = self._texts(batch, 0, self._exchange)
        keys = self._texts(batch, 1, self._routing_key)
        sections = self._sections(batch) if self._properties else [self._section((), None)] * rows
        for exchange, key, section, body in zip(exchanges, keys, sections, bodies, strict=True):
            if body is None or key is None:
                what = self._body if body is None else "routing_key"
                raise PublishFailed(f"a row has no {what}: filter such rows out, or give them one (coalesce)")
            yield Outgoing(exchange or "", key, section, body.encode() if isinstance(body, str) else body)

    def _texts(self, batch: pa.RecordBatch, which: int, default: str | None) -> Sequence[str | None]:
        if not self._addressed[which]:
            return [default] * batch.num_rows
        values = batch.column(batch.schema.get_field_index(_ADDRESS[which])).to_pylist()
        return values if default is None else [default if each is None else each for each in values]

    def _sections(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in self._properties]
        headers = self._properties.index("headers") if "headers" in self._properties else None
        for values in zip(*columns, strict=True):
            yield self._section(values, headers)

    def _section(self, values: tuple[Any, ...], headers: int | None) -> bytes:
        """The property section for a row's values of `self._properties`."""
        key: Any = values
        if headers is not None and isinstance(values[headers], list):
            key = (*values[:headers], tuple(values[headers]), *values[headers + 1 :])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            known = self._known[key] = self._encode(dict(zip(self._properties, values, strict=True)))
        return known

    def _encode(self, values: dict[str, Any]) -> bytes:
        given: dict[str, object] = {name: value for name, value in values.items() if value is not None}
        if self._mode is not None:
            given.setdefault("delivery_mode", self._mode)
        if "headers" in given:
            given["headers"] = _headers(given["headers"])
        moment = given.get("timestamp")
        if isinstance(moment, datetime):
            given["timestamp"] = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
        try:
            return encode_properties(given)
        except EncodeError as error:
            raise PublishFailed(f"a row cannot be a message: {error}") from None


def _headers(value: Any) -> Mapping[str, object]:
    if not isinstance(value, str):
        return dict(value)
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise PublishFailed(f"column 'headers' holds no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise PublishFailed(f"column 'headers' has to hold a JSON object, not {value[:40]!r}")
    return parsed


class Blob:
    """A growing blob of messages for txn.stage (docs/leases.md)."""

    def __init__(self) -> None:
        self.count = 0
        self.octets = 0
        self._pieces: list[bytes] = []
        self._heads: dict[tuple[str, str, bytes], bytes] = {}

    def add(self, message: Outgoing) -> None:
        head = self._heads.get(message[:3])
        if head is None:
            if len(self._heads) >= _KNOWN:
                self._heads.clear()
            head = self._heads[message[:3]] = _head(message)
        self._pieces += (head, _U32.pack(len(message.body)), message.body)
        self.count += 1
        self.octets += len(head) + 4 + len(message.body)

    def take(self) -> bytes:
        """The octets so far; it is empty again."""
        octets = b"".join((b"\x01", _U32.pack(self.count), *self._pieces))
        self._pieces.clear()
        self.count = self.octets = 0
        return octets


def _head(message: Outgoing) -> bytes:
    """All of a message before its body's length."""
    names = []
    for what, name in (("exchange", message.exchange), ("routing key", message.routing_key)):
        octets = name.encode("utf-8", "surrogateescape")
        if len(octets) > 255:
            raise PublishFailed(f"{what} '{name[:40]}...' of {len(octets)} octets: at most 255 fit; shorten it")
        names.append(bytes([len(octets)]) + octets)
    return b"".join((_FIXED.pack(0, 0, 0, 0), *names, _U32.pack(len(message.properties)), message.properties))
