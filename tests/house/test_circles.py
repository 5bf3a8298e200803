"""No circle of files leads through two folders, and no circle of folders is there at all.

Between rooms arrows go down: that is the table's to hold (rooms.py, test_imports.py). A room may have folders of its
own, as queue_types has one a type, and files beside them: here too arrows go one way, between a folder and its
neighbours and between a folder and those in it. A module that lies loose in amqp_broker is a room, and no folder's.
Files of one folder may know each other in a circle, where a pair belongs together. Imports under TYPE_CHECKING count,
and so do cimports.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.house.sources import tree_of
from tests.house.test_imports import ROOT, imports_of, is_module, modules

Edge = tuple[str, str]


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


def edges() -> set[Edge]:
    """Which module knows which."""
    found: set[Edge] = set()
    for module, path in modules():
        names = [name for _, name in imports_of(path, module)]
        found.update((module, target) for name in names if (target := _file_of(name)) is not None and target != module)
    return found


def _way(graph: dict[str, list[str]], start: str, end: str) -> list[str]:
    """A shortest way along the arrows, both ends in it; empty where there is none."""
    came_from = {start: start}
    standing = [start]
    for each in standing:
        for other in graph[each]:
            if other not in came_from:
                came_from[other] = each
                standing.append(other)
    if end not in came_from:
        return []
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _inner(arrows: Iterable[Edge]) -> set[Edge]:
    """Those of the arrows that may be of a circle: who knows nobody, and whom nobody knows, is on none."""
    left = set(arrows)
    while True:
        known, knowing = {other for _, other in left}, {one for one, _ in left}
        fewer = {(one, other) for one, other in left if one in known and other in knowing}
        if fewer == left:
            return left
        left = fewer


def circles(arrows: Iterable[Edge]) -> list[list[str]]:
    """For each arrow from one folder into another that is of a circle: the circle, its first member once more at its
    end."""
    inner = _inner(arrows)
    graph: dict[str, list[str]] = defaultdict(list)
    for one, other in sorted(inner):
        graph[one].append(other)
    across = sorted((one, other) for one, other in inner if one.rpartition(".")[0] != other.rpartition(".")[0])
    return [[one, *way] for one, other in across if (way := _way(graph, other, one))]


def test_no_circle_of_files_leads_through_two_folders() -> None:
    found = circles(edges())
    assert not found, "\n".join(" -> ".join(circle) for circle in found)


def _folder(module: str) -> str:
    folder = module.rpartition(".")[0]
    return module if folder == "amqp_broker" else folder


def folders(arrows: Iterable[Edge]) -> set[Edge]:
    """Which folder knows which."""
    return {(_folder(one), _folder(other)) for one, other in arrows if _folder(one) != _folder(other)}


def circles_of_folders(arrows: Iterable[Edge]) -> list[list[str]]:
    """For each arrow between folders that is of a circle: the circle, its first member once more at its end."""
    inner = _inner(folders(arrows))
    graph: dict[str, list[str]] = defaultdict(list)
    for one, other in sorted(inner):
        graph[one].append(other)
    return [[one, *way] for one, other in sorted(inner) if (way := _way(graph, other, one))]


def test_no_circle_of_folders() -> None:
    found = circles_of_folders(edges())
    assert not found, "\n".join(" -> ".join(circle) for circle in found)


def test_the_check_of_folders_finds_a_circle() -> None:
    """Of a folder and one in it, and not of modules that lie loose in amqp_broker."""
    arrows = [("a.x", "a.b.y"), ("a.b.z", "a.v"), ("a.v", "c.w")]
    assert circles_of_folders(arrows) == [["a", "a.b", "a"], ["a.b", "a", "a.b"]]
    assert not circles_of_folders(arrows[:1] + arrows[2:])
    loose = [("amqp_broker.node", "amqp_broker.vhosts.x"), ("amqp_broker.vhosts.x", "amqp_broker.errors")]
    assert not circles_of_folders(loose)


def test_the_check_finds_a_circle() -> None:
    arrows = [("a.x", "a.b.y"), ("a.b.y", "a.b.z"), ("a.b.z", "a.x"), ("a.x", "c.w")]
    assert circles(arrows) == [["a.b.z", "a.x", "a.b.y", "a.b.z"], ["a.x", "a.b.y", "a.b.z", "a.x"]]
    assert not circles([("a.x", "a.b.y"), ("a.b.z", "a.x"), ("a.x", "a.v"), ("a.v", "a.x")])
