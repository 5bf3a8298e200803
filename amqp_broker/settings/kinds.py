"""The kinds of value a setting can have: how each is read from text, shown as text, and described to its
user.

A kind knows nothing of any particular setting, nor where a text came from (flag, environment variable, TOML
file). `amqp_broker.settings.config` says which setting is of which kind.

Invariants:
1. `kind.parse(kind.show(value)) == value` for every value that `parse` can return.
2. Sizes are whole octets, durations whole milliseconds.
3. `parse` raises ValueError only; `allowed` completes the sentence "allowed: ...".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KIB = 1 << 10
MIB = 1 << 20
SECOND = 1000

SIZE_UNITS = {
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
DURATION_UNITS_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

#: As many processes as there are processors for them.
AUTO = 0
MOST_WORKERS = 256
#: A node's name is written on command lines, in lists, logs and certificates.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
#: Between the name of a node and the number of one of its workers.
WORKER_MARK = "/"
NODE_NAME_RULE = "1 to 128 letters, digits and ._@- that begin with a letter or digit"

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class Address(NamedTuple):
    """A host (name, IPv4 or IPv6 without brackets) and a TCP port; port 0 asks for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class MemberAddress(NamedTuple):
    """A node of a cluster, and where the others reach it."""

    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}={self.address}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    `unit` is that of the parsed number; `suffix` is what an attribute's name adds to its key.
    """

    name: str
    metavar: str
    allowed: str
    parse: Callable[[str], object]
    show: Callable[[object], str]
    unit: str = ""
    suffix: str = ""
    is_list: bool = False


def _scaled(text: str, units: dict[str, int], bare_unit: int | None) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a number with a unit")
    number, unit = match.groups()
    scale = units.get(unit.lower()) if unit else bare_unit
    if scale is None and number.strip("0.") == "":
        scale = 1  # nothing is nothing in every unit
    if scale is None:
        raise ValueError("unknown or missing unit")
    whole, _, fraction = number.partition(".")
    scaled = int(whole + fraction) * scale
    value, rest = divmod(scaled, int("1" + "0" * len(fraction)))
    if rest:
        raise ValueError("not a whole number of the smallest unit")
    return value


def parse_size(text: str) -> int:
    """Octets from "256MiB", "64 kB" or "131072". Raises ValueError."""
    return _scaled(text, SIZE_UNITS, bare_unit=1)


def show_size(value: object) -> str:
    octets = _number(value)
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if octets and octets % SIZE_UNITS[unit.lower()] == 0:
            return f"{octets // SIZE_UNITS[unit.lower()]}{unit}"
    return f"{octets}B"


def parse_duration(text: str) -> int:
    """Milliseconds from "500ms", "30s", "1.5min".

    A bare number is refused: nobody could tell its unit. Raises ValueError.
    """
    return _scaled(text, DURATION_UNITS_MS, bare_unit=None)


def show_duration(value: object) -> str:
    duration_ms = _number(value)
    for unit in ("d", "h", "min", "s"):
        if duration_ms and duration_ms % DURATION_UNITS_MS[unit] == 0:
            return f"{duration_ms // DURATION_UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def parse_address(text: str) -> Address:
    """Address from "HOST:PORT" or "[IPV6]:PORT". Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address goes into brackets")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("not HOST:PORT")
    return Address(host, int(port))


def parse_member(text: str) -> MemberAddress:
    """A member from "NAME=HOST:PORT". Raises ValueError."""
    name, equals, address = text.partition("=")
    if not equals or NODE_NAME.fullmatch(name.strip()) is None:
        raise ValueError("not NAME=HOST:PORT")
    return MemberAddress(name.strip(), parse_address(address))


def parse_members(text: str) -> tuple[MemberAddress, ...]:
    """Members from "n1=HOST:PORT,n2=HOST:PORT", in the order of their names. Raises ValueError."""
    return tuple(sorted(map(parse_member, split_list(text))))


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _parse_count(text: str) -> int:
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ValueError("not a whole number")
    return int(digits)


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("neither true nor false")


def _show_boolean(value: object) -> str:
    return "true" if value else "false"


def _parse_processes(text: str) -> int:
    if text.strip().lower() == "auto":
        return AUTO
    if not 0 < (count := _parse_count(text)) <= MOST_WORKERS:
        raise ValueError("too few or too many")
    return count


def _show_processes(value: object) -> str:
    return "auto" if value == AUTO else str(value)


def _parse_text(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("empty")
    return text


def _parse_path(text: str) -> Path | None:
    if "\0" in text:
        raise ValueError("not a path")
    return Path(text).expanduser() if text else None


def _parse_folder(text: str) -> Path:
    path = _parse_path(text)
    if path is None:
        raise ValueError("empty")
    return path


def _parse_rack(text: str) -> str:
    name = text.strip()
    if name and NODE_NAME.fullmatch(name) is None:
        raise ValueError("not a name")
    return name


def _show_path(value: object) -> str:
    return "" if value is None else str(value)


def split_list(text: str) -> list[str]:
    """The parts of a comma separated text; an empty text has none."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_addresses(text: str) -> tuple[Address, ...]:
    if text.strip().lower() == "off":
        return ()
    return tuple(parse_address(part) for part in split_list(text))


def _parse_counts(text: str) -> tuple[int, ...]:
    return tuple(_parse_count(part) for part in split_list(text))


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(split_list(text))


def _show_list(value: object) -> str:
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is not a tuple")
    return ",".join(str(part) for part in value)


SIZE = Kind("size", "SIZE", "a size such as 65536, 64KiB, 256MiB or 2GB", parse_size, show_size, "bytes", "_bytes")
FRAME_SIZE = Kind("size", "SIZE", "a size such as 131072 or 128KiB", parse_size, show_size, "bytes")
DURATION = Kind(
    "duration",
    "TIME",
    "a number with its unit ms, s, min, h or d, such as 500ms or 30s",
    parse_duration,
    show_duration,
    "ms",
    "_ms",
)
COUNT = Kind("count", "N", "a whole number", _parse_count, str)
PROCESSES = Kind("count", "N", f"a whole number from 1 to {MOST_WORKERS}, or auto", _parse_processes, _show_processes)
BOOLEAN = Kind("boolean", "BOOL", "true or false", _parse_boolean, _show_boolean)
TEXT = Kind("text", "TEXT", "a text that is not empty", _parse_text, str)
SECRET = Kind("secret", "TEXT", "a text that is not empty", _parse_text, str)
#: Rules are those of names of nodes, so that it can stand in tables and on command lines as they can.
RACK = Kind("rack", "NAME", f"{NODE_NAME_RULE}, or nothing", _parse_rack, str)
FOLDER = Kind("folder", "DIR", "the path of a folder", _parse_folder, _show_path)
FILE = Kind("file", "FILE", "the path of a file, or nothing", _parse_path, _show_path)
ADDRESSES = Kind(
    "addresses",
    "HOST:PORT",
    "HOST:PORT, with an IPv6 host in brackets, several with commas, or off",
    _parse_addresses,
    _show_list,
    is_list=True,
)
NAMES = Kind("names", "NAME", "names with commas, or nothing", _parse_names, _show_list, is_list=True)
COUNTS = Kind("counts", "N", "whole numbers with commas, or nothing", _parse_counts, _show_list, is_list=True)
MEMBERS = Kind(
    "members",
    "NAME=HOST:PORT",
    "NAME=HOST:PORT, with an IPv6 host in brackets, several with commas",
    parse_members,
    _show_list,
    is_list=True,
)
