"""MessageFacts: a message's properties and headers, decoded when somebody asks, once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from amqp_broker.protocol.fields import Table, encode_value, join_table, split_table
from amqp_broker.protocol.properties import Properties, decode_properties, replace_properties
from queues.message import Message, build_message

_EMPTY: Table = Table({}, b"")


class MessageFacts:
    """What routing may ask of a message (exchanges.exchange.MessageFacts)."""

    def __init__(self, message: Message) -> None:
        self._message = message

    @cached_property
    def properties(self) -> Properties:
        """All properties. Raises PropertyError or FieldError when they are malformed."""
        return decode_properties(self._message.properties())

    @property
    def headers(self) -> Mapping[str, object]:
        """The headers table; empty when there is none."""
        found = self.properties.headers
        return _EMPTY if found is None else found

    @property
    def headers_raw(self) -> bytes | None:
        """The octets of the headers table, without their length; None when there is none."""
        found = self.properties.headers
        return None if found is None else found.raw

    def property(self, name: str) -> object | None:
        """A property by its name in the specification, with dashes or underscores."""
        return getattr(self.properties, name.replace("-", "_"), None)


def without_header(message: Message, facts: MessageFacts, name: str) -> Message:
    """The message without one header; everything else stays octet for octet."""
    if name not in facts.headers or facts.headers_raw is None:
        return message
    pairs = [(key, value) for key, value in split_table(facts.headers_raw) if key != name]
    return with_properties(message, replace_properties(message.properties(), headers=Table({}, join_table(pairs))))


def with_header(message: Message, facts: MessageFacts, name: str, value: object) -> Message:
    """The message with one header set; everything else stays octet for octet."""
    raw = facts.headers_raw
    pairs = [(key, octets) for key, octets in split_table(raw) if key != name] if raw is not None else []
    pairs.append((name, encode_value(value)))
    return with_properties(message, replace_properties(message.properties(), headers=Table({}, join_table(pairs))))


def with_properties(message: Message, properties: bytes) -> Message:
    """The message with another raw property section, which keeps what routing and storing look at."""
    return build_message(
        message.address,
        properties,
        message.body_bytes(),
        message.is_persistent,
        message.priority,
        message.expiration,
        message.timestamp,
    )


def copy_keys(facts: MessageFacts) -> list[str]:
    """The routing keys in the headers CC and BCC. Raises ValueError when one is not an array of strings."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        if name not in facts.headers:
            continue
        value = facts.headers[name]
        if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"unexpected type of header '{name}': it has to be an array of strings")
        keys.extend(value)
    return keys


