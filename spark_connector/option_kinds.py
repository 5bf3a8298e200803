"""How the text of an option becomes a value: numbers, sizes, durations, choices, lists of names.

Every kind is a function from text to value that raises ValueError with what it wants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime

#: The ends of a queue.
EARLIEST, LATEST = "earliest", "latest"

_SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def text(value: str) -> str:
    if not value:
        raise ValueError("give a text that is not empty")
    return value


def any_text(value: str) -> str:
    return value


def boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return value.lower() == "true"


def number(least: int, most: int = 1 << 62) -> Callable[[str], int]:
    """A whole number in a range."""

    def parse(value: str) -> int:
        wanted = f"give a whole number from {least} to {most}" if most < 1 << 62 else f"give a whole number >= {least}"
        try:
            parsed = int(value)
        except ValueError:
            raise ValueError(wanted) from None
        if not least <= parsed <= most:
            raise ValueError(wanted)
        return parsed

    return parse


def offset(value: str) -> int | str:
    """An end of a queue, or an offset in it."""
    if value.lower() in (EARLIEST, LATEST):
        return value.lower()
    try:
        return number(0)(value)
    except ValueError:
        raise ValueError(f"give {EARLIEST}, {LATEST} or an offset, a whole number") from None


def offsets(value: str) -> int | str | dict[str, int | str]:
    """An end of a queue, an offset in it, or a JSON object of these by queue."""
    if not value.lstrip().startswith("{"):
        return offset(value)
    try:
        parsed = json.loads(value)
        return {name: offset(str(each)) for name, each in parsed.items()}
    except ValueError:
        raise ValueError(
            f'give {EARLIEST}, {LATEST}, an offset, or a JSON object of these such as {{"orders": 5}}'
        ) from None


def timestamp(value: str) -> int:
    """A moment, milliseconds since the epoch: written so, or as ISO 8601 with its zone."""
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("give a time with its zone, such as 2026-01-31T12:00:00Z, or milliseconds since the epoch")
    return int(moment.timestamp() * 1000)


def octets(value: str) -> int:
    """A size such as 256m, 64kb or 1000 (bytes)."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower().removesuffix("ib"))
    if found is None or found[2] not in _SIZES or not int(found[1]):
        raise ValueError("give a size such as 64k, 256m or 1g")
    return int(found[1]) * _SIZES[found[2]]


def seconds(value: str) -> float:
    """A duration such as 500ms, 2s or 15m; a bare number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    if found is None or found[2] not in _TIMES:
        raise ValueError("give a duration such as 500ms, 10s, 15m or 2h")
    return float(found[1]) * _TIMES[found[2]]


def choice(*words: str) -> Callable[[str], str]:
    """One of a few words, in any case."""

    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(f"give one of {', '.join(words)}")
        return value.lower()

    return parse


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas, or a JSON list of them for names with a comma in them."""
    if value.lstrip().startswith("["):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        if not isinstance(parsed, list) or not all(isinstance(each, str) and each for each in parsed):
            raise ValueError('give names separated by commas, or a JSON list such as ["a", "b"]')
    else:
        parsed = [each.strip() for each in value.split(",") if each.strip()]
    if not parsed:
        raise ValueError("give at least one name")
    if len(set(parsed)) != len(parsed):
        raise ValueError("give every name once")
    return tuple(parsed)
