"""Paths of the API: names in them are percent-encoded, and a slash within a name is `%2F`, so they are split before
they are decoded. Octets that are not UTF-8 become surrogates, as everywhere with AMQP's names."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})..?", re.DOTALL)


def split_path(raw: str) -> tuple[str, ...]:
    """The decoded segments of a path. A slash at the end adds none."""
    return tuple(decode(part) for part in raw.strip("/").split("/")) if raw.strip("/") else ()


def broken_escape(raw: str) -> str | None:
    """Where a path that is not decoded has a percent sign that begins no octet: what stands there."""
    found = _BROKEN.search(raw + " ")
    return None if found is None else found[0].strip()


def decode(part: str) -> str:
    return unquote(part, errors="surrogateescape")


def encode(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="", errors="surrogateescape")
