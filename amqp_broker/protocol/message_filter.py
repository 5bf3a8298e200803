"""MessageFilter: which messages somebody wants, by what is on the wire: who looks at a queue, and who moves from it.

    routing_key=orders.* header.tenant=acme "out of stock"

Words with blanks between them, all of which have to hold. `name=pattern` is about the exchange, the routing key, a
property, or a header (`header.x-first-death-reason=expired`); `*` stands for any text, and `name!=pattern` holds where
the other does not. A word without `=` has to be in the routing key or in the first octets of the body. Quotes keep
blanks, as in a shell.

Invariant: a filter looks at no more of a body than BODY_OCTETS, so that whoever shows only that much decides the same.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from fnmatch import translate

from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.json_values import field_as_json
from amqp_broker.protocol.properties import PROPERTY_NAMES, Properties, decode_properties

#: So much of a body is looked at.
BODY_OCTETS = 4096
_HEADER = "header."
_PLACES = ("exchange", "routing_key", *(name for name in PROPERTY_NAMES if name != "headers"))

#: Exchange, routing key, properties and the first octets of the body.
_Test = Callable[[str, str, Properties, bytes], bool]


class MessageFilter:
    """Raises ValueError where the text is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"filter: {error}; write '\\' before a quote that belongs to a word") from None
        self._tests = [_test_of(word) for word in words]

    def takes(self, exchange: str, routing_key: str, raw_properties: bytes, body: bytes) -> bool:
        """Whether a message is wanted. One whose properties are malformed is wanted by who wants all."""
        if not self._tests:
            return True
        try:
            properties = decode_properties(raw_properties)
        except MalformedInput:
            return False
        start = body[:BODY_OCTETS]
        return all(test(exchange, routing_key, properties, start) for test in self._tests)


def _test_of(word: str) -> _Test:
    name, is_pair, pattern = word.partition("=")
    if not is_pair:
        octets = word.encode("utf-8", "surrogateescape")
        return lambda exchange, routing_key, properties, body: word in routing_key or octets in body
    is_wanted = not name.endswith("!")
    name = name.removesuffix("!")
    fits = re.compile(translate(pattern.replace("[", "[[]").replace("?", "[?]")), re.DOTALL).match
    if name.startswith(_HEADER):
        key = name[len(_HEADER) :]
        return lambda exchange, routing_key, properties, body: (
            bool(fits(_text(None if properties.headers is None else properties.headers.get(key)))) is is_wanted
        )
    if name == "exchange":
        return lambda exchange, routing_key, properties, body: bool(fits(exchange)) is is_wanted
    if name == "routing_key":
        return lambda exchange, routing_key, properties, body: bool(fits(routing_key)) is is_wanted
    if name not in _PLACES:
        raise ValueError(f"filter: no message has a '{name[:100]}'; there are {', '.join(_PLACES)}, and header.NAME")
    return lambda exchange, routing_key, properties, body: (
        bool(fits(_text(getattr(properties, name)))) is is_wanted
    )


def _text(value: object) -> str:
    """A property or header as it is compared; one that is not there is the empty text."""
    shown = field_as_json(value)
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return "" if shown is None else str(shown)
