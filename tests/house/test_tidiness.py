"""The tidiness of the source: sizes, names, docstrings, and words that do not belong into it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("amqp_broker", "exchanges", "queues", "raft", "spark_connector", "storage")
OTHERS = ("benchmarks", "examples", "interop_tests", "tests")
MAX_FUNCTION_LINES = 70
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "misc"})
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
SOMEBODYS_MACHINE = re.compile(r"(?<![\w.\"')])/(?:work|root|home|Users|tmp/dev)/\w")
SWALLOWED = re.compile(r"except(?: Base)?(?: ?Exception)?:\s*\n\s*pass\b")


def sources(folders: tuple[str, ...]) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


ALL = sources(PACKAGES + OTHERS)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"])


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_no_function_is_too_long(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    too_long = {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES}
    assert not too_long, f"lines by function: {too_long}; at most {MAX_FUNCTION_LINES}"


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_names_say_something(path: Path) -> None:
    assert path.stem not in VAGUE_NAMES


@pytest.mark.parametrize("path", [path for path in ALL if path.stat().st_size], ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no docstring"


@pytest.mark.parametrize("path", ALL + PAGES, ids=name_of)
def test_nothing_is_left_for_later_and_no_machine_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for pattern in (UNFINISHED, SOMEBODYS_MACHINE):
        found = pattern.search(text)
        assert found is None, f"{found.group(0)!r} in line {text.count(chr(10), 0, found.start()) + 1}"


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_no_failure_is_swallowed(path: Path) -> None:
    assert SWALLOWED.search(path.read_text(encoding="utf-8")) is None


@pytest.mark.parametrize("path", sources(("tests", "interop_tests")), ids=name_of)
def test_no_test_sleeps(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    sleeps = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]  # fmt: skip
    assert not sleeps, f"sleeps in lines {sleeps}: wait for the event itself"
