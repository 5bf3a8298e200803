"""Who may import whom: each room only what its row in rooms.py names, and each row only what stands below it.

Everybody may import the standard library, but for what lets the world in (clocks, random numbers, threads, sockets,
event loops), which is for those only who are named here; and `cython`, which compiled modules name in their plain
form. Imports count wherever in a file they stand, those for types too, and so do the cimports of the `.pxd` beside it.

What programs of others load (the client, the embedded mode, spark_connector, pyspark_amqp, and what those stand on) may
name no package of the core, because in such a program `queues` is somebody else's: an installed core is found in the
broker's own process only.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.rooms import ROOMS, room_of
from tests.house.sources import text_of, tree_of

ROOT = Path(__file__).parents[2]

CORE_PACKAGES = ("exchanges", "queues", "raft", "storage")  # in a wheel: amqp_broker/_core
PACKAGES = ("amqp_broker", *CORE_PACKAGES, "spark_connector", "pyspark_amqp")
#: What programs of others load.
EMBEDDED = ("__init__", "testing", "plain", "pytest_plugin", "system_client")
LOADED_BY_OTHERS = (*EMBEDDED, "octets", "protocol", "client", "version", "spark_connector", "pyspark_amqp")
#: Of Cython itself: what stands for C in a `.py` and in a `.pxd`.
CYTHON = ("cython", "libc", "cpython")

THREADS = ("asyncio", "concurrent", "multiprocessing", "queue", "sched", "signal", "subprocess", "threading")
SOCKETS = ("select", "selectors", "socket", "socketserver", "ssl")
CHANCE = ("random", "secrets", "time", "uuid")
WORLD = frozenset((*THREADS, *SOCKETS, *CHANCE))
MAY_SEE_THE_WORLD: dict[str, frozenset[str]] = {
    "storage": frozenset({"threading"}),  # its files are used by the loop's thread and by the one that syncs
    "client": frozenset({"select", "socket", "ssl", "time"}),
    "cli": frozenset({"secrets", "select", "selectors", "signal", "socket", "ssl", "time"}),
    **dict.fromkeys(("server", "web", "bench", "spark_connector", *EMBEDDED), WORLD),
}

_CIMPORT = re.compile(r"^\s*(?:from ([\w.]+) cimport|cimport ([\w.]+))", re.MULTILINE)


def modules() -> list[tuple[str, Path]]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    files += [path for path in (ROOT / f"{package}.py" for package in PACKAGES) if path.exists()]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in files]


def imports_of(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, wherever in it, and of what the `.pxd` beside it does.

    `from a import b` counts as a.b if that is a module.
    """
    tree = tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively; write the whole name"
            base = node.module or ""
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield node.lineno, whole if is_module(whole) else base
    pxd = path.with_suffix(".pxd")
    if pxd.exists():
        text = text_of(pxd)
        for found in _CIMPORT.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, found[1] or found[2]


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def known_as(imported: str) -> str:
    """How rows call what is imported: a room, or a package of others."""
    top = imported.partition(".")[0]
    return room_of(imported) if top in PACKAGES else top


def is_allowed(room: str, imported: str) -> bool:
    top = imported.partition(".")[0]
    if top in sys.stdlib_module_names:
        return top not in WORLD or top in MAY_SEE_THE_WORLD.get(room, frozenset())
    return top in CYTHON or known_as(imported) == room or known_as(imported) in ROOMS[room].split()


def test_every_room_has_its_row() -> None:
    missing = {room_of(module) for module, _ in modules()} ^ set(ROOMS)
    assert not missing, f"{sorted(missing)}: each has its row in ROOMS, between those that know it and those it knows"


def test_a_row_names_only_what_stands_below_it() -> None:
    rank = {room: number for number, room in enumerate(ROOMS)}
    arrows = [(room, name) for room, row in ROOMS.items() for name in row.split()]
    wrong = [f"{room} -> {name}" for room, name in arrows if rank.get(name, len(rank)) <= rank[room]]
    assert not wrong, f"arrows that go up: {wrong}"
    packages = {name for _, name in arrows} - set(ROOMS)
    assert not packages & {*PACKAGES, *sys.stdlib_module_names}, "no rooms: these are of others"


def test_a_module_imports_only_what_its_room_may() -> None:
    assert len(modules()) > 600
    wrong = []
    for module, path in modules():
        room = room_of(module)
        for line, imported in imports_of(path, module):
            if not is_allowed(room, imported):
                wrong.append(f"{path}:{line}: {room} may know {ROOMS[room]!r}, not {imported}; see ROOMS")
    assert not wrong, "\n".join(wrong)


def test_a_row_names_nothing_that_its_room_does_not_know() -> None:
    known = {(room_of(module), known_as(name)) for module, path in modules() for _, name in imports_of(path, module)}
    idle = [f"{room} -> {name}" for room, row in ROOMS.items() for name in row.split() if (room, name) not in known]
    assert not idle, f"nobody imports it any more: take it out of its row: {idle}"


def test_what_programs_of_others_load_names_nothing_of_the_core() -> None:
    """The settings, which the embedded mode loads, name raft's where the broker asks for them; nothing else does."""
    for room in LOADED_BY_OTHERS:
        names = set(ROOMS[room].split())
        assert not names & {*CORE_PACKAGES, "raft.settings"}
        assert names & set(ROOMS) <= {*LOADED_BY_OTHERS, "settings"}, f"{room} is loaded by programs of others"


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks"}
    assert packages <= set(PACKAGES)


def test_the_check_finds_what_it_is_for() -> None:
    assert not is_allowed("exchanges", "queues.classic")
    assert not is_allowed("queues", "time")
    assert not is_allowed("channel", "asyncio")
    assert not is_allowed("channel", "amqp_broker.server.main")
    assert not is_allowed("channel", "amqp_broker.connection.connection")
    assert not is_allowed("storage", "pysyncobj")
    assert not is_allowed("queues", "pysyncobj")
    assert not is_allowed("raft", "time")
    assert not is_allowed("raft", "queues.store")
    assert is_allowed("raft", "pysyncobj.syncobj")
    assert is_allowed("raft", "storage.journal")
    assert is_allowed("settings", "raft.settings")
    assert not is_allowed("settings", "raft.host")
    assert not is_allowed("protocol", "amqp_broker.errors")
    assert is_allowed("client", "amqp_broker.protocol.methods")
    assert not is_allowed("queues", "amqp_broker.errors")
    assert is_allowed("queues", "amqp_broker.octets.buffer")
    assert is_allowed("queues", "libc.string")
    assert not is_allowed("octets", "amqp_broker.protocol.fields")
