"""JSON of answers: what is JSON already is put into it as it is, and what is large is put together in chunks."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue

#: A chunk is about as large, octets.
_CHUNK_BYTES = 8 * 1024
#: So many of them are put together in one slice.
_CUT = 4


class JsonText(str):
    """JSON that is written already."""


class JsonChunks:
    """A list or an object in octets, whose items are added one by one: however many there are, nobody ever copies them
    all at once."""

    def __init__(self, brackets: str) -> None:
        """brackets: of a list or of an object."""
        self._end = brackets[1]
        self._octets: list[bytes] = []
        self._texts = [brackets[0]]
        self._size = 0
        self._is_empty = True

    def add(self, item: str | JsonChunks, key: str | None = None) -> None:
        """key: in an object."""
        if not self._is_empty:
            self._texts.append(", ")
        self._is_empty = False
        if key is not None:
            self._texts.append(f"{json.dumps(key)}: ")
        if isinstance(item, JsonChunks):
            self._begin_chunk()
            self._octets += item.chunks()
            return
        self._texts.append(item)
        self._size += len(item)
        if self._size >= _CHUNK_BYTES:
            self._begin_chunk()

    def chunks(self) -> list[bytes]:
        """What was added, to be asked for once."""
        self._texts.append(self._end)
        self._begin_chunk()
        return self._octets

    def _begin_chunk(self) -> None:
        self._octets.append("".join(self._texts).encode("ascii"))
        self._texts.clear()
        self._size = 0


def chunks_of(fields: JsonObject) -> list[bytes]:
    """An object as JSON in ASCII, in chunks; what is JSON already stands last."""
    large = {key: value for key, value in fields.items() if isinstance(value, JsonChunks)}
    rest = encode({key: value for key, value in fields.items() if key not in large} if large else fields)
    octets = [rest.encode("ascii")]
    if large:
        octets[0] = octets[0][:-1]
        for number, (key, value) in enumerate(large.items()):
            comma = ", " if number or len(fields) > len(large) else ""
            octets += (f"{comma}{json.dumps(key)}: ".encode("ascii"), *value.chunks())
        octets.append(b"}")
    return octets


def cut_to(octets: list[bytes], size: int) -> Generator[None, None, list[bytes]]:
    """The same octets in chunks of this size, the last one of what is left; made in slices, and the chunks that are
    given are used up. Frames of an answer that are chunks are sent without being copied."""
    found: list[bytes] = []
    parts: list[bytes] = []
    room, done = size, 0
    octets.reverse()
    while octets:
        chunk = octets.pop()
        while len(chunk) >= room:
            found.append(b"".join([*parts, chunk[:room]]))
            parts.clear()
            chunk = chunk[room:]
            room = size
        if chunk:
            parts.append(chunk)
            room -= len(chunk)
        done += 1
        if done % _CUT == 0:
            yield None
    if parts:
        found.append(b"".join(parts))
    return found


def encode(fields: JsonObject) -> JsonText:
    """An object as JSON in ASCII; what is JSON already stands last."""
    written = {key: value for key, value in fields.items() if isinstance(value, JsonText)}
    if not written:
        return JsonText(json.dumps(fields))
    rest = {key: value for key, value in fields.items() if key not in written}
    begin = json.dumps(rest)[:-1] + ", " if rest else "{"
    return JsonText(begin + ", ".join([f"{json.dumps(key)}: {text}" for key, text in written.items()]) + "}")


def encode_value(value: JsonValue) -> JsonText:
    """Anything as JSON in ASCII."""
    return value if isinstance(value, JsonText) else JsonText(json.dumps(value))


def list_of(parts: Iterable[str]) -> JsonText:
    """A list whose items are JSON."""
    return JsonText("[" + ", ".join(parts) + "]")
