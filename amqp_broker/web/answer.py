"""Answer: what an endpoint gives back, and its octets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from amqp_broker.protocol.json_values import JsonValue

JSON: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder()


@dataclass(slots=True)
class Answer:
    """`value` becomes JSON; without one there is no body. `raw` is a body that is text already, of the type `media`;
    `stream` one that comes piece by piece."""

    status: int = 200
    value: JsonValue = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    media: str = JSON
    stream: AsyncIterator[bytes] | None = None

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return b"" if self.status in (201, 204) and self.value is None else encode_json(self.value)


def created(was_there: bool) -> Answer:
    """The answer to PUT."""
    return Answer(204 if was_there else 201)


def no_content() -> Answer:
    return Answer(204)


def encode_json(value: JsonValue) -> bytes:
    """Names of AMQP need not be UTF-8: their stray octets are lone surrogates, which the standard library escapes."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
