"""Paths of the API: names in them are percent-encoded, and a slash within a name is `%2F`, so they are split before
they are decoded. Octets that are not UTF-8 become surrogates, as everywhere with AMQP's names."""

from __future__ import annotations

from urllib.parse import quote, unquote


def split_path(raw: str) -> tuple[str, ...]:
    """The decoded segments of a path. A slash at the end adds none."""
    return tuple(decode(part) for part in raw.strip("/").split("/")) if raw.strip("/") else ()


def decode(part: str) -> str:
    return unquote(part, errors="surrogateescape")


def encode(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="", errors="surrogateescape")
