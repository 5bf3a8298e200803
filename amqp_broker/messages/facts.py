"""MessageFacts: a message's properties and headers, decoded when somebody asks, once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from amqp_broker.protocol.fields import RawValue, Table, decode_table, join_table, plain_longs, table_fields
from amqp_broker.protocol.properties import Properties, decode_properties, read_property, replace_properties
from queues.message import Message, remake_message

_EMPTY: Table = Table({}, b"")


class MessageFacts:
    """What routing may ask of a message (exchanges.exchange.MessageFacts). headers_raw: the octets of its headers, from
    who knows them already; None: they are looked for. may_copy: whether CC or BCC may be among them."""

    def __init__(self, message: Message, headers_raw: bytes | None = None, may_copy: bool = True) -> None:
        self._message = message
        self._headers_raw = headers_raw
        self.may_copy = may_copy

    @cached_property
    def properties(self) -> Properties:
        """All properties. Raises PropertyError or FieldError when they are malformed."""
        return decode_properties(self._message.properties())

    @cached_property
    def headers(self) -> Mapping[str, object]:
        """The headers table; empty when there is none."""
        if self._headers_raw is not None and "properties" not in self.__dict__:
            return decode_table(self._headers_raw) if self._headers_raw else _EMPTY
        found = self.properties.headers
        return _EMPTY if found is None else found

    @cached_property
    def copies(self) -> list[str]:
        """See copy_keys: a message may have thousands."""
        keys: list[str] = []
        for name in ("CC", "BCC"):
            if name not in self.headers:
                continue
            value = self.headers[name]
            if not isinstance(value, list) or set(map(type, value)) - {str}:
                raise ValueError(f"unexpected type of header '{name}': it has to be an array of strings")
            keys.extend(value)
        return keys

    @property
    def headers_raw(self) -> bytes | None:
        """The octets of the headers table, without their length; None when there is none."""
        if self._headers_raw is not None:
            return self._headers_raw
        found = self.properties.headers
        return None if found is None else found.raw

    def property(self, name: str) -> object | None:
        """A property by its name in the specification, with dashes or underscores."""
        return getattr(self.properties, name.replace("-", "_"), None)


def without_header(message: Message, facts: MessageFacts, name: str) -> Message:
    """The message without one header; everything else stays octet for octet."""
    raw, key = facts.headers_raw, name.encode()
    if raw is None or name not in facts.headers:
        return message
    kept = [field for each, field in table_fields(raw, 0, len(raw)) if each != key]
    return _with_headers(message, b"".join(kept))


def with_header(message: Message, facts: MessageFacts, name: str, value: RawValue) -> Message:
    """The message with one header set, in its place where it had one; everything else stays octet for octet."""
    raw, key = facts.headers_raw or b"", name.encode()
    new = join_table([(name, value)])
    fields = []
    for each, field in table_fields(raw, 0, len(raw)):
        fields.append(field if each != key else new)
        if each == key:
            new = b""  # of two equal names the later one counts, so it must not stay
    return _with_headers(message, b"".join((*fields, new)))


def with_plain_longs(properties: bytes) -> bytes:
    """The property section with no L in its headers: a letter for 64 bits that most clients do not know.

    RabbitMQ takes it and passes it on as l. Raises PropertyError or FieldError where `properties` is malformed.
    """
    headers = read_property(properties, "headers", len(properties))
    if not isinstance(headers, Table):
        return properties
    return replace_properties(properties, headers=Table({}, plain_longs(headers.raw)))


def _with_headers(message: Message, raw: bytes) -> Message:
    return with_properties(message, replace_properties(message.properties(), headers=Table({}, raw)))


def with_properties(message: Message, properties: bytes) -> Message:
    """The message with another raw property section, which keeps what routing and storing look at."""
    return remake_message(message, message.raw, properties, message.expiration)


def copy_keys(facts: MessageFacts) -> list[str]:
    """The routing keys in the headers CC and BCC. Raises ValueError when one is not an array of strings."""
    return facts.copies


