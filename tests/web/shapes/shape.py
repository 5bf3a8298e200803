"""Shapes of JSON: which keys there are, and values of which types, without the values themselves.

A shape is a text (`string`, `integer`, `number`, `boolean`, `null`, several with `|` between), an object of shapes, or
a list of one shape, that of all its items together. What is in `MAPS` has keys that somebody chose: only that it is an
object is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Fields whose keys are names of somebody's own.
MAPS = frozenset({
    "arguments", "client_properties", "cluster_state", "cluster_tags", "definition", "effective_policy_definition",
    "limits", "node_tags", "value", "headers",
})  # fmt: skip
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}

Shape = Any  # a text, a dict of shapes or a list of at most one


def shape_of(value: Any, name: str = "") -> Shape:
    """The shape of a value, which is that of the field `name`."""
    if isinstance(value, dict):
        return "object" if name in MAPS else {key: shape_of(each, key) for key, each in sorted(value.items())}
    if isinstance(value, list):
        merged: list[Shape] = []
        for each in value:
            merged = [merge(merged[0], shape_of(each)) if merged else shape_of(each)]
        return merged
    return _TYPES[type(value)]


def merge(one: Shape, other: Shape) -> Shape:
    """What both are."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: merge(one[key], other[key]) for key in one.keys() & other.keys()}
        return dict(sorted({**one, **other, **both}.items()))
    if isinstance(one, list) and isinstance(other, list):
        return [merge(one[0], other[0])] if one and other else one or other
    if isinstance(one, str) and isinstance(other, str):
        return "|".join(sorted({*one.split("|"), *other.split("|")}))
    if one in ([], "null"):
        return other
    return one


def differences(theirs: Shape, ours: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    """Where ours has not what theirs has: a dotted path, and in which way."""
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            yield path, f"is {_name(ours)}, not an object"
            return
        for key, each in theirs.items():
            inner = f"{path}.{key}" if path else key
            if key in ours:
                yield from differences(each, ours[key], inner)
            else:
                yield inner, "is missing"
    elif isinstance(theirs, list):
        if not isinstance(ours, list):
            yield path, f"is {_name(ours)}, not a list"
        elif theirs and ours:
            yield from differences(theirs[0], ours[0], f"{path}[]")
        elif theirs:
            yield f"{path}[]", "has no item"
    elif not _fits(theirs, ours):
        yield path, f"is {_name(ours)}, not {theirs}"


def _fits(theirs: str, ours: Shape) -> bool:
    """A whole number may stand where a number may, and what may be nothing may be left out as null."""
    if not isinstance(ours, str):
        return theirs == "null" or (theirs == "object" and isinstance(ours, dict))
    wanted = {"integer" if each == "number" else each for each in theirs.split("|")} - {"null"}
    given = {"integer" if each == "number" else each for each in ours.split("|")} - {"null"}
    return not wanted or not given or given <= wanted


def _name(shape: Shape) -> str:
    return "an object" if isinstance(shape, dict) else "a list" if isinstance(shape, list) else shape
