"""Fields: what a request of lease.* or txn.* says, checked field by field: the one place where its form is known.

A request is a JSON object; that of txn.stage is the message's headers, because its body is a blob. What does not fit
raises LeaseError with the code `invalid` and names the field.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from amqp_broker.leases.blob import ALL_COLUMNS, COLUMNS
from amqp_broker.leases.errors import INVALID, LeaseError

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

#: The largest body of a request that is JSON, octets.
MAX_JSON_BYTES = 4 * 1024 * 1024
#: Offsets, epochs and the like are below it.
MAX_NUMBER = (1 << 63) - 1
#: Names are short strings on the wire.
_MAX_NAME_BYTES = 255
_PARTITION_DIGITS = 18
#: A transaction moves so many positions at most.
MOST_POSITIONS = 10_000


class Fields:
    """The fields of one request of `verb`."""

    def __init__(self, verb: str, found: JsonObject) -> None:
        self.verb = verb
        self._found = found

    @classmethod
    def of_json(cls, verb: str, body: bytes) -> Fields:
        """Of a body. Raises LeaseError."""
        if len(body) > MAX_JSON_BYTES:
            raise LeaseError(INVALID, f"{verb}: a body of {len(body)} octets; at most {MAX_JSON_BYTES} are read")
        try:
            found = json.loads(body) if body else {}
        except (ValueError, RecursionError) as error:
            raise LeaseError(INVALID, f"{verb}: the body has to be a JSON object: {error}") from None
        if not isinstance(found, dict):
            raise LeaseError(INVALID, f"{verb}: the body has to be a JSON object, not {_shown(found)}")
        return cls(verb, found)

    def fail(self, name: str, expected: str) -> LeaseError:
        """The error, to be raised."""
        got = _shown(self._found[name]) if name in self._found else "nothing"
        return LeaseError(INVALID, f"{self.verb}: field '{name}' has to be {expected}, got {got}")

    def has(self, name: str) -> bool:
        """Whether a field is given, and not null."""
        return self._found.get(name) is not None

    def text(self, name: str) -> str:
        """A name: 1 to 255 octets of UTF-8."""
        value = self._found.get(name)
        if isinstance(value, str) and _is_name(value):
            return value
        raise self.fail(name, f"text of 1 to {_MAX_NAME_BYTES} octets")

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer from low to high; `default` where it is not given."""
        value = self._found.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise self.fail(name, f"an integer from {low} to {high}")

    def limit(self, name: str, high: int, default: int) -> int:
        """An integer above 0; what is above `high` counts as that."""
        return min(self.number(name, 1, MAX_NUMBER, default), high)

    def columns(self) -> int:
        """The bits of the columns that are asked for; all, where nothing is said."""
        names = self._found.get("columns")
        if names is None:
            return ALL_COLUMNS
        if not isinstance(names, list) or not all(isinstance(name, str) and name in COLUMNS for name in names):
            raise self.fail("columns", f"a list out of {', '.join(COLUMNS)}")
        bits = 0
        for name in names:
            bits |= COLUMNS[name]
        return bits

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        value = self._found.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fail(name, "a list of strings")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false; `default` where it is not given."""
        value = self._found.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(name, "true or false")
        return value

    def positions(self, name: str) -> list[tuple[str, str, int, int]]:
        """Offsets by stream, group and partition: (stream, group, partition, offset), in order; none where it is not
        given."""
        expected = "an object of objects of objects of integers: by stream, by group, and by partition"
        found = self._found.get(name)
        if found is None:
            return []
        if not isinstance(found, dict):
            raise self.fail(name, expected)
        positions: list[tuple[str, str, int, int]] = []
        for stream, groups in sorted(found.items()):
            if not isinstance(groups, dict):
                raise self.fail(name, expected)
            for group, offsets in sorted(groups.items()):
                if not _is_name(group):
                    raise self.fail(name, f"names of groups of 1 to {_MAX_NAME_BYTES} octets")
                numbers = self._numbers(name, offsets, expected)
                positions += [(stream, group, partition, offset) for partition, offset in numbers.items()]
                if len(positions) > MOST_POSITIONS:
                    raise self.fail(name, f"at most {MOST_POSITIONS} of them; the rest in a transaction of its own")
        return positions

    def by_partition(self, name: str) -> dict[int, int]:
        """Numbers by partition, in order of the partitions."""
        expected = "an object of integers by partition, all of them from 0"
        return self._numbers(name, self._found.get(name), expected)

    def _numbers(self, name: str, found: object, expected: str) -> dict[int, int]:
        if not isinstance(found, dict):
            raise self.fail(name, expected)
        numbers = {}
        for key, value in found.items():
            is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
            if not is_number or not key.isascii() or not key.isdigit() or len(key) > _PARTITION_DIGITS:
                raise self.fail(name, expected)
            numbers[int(key)] = value
        return dict(sorted(numbers.items()))


def _is_name(text: str) -> bool:
    """Whether it can be written as octets, and is no longer than a name may be."""
    try:
        return 0 < len(text.encode("utf-8", "surrogateescape")) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:  # half of a pair, as "\ud800" in JSON
        return False


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= MAX_NUMBER else "an integer that is too large"
    return text if len(text) <= 60 else text[:57] + "..."
