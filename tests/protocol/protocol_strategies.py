"""Hypothesis strategies for what AMQP can carry, and what the grammar says of it in this package's values."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from amqp_broker.protocol import grammar

SHORT_STRINGS = st.binary(max_size=255).map(
    lambda octets: octets.decode("utf-8", "surrogateescape")
) | st.text(max_size=60)
INTEGER_BITS = {
    "b": (-7, 7),
    "B": (0, 8),
    "s": (-15, 15),
    "u": (0, 16),
    "I": (-31, 31),
    "i": (0, 32),
    "l": (-63, 63),
    "L": (-63, 63),
}


def _integers(kind: str) -> st.SearchStrategy[int]:
    low, high = INTEGER_BITS[kind]
    return st.integers(-(1 << -low) if low else 0, (1 << high) - 1)


def _long_strings() -> st.SearchStrategy[bytes]:
    return st.binary(max_size=300) | st.text(max_size=40).map(lambda text: text.encode())


def _leaf(kind: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda value: {"kind": kind.encode(), "value": value}, values)


LEAVES = st.one_of(
    *(_leaf(kind, _integers(kind)) for kind in INTEGER_BITS),
    _leaf("t", st.booleans()),
    _leaf("f", st.floats(width=32, allow_nan=False)),
    _leaf("d", st.floats(allow_nan=False)),
    _leaf("D", st.fixed_dictionaries({"scale": st.integers(0, 255), "unscaled": _integers("I")})),
    _leaf("S", _long_strings()),
    _leaf("x", st.binary(max_size=50)),
    _leaf("T", st.integers(0, 1 << 35) | st.integers(0, (1 << 64) - 1)),
    _leaf("V", st.none()),
)


def _containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _leaf("A", st.lists(values, max_size=4)) | _leaf("F", _entries(values))


def _entries(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.fixed_dictionaries({"key": SHORT_STRINGS, "field": values}), max_size=5)


TABLES = _entries(st.recursive(LEAVES, _containers, max_leaves=8))
"""Field tables as the grammar has them: a list of key and (kind, value)."""

DOMAINS: dict[str, st.SearchStrategy[Any]] = {
    "Octet": st.integers(0, 255),
    "Short": st.integers(0, 65535),
    "Long": st.integers(0, (1 << 32) - 1),
    "LongLong": st.integers(0, (1 << 64) - 1),
    "ShortString": SHORT_STRINGS.filter(lambda text: len(text.encode("utf-8", "surrogateescape")) <= 255),
    "LongString": st.binary(max_size=300),
    "FieldTable": TABLES,
}


def arguments_of(method: grammar.MethodGrammar) -> st.SearchStrategy[dict[str, Any]]:
    """Values for every argument of a method, as the grammar has them."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for argument in method.arguments:
        if isinstance(argument.subcon, grammar.Bits):
            values |= {name: st.booleans() for name in argument.subcon.names}
        else:
            values[argument.name] = DOMAINS[argument.docs]
    return st.fixed_dictionaries(values)


def plain_table(entries: Any) -> dict[str, object]:
    """What fields.py should make of a table that the grammar has parsed."""
    return {entry["key"]: plain_value(entry["field"]) for entry in entries}


def plain_value(field: Any) -> object:
    """What fields.py should make of a value that the grammar has parsed."""
    kind, value = field["kind"], field["value"]
    if kind == b"F":
        return plain_table(value)
    if kind == b"A":
        return [plain_value(item) for item in value]
    if kind == b"S":
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return bytes(value)
    if kind == b"D":
        return Decimal(value["unscaled"]) * Decimal((0, (1,), -value["scale"]))
    if kind == b"T" and value < 253402300800:
        return datetime(1970, 1, 1) + timedelta(seconds=value)
    return value


def same(left: object, right: object) -> bool:
    """Equality that tells 1 from True and 1.0, and that finds NaN equal to itself."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or repr(left) == repr(right))
