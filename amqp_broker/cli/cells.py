"""Cells: a value of a list as text: for people, with units; for programs, as it is.

Names are octets of anybody's choice: what a terminal would take for more than text is escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonValue

#: What stands where there is nothing.
NOTHING = "-"
_KIB = 1024
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SIZES = ("_oct", "_bytes", "_bytes_ready", "memory_used", "memory_budget", "mem_used", "mem_limit", "disk_free_limit")
_AGES = ("_age_ms",)
#: Moments, which are shown by how long ago they were.
_MOMENTS = ("at", "connected_at", "idle_since", "started_at")
_UNITS_OF_SIZE = ("B", "KiB", "MiB", "GiB", "TiB")
_UNITS_OF_TIME = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def shown(text: str) -> str:
    """A text on one line of a terminal: what cannot be printed, and octets that are no UTF-8, as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # surrogateescape: an octet that is no UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def for_programs(value: JsonValue) -> str:
    """Text as it is, the rest as JSON."""
    if value is None or value == "":
        return NOTHING
    return shown(value if isinstance(value, str) else _as_json(value))


def for_people(column: str, value: JsonValue, now: int) -> str:
    """With units; now: when it was so, milliseconds since the epoch."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if column.endswith(_SIZES):
            return size(value)
        if column.endswith(_AGES):
            return duration(value)
        return duration(now - value) if column in _MOMENTS else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{shown(key)}={for_programs(each)}" for key, each in value.items()) or NOTHING
    if isinstance(value, list):
        return ", ".join(map(for_programs, value)) or NOTHING
    return for_programs(value)


def size(octets: float) -> str:
    """In units of 1,024."""
    power = 0
    while octets >= _KIB and power < len(_UNITS_OF_SIZE) - 1:
        octets /= _KIB
        power += 1
    return f"{octets:.1f} {_UNITS_OF_SIZE[power]}" if power else f"{octets:.0f} B"


def duration(milliseconds: float) -> str:
    """In the two largest units."""
    left, parts = max(0, int(milliseconds)), list[str]()
    for unit, length in _UNITS_OF_TIME:
        if left >= length or parts:
            parts.append(f"{left // length}{unit}")
            left %= length
    return "".join(parts[:2]) if parts else f"{left}ms"
