"""Arrows between the rooms of the house go down: no circle between folders, and none between files of different ones.

A room is a package at the top, a folder of amqp_broker, or a module that lies loose in it. Imports under TYPE_CHECKING
count, and so do cimports: who knows somebody's type knows them. Think hard about the order before changing it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.house.sources import tree_of
from tests.house.test_imports import ROOT, imports_of, is_module, modules

#: From the bottom to the top: each may know those before it.
ROOMS = (
    "octets", "exchanges", "storage", "raft", "queues",
    "protocol", "settings", "errors", "version", "turn", "messages", "metadata", "auth", "audit", "links", "cluster",
    "queue_types", "routing", "flow", "resources", "vhosts", "channel", "connection", "leases", "rehoming",
    "management", "node",
    "server", "client", "moving", "system_client", "web", "plain", "testing", "pytest_plugin", "__init__",
    "bench", "spark_connector",
    "pyspark_amqp", "cli", "__main__",
)  # fmt: skip
_RANK = {name: number for number, name in enumerate(ROOMS)}
_CIMPORT = re.compile(r"^\s*(?:from ([\w.]+) cimport|cimport ([\w.]+))", re.MULTILINE)


Edge = tuple[str, str]


def room_of(module: str) -> str:
    """Where a module lies."""
    parts = module.split(".")
    return parts[1] if parts[0] == "amqp_broker" else parts[0]


def _short(module: str) -> str:
    return module.removeprefix("amqp_broker.")


def _says_something(path: Path) -> bool:
    return any(not isinstance(each, ast.Expr) for each in tree_of(path).body)


def _file_of(name: str) -> str | None:
    """The module that a name of an import is, None where it is not ours; an empty package is none."""
    if not is_module(name):
        return None
    package = ROOT.joinpath(*name.split("."), "__init__.py")
    if package.exists():
        return f"{name}.__init__" if _says_something(package) else None
    return name


@cache
def edges() -> frozenset[Edge]:
    """Which module knows which."""
    found: set[Edge] = set()
    for module, path in modules():
        names = [name for _, name in imports_of(path, module)]
        pxd = path.with_suffix(".pxd")
        if pxd.exists():
            names += [one or other for one, other in _CIMPORT.findall(pxd.read_text(encoding="utf-8"))]
        found.update((module, target) for name in names if (target := _file_of(name)) is not None and target != module)
    return frozenset(found)


def turning_back() -> set[str]:
    """The arrows that go up."""
    return {
        f"{_short(one)} -> {_short(other)}"
        for one, other in edges()
        if _RANK[room_of(other)] > _RANK[room_of(one)]
    }


def circle_of(arrows: Iterable[Edge]) -> list[str]:
    """A circle among these, its first member once more at its end; empty where there is none."""
    graph: dict[str, list[str]] = {}
    for one, other in sorted(arrows):
        graph.setdefault(one, []).append(other)
    is_done: set[str] = set()
    for start in graph:
        way: list[str] = []
        standing = [iter([start])]
        while standing:
            step = next((each for each in standing[-1] if each not in is_done), None)
            if step is None:
                standing.pop()
                if way:
                    is_done.add(way.pop())
            elif step in way:
                return [*way[way.index(step) :], step]
            else:
                way.append(step)
                standing.append(iter(graph.get(step, ())))
    return []


def test_every_room_has_its_place() -> None:
    missing = {room_of(module) for module, _ in modules()} - set(ROOMS)
    assert not missing, f"{sorted(missing)}: say in ROOMS between which others it stands"


def test_no_arrow_turns_back() -> None:
    found = sorted(turning_back())
    assert not found, "arrows that go up:\n" + "\n".join(found)


def test_no_circle_between_rooms() -> None:
    rooms = {(room_of(one), room_of(other)) for one, other in edges() if room_of(one) != room_of(other)}
    assert not circle_of(rooms), " -> ".join(circle_of(rooms))


def test_the_check_finds_a_circle() -> None:
    assert circle_of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]) == ["b", "c", "d", "b"]
    assert not circle_of([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
