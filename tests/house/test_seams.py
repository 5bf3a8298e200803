"""The seams of the house: who sets whose attributes, who reaches into whom, and what has no type.

An attribute is set by the object that has it, or by one of the same room: state that is a record to its neighbours, as
a connection is to what handles its frames. Who stands in another room calls a method, which says what it means.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.test_circles import room_of
from tests.house.test_imports import modules

#: A name of the type Any; what stands in quotes is another one's.
_ANY = re.compile(r"(?<![\w\"'.])Any(?![\w\"'])")
#: So many places in amqp_broker have a value of whatever type, each with a comment that says why. May only fall.
MOST_ANY = 39
#: Attributes that an object of another room sets, by room and name. May only shrink.
SET_FROM_OUTSIDE: frozenset[str] = frozenset(
    {
        # What is no object of ours, and what the page of the client has programs set.
        "web: default",
        "web: timeout",
    }
)
#: How often somebody reaches through the node into one of its parts (node.x.y). May only fall.
MOST_THROUGH_NODE = 6
#: How often an object reaches into the parts of its parts (self.a.b.c). May only fall.
MOST_DEEP = 120
#: How many fields begin as None, against their type. May only fall.
MOST_LATE = 5


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_source(path))


def any_in(text: str) -> Iterator[tuple[int, bool]]:
    """The lines with an Any in an annotation or an alias, and whether they say why."""
    for number, line in enumerate(text.splitlines(), 1):
        code, mark, comment = line.partition("#")
        if "import" not in code and _ANY.search(code):
            yield number, bool(mark and comment.strip())


def _own() -> list[tuple[str, Path]]:
    return [(module, path) for module, path in modules() if module.startswith("amqp_broker")]


def test_what_is_of_any_type_says_why() -> None:
    found = [(module, number, says) for module, path in _own() for number, says in any_in(_source(path))]
    silent = [f"{module}:{number}" for module, number, says in found if not says]
    assert not silent, f"name the type, or say on the line why there is none: {silent}"
    assert len(found) <= MOST_ANY, f"{len(found)} places have a value of any type; there were {MOST_ANY}"


class _Class(NamedTuple):
    """A class of a room: whose attributes it has besides its own, by their names, and its own."""

    room: str
    bases: tuple[str, ...]
    attributes: frozenset[str]


def _attributes(of: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(of):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
            yield each.attr
    for line in of.body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def _classes() -> dict[str, list[_Class]]:
    found: dict[str, list[_Class]] = defaultdict(list)
    for module, path in modules():
        for each in ast.walk(_tree(path)):
            if isinstance(each, ast.ClassDef):
                bases = tuple(ast.unparse(base).rpartition(".")[2] for base in each.bases)
                found[each.name].append(_Class(room_of(module), bases, frozenset(_attributes(each))))
    return found


def _with_bases(name: str) -> set[str]:
    found: set[str] = set()
    for each in _classes().get(name, ()):
        found.update(each.attributes, *[_with_bases(base) for base in each.bases if base != name])
    return found


@cache
def _attributes_by_room() -> dict[str, set[str]]:
    """What the objects of a room have; an object has what its class has from those of other rooms."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, classes in _classes().items():
        for each in classes:
            found[each.room].update(_with_bases(name))
    return found


def set_from_outside(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """The attributes that are set of something else than `self`: line, of what, which."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            owner = ast.unparse(each.value)
            if owner not in ("self", "cls"):
                yield each.lineno, owner, each.attr


def test_no_attribute_is_set_from_another_room() -> None:
    known = {name for names in _attributes_by_room().values() for name in names}
    found: dict[str, str] = {}
    for module, path in _own():
        room = room_of(module)
        for line, owner, name in set_from_outside(_tree(path)):
            if name in known and name not in _attributes_by_room()[room]:
                found[f"{room}: {name}"] = f"{module}:{line} sets {owner}.{name}"
    new = sorted(text for key, text in found.items() if key not in SET_FROM_OUTSIDE)
    assert not new, "call a method of its own that says what it means:\n" + "\n".join(new)
    assert not SET_FROM_OUTSIDE - set(found), f"nobody does any more: {sorted(SET_FROM_OUTSIDE - set(found))}"


def chains(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The names that are joined by dots, each chain once."""
    inner = {each.value for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and each not in inner:
            names: list[str] = []
            part: ast.expr = each
            while isinstance(part, ast.Attribute):
                names.append(part.attr)
                part = part.value
            if isinstance(part, ast.Name):
                yield each.lineno, [part.id, *reversed(names)]


def _reaches(tree: ast.AST) -> tuple[int, int]:
    """How many chains lead through a node into its parts, and how many from an object into the parts of its parts."""
    through = deep = 0
    for _, names in chains(tree):
        node = next((number for number, name in enumerate(names) if name in ("node", "_node")), len(names))
        through += len(names) - node > 2
        deep += names[0] == "self" and len(names) > 3
    return through, deep


def test_fewer_and_fewer_reach_into_the_parts_of_others() -> None:
    counted = [_reaches(_tree(path)) for _, path in _own()]
    assert sum(through for through, _ in counted) <= MOST_THROUGH_NODE, "take the part itself as an argument"
    assert sum(deep for _, deep in counted) <= MOST_DEEP, "take the part itself as an argument, or ask its owner"


def test_what_an_object_needs_is_there_when_it_is_made() -> None:
    late = re.compile(r"= None  # type: ignore")
    found = [
        f"{module}:{number}"
        for module, path in _own()
        for number, line in enumerate(_source(path).splitlines(), 1)
        if late.search(line)
    ]
    assert len(found) <= MOST_LATE, f"{len(found)} fields begin as None, against their type: {found}"


def test_the_checks_find_what_they_are_for() -> None:
    tree = ast.parse("self.a.b.c = 1\nself.d = 2\nnode.e.f()\nother.g = self.h\n")
    assert _reaches(tree) == (1, 1)
    assert [(owner, name) for _, owner, name in set_from_outside(tree)] == [("self.a.b", "c"), ("other", "g")]
    assert list(any_in("a: Any = 1\nb: Any = 2  # why\nc: Many\nfrom typing import Any\n")) == [(1, False), (2, True)]
