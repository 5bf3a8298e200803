"""Answer: what an endpoint gives back, and its octets."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
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


def created(was_there: bool, headers: Mapping[str, str] | None = None) -> Answer:
    """The answer to PUT."""
    return Answer(204 if was_there else 201, headers=dict(headers or {}))


def no_content() -> Answer:
    return Answer(204)


def takes_gzip(headers: Mapping[str, str]) -> bool:
    """Whether a body may be packed: a coding of quality 0 is refused (RFC 9110 §12.5.3)."""
    for part in headers.get("accept-encoding", "").lower().split(","):
        coding, *parameters = [each.replace(" ", "") for each in part.split(";")]
        if coding == "gzip":
            return not any(re.fullmatch(r"q=0(\.0*)?", each) for each in parameters)
    return False


def encode_json(value: JsonValue) -> bytes:
    """Names of AMQP need not be UTF-8: their stray octets are lone surrogates, which the standard library escapes."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
