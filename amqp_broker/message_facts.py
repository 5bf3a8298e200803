"""MessageFacts: a message's properties and headers, decoded when somebody asks, once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import Properties, decode_properties
from queues.message import Message

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


def copy_keys(facts: MessageFacts) -> list[str]:
    """The routing keys in the headers CC and BCC. Raises ValueError when one is not an array of strings."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = facts.headers.get(name)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"unexpected type of header '{name}': it has to be an array of strings")
        keys.extend(value)
    return keys


