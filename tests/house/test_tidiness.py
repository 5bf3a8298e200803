"""The tidiness of the source: sizes, names, docstrings, and words that do not belong into it.

Each rule is one test over all files, which names those that break it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.sources import text_of, tree_of

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


class Facts(NamedTuple):
    """Of a file. lengths: lines of each function, by its name and line. sleeps: lines of calls that sleep."""

    has_docstring: bool
    lengths: dict[str, int]
    sleeps: list[int]


@cache
def facts_of(path: Path) -> Facts:
    tree = tree_of(path)
    facts = Facts(ast.get_docstring(tree) is not None, {}, [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            facts.lengths[f"{node.lineno}: {node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
        elif isinstance(node, ast.Call) and sleeps(node):
            facts.sleeps.append(node.lineno)
    return facts


def sleeps(call: ast.Call) -> bool:
    """Whether it is one that takes time: `sleep(0)` gives others their turn."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sleep":
        return False
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{name_of(path)}:{name} has {length} lines"
        for path in ALL
        for name, length in facts_of(path).lengths.items()
        if length > MAX_FUNCTION_LINES
    ]
    assert not too_long, f"at most {MAX_FUNCTION_LINES} are a function's:\n" + "\n".join(too_long)


def test_names_say_something() -> None:
    assert not [name_of(path) for path in ALL if path.stem in VAGUE_NAMES]


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) for path in ALL if text_of(path) and not facts_of(path).has_docstring]
    assert not silent, "no docstring:\n" + "\n".join(silent)


def test_nothing_is_left_for_later_and_no_machine_is_named() -> None:
    found = [
        f"{name_of(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)!r}"
        for path in ALL + PAGES
        for text in [text_of(path)]
        for pattern in (UNFINISHED, SOMEBODYS_MACHINE)
        if (match := pattern.search(text))
    ]
    assert not found, "\n".join(found)


def test_no_failure_is_swallowed() -> None:
    assert not [name_of(path) for path in ALL if SWALLOWED.search(text_of(path))]


def test_no_test_sleeps() -> None:
    found = [
        f"{name_of(path)}:{line}" for path in sources(("tests", "interop_tests")) for line in facts_of(path).sleeps
    ]
    assert not found, "wait for the event itself, and do not sleep:\n" + "\n".join(found)
