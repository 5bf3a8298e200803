"""Programs of tests and benchmarks run with the plain modules when AMQP_BROKER_PLAIN says so.

`amqp_broker` decides that when it is imported; a compiled module that was there before it would stay beside plain ones.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.sources import tree_of

ROOT = Path(__file__).parents[2]
CORE = ("exchanges", "octets", "queues", "raft", "storage")


def programs() -> list[Path]:
    found = [path for top in ("tests", "benchmarks") for path in sorted((ROOT / top).rglob("*.py"))]
    return [path for path in found if path.name == "__main__.py" or '__name__ == "__main__"' in path.read_text()]


def imported_first(path: Path, seen: set[Path]) -> str | None:
    """Which comes first when the file is run: `amqp_broker`, or a module of the core; None where neither comes."""
    seen.add(path)
    for name in imports_of(path):
        top = name.partition(".")[0]
        if top == "amqp_broker":
            return top
        if top in CORE:
            return name
        ours = ROOT / (name.replace(".", "/") + ".py")
        if ours.is_file() and ours not in seen and (found := imported_first(ours, seen)):
            return found
    return None


def imports_of(path: Path) -> list[str]:
    """The modules that a file imports at its top, in order."""
    found: list[str] = []
    for node in tree_of(path).body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" if is_folder(node.module) else node.module for alias in node.names]
    return found


def is_folder(module: str) -> bool:
    return (ROOT / module.replace(".", "/")).is_dir()


@pytest.mark.parametrize("path", programs(), ids=lambda path: str(path.relative_to(ROOT)))
def test_which_modules_run_is_decided_first(path: Path) -> None:
    first = imported_first(path, set())
    assert first in (None, "amqp_broker"), f"{path.name} comes to {first} first: `import amqp_broker` before it"


def test_the_check_sees_a_program_that_begins_with_the_core(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nfrom raft.log import Log\nimport amqp_broker\n")
    assert imported_first(program, set()) == "raft.log"
