"""JSON of large bodies, read bit by bit: ten thousand queues to import are a megabyte, and a dozen milliseconds if read
at once.

What is deep in it is read by the json module, item by item; the outer levels here. The value is that of `json.loads`,
and so is what is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from json import JSONDecodeError, JSONDecoder
from typing import NoReturn

from amqp_broker.protocol.json_values import JsonValue

#: What is not longer, octets, is read at once: a fraction of a millisecond.
AT_ONCE_BYTES = 16 * 1024
#: Levels whose items are read one by one: that of a request, of its definitions, of a category of them.
_LEVELS = 3
#: So many octets of text are read in a slice: some 50 microseconds.
_SLICE_BYTES = 4 * 1024

_BLANK = re.compile(r"[ \t\n\r]*")

Reading = Generator[None, None, JsonValue]


def text_of(body: bytes) -> str:
    """As `json.loads` takes it. Raises UnicodeDecodeError."""
    return body.decode(json.detect_encoding(body), "surrogatepass")


def read_gradually(body: bytes, refuse_constant: Callable[[str], NoReturn]) -> Reading:
    """Its value, in steps; each `yield` ends a slice. refuse_constant: called with NaN, Infinity or -Infinity, which
    are no JSON. Raises JSONDecodeError or UnicodeDecodeError (ValueErrors), RecursionError."""
    text = text_of(body)
    reader = _Reader(text, JSONDecoder(parse_constant=refuse_constant).raw_decode)
    value: JsonValue = yield from reader.value(_skip(text, 0), _LEVELS)
    end = _skip(text, reader.position)
    if end != len(text):
        raise JSONDecodeError("Extra data", text, end)
    return value


def _skip(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    assert found is not None
    return found.end()


class _Reader:
    """position: behind what was read last."""

    def __init__(self, text: str, decode: Callable[[str, int], tuple[JsonValue, int]]) -> None:
        self.position = 0
        self._text = text
        self._decode = decode
        self._slice_ends = _SLICE_BYTES

    def value(self, start: int, levels: int) -> Reading:
        """The value that begins at `start`; its items one by one in so many levels."""
        first = self._text[start : start + 1]
        if levels and first == "{":
            return (yield from self._object(start + 1, levels - 1))
        if levels and first == "[":
            return (yield from self._array(start + 1, levels - 1))
        found, self.position = self._decode(self._text, start)
        if self.position > self._slice_ends:
            self._slice_ends = self.position + _SLICE_BYTES
            yield None
        return found

    def _array(self, position: int, levels: int) -> Reading:
        text = self._text
        items: list[JsonValue] = []
        position = _skip(text, position)
        if text[position : position + 1] == "]":
            self.position = position + 1
            return items
        while True:
            items.append((yield from self.value(position, levels)))
            position = _skip(text, self.position)
            end = text[position : position + 1]
            if end == "]":
                self.position = position + 1
                return items
            if end != ",":
                raise JSONDecodeError("Expecting ',' delimiter", text, position)
            position = _skip(text, position + 1)

    def _object(self, position: int, levels: int) -> Reading:
        text = self._text
        fields: dict[str, JsonValue] = {}
        position = _skip(text, position)
        if text[position : position + 1] == "}":
            self.position = position + 1
            return fields
        while True:
            if text[position : position + 1] != '"':
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, position)
            key, position = self._decode(text, position)
            assert isinstance(key, str)
            position = _skip(text, position)
            if text[position : position + 1] != ":":
                raise JSONDecodeError("Expecting ':' delimiter", text, position)
            fields[key] = yield from self.value(_skip(text, position + 1), levels)
            position = _skip(text, self.position)
            end = text[position : position + 1]
            if end == "}":
                self.position = position + 1
                return fields
            if end != ",":
                raise JSONDecodeError("Expecting ',' delimiter", text, position)
            position = _skip(text, position + 1)
