"""Which modules are compiled, and that the file that runs is the one that is meant to."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from tests.house.sources import tree_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("amqp_broker", "exchanges", "queues", "raft", "spark_connector", "storage")
HOT = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.pxd"))]
SUFFIX = EXTENSION_SUFFIXES[0]
IS_PLAIN = bool(os.environ.get("AMQP_BROKER_PLAIN"))
#: A class that says so: what other modules take it for, and what it is, which its own source says.
NO_GC_DECLARED = re.compile(r"@cython\.no_gc\ncdef class (\w+)")
NO_GC_MADE = re.compile(r"@cython\.no_gc\n@cython\.cclass\nclass (\w+)")
#: Py_TPFLAGS_HAVE_GC.
HAVE_GC = 1 << 14

PRINT_FILES = """
import importlib, json, sys
import amqp_broker
print(json.dumps({name: importlib.import_module(name).__file__ for name in sys.argv[1:]}))
"""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def compiled_file(path: Path) -> Path:
    return path.with_name(path.stem + SUFFIX)


def record() -> dict[str, object]:
    """What the last build noted; without one, nothing has been compiled by it."""
    path = ROOT / "build" / "compiled.json"
    found: dict[str, object] = (
        json.loads(path.read_text()) if path.exists() else {"compiled": [], "reason": "never built"}
    )
    return found


def files_in_a_new_process(**environment: str) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "AMQP_BROKER_PLAIN"} | environment
    command = [sys.executable, "-c", PRINT_FILES, *map(module_of, HOT)]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    files: dict[str, str] = json.loads(done.stdout)
    return files


def test_there_are_hot_modules() -> None:
    assert len(HOT) > 5


def test_a_quotient_is_no_integer_where_it_is_compiled() -> None:
    """`a / b` of C integers is cut in a compiled module, and a delay of 20 ms is none."""
    quotients = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path in HOT
        for node in ast.walk(tree_of(path.with_suffix(".py")))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, float))
    ]
    assert not quotients, "divide by a float constant, or use //"


def test_nothing_is_out_of_reach_where_it_is_compiled() -> None:
    """Behind an `if cython.compiled` that returns, Cython warns of unreachable code unless it is in the `else`."""
    blocks = [
        (path, block)
        for path in HOT
        for node in ast.walk(tree_of(path.with_suffix(".py")))
        for block in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(block, list)
    ]
    out_of_reach = [
        f"{path}:{each.lineno}"
        for path, block in blocks
        for each in block[:-1]
        if isinstance(each, ast.If) and ast.unparse(each.test) == "cython.compiled"
        if isinstance(each.body[-1], ast.Return | ast.Raise) and not each.orelse
    ]
    assert not out_of_reach


#: `@cython.locals(...)`, the decorators and lines between, and the function or method that it is for.
TYPED_LOCALS = re.compile(
    r"^([ ]*)@cython\.locals\(((?:[^()]|\([^()]*\))*)\)\n(?:[ ]*@.*\n)*[ ]*(?:cpdef|cdef|def)\b[^(\n]*?(\w+)\(",
    re.MULTILINE,
)
CLASS = re.compile(r"^cdef class (\w+)", re.MULTILINE)


def names_set_in(function: ast.FunctionDef) -> set[str]:
    """Its parameters and the names that it sets."""
    stores = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {node.id for node in stores} | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


def functions_of(path: Path) -> dict[tuple[str, str], ast.FunctionDef]:
    """By the class that they are in ("" for none) and name."""
    found = {}
    for node in tree_of(path).body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef):
                found[node.name if isinstance(node, ast.ClassDef) else "", each.name] = each
    return found


def strangers_of(path: Path) -> list[str]:
    """What a .pxd has types for, and its source does not name."""
    text = path.read_text()
    functions = functions_of(path.with_suffix(".py"))
    strangers = []
    assert len(TYPED_LOCALS.findall(text)) == text.count("@cython.locals("), f"one of {path} is not understood"
    for found in TYPED_LOCALS.finditer(text):
        classes = [each[1] for each in CLASS.finditer(text, 0, found.start())]
        function = functions[classes[-1] if found[1] else "", found[3]]
        typed = {each.partition("=")[0].strip() for each in found[2].split(",") if "=" in each}
        strangers += [f"{path}: {found[3]}: {name}" for name in sorted(typed - names_set_in(function))]
    return strangers


def test_what_is_typed_is_there() -> None:
    """A type for a variable that has another name by now is passed over in silence, and the variable is an object."""
    assert not [each for path in HOT for each in strangers_of(path)]


def test_every_pxd_has_its_source() -> None:
    assert not [path for path in HOT if not path.with_suffix(".py").exists()]


def test_all_or_none_are_compiled() -> None:
    """Compiled modules call each other in C: a mixture would not run."""
    there = [module_of(path) for path in HOT if compiled_file(path).exists()]
    assert there in ([], [module_of(path) for path in HOT]), "run `make setup`"


def test_the_record_of_the_build_is_true() -> None:
    built = record()
    there = sorted(module_of(path) for path in HOT if compiled_file(path).exists())
    if not built["reason"]:
        assert there == sorted(map(str, built["compiled"])), "run `make setup`"  # type: ignore[call-overload]


def test_a_machine_that_can_compile_has_compiled() -> None:
    reason = str(record()["reason"])
    assert "failed" not in reason, reason


def test_no_compiled_module_is_older_than_its_source() -> None:
    older = [
        path
        for path in HOT
        if (compiled := compiled_file(path)).exists()
        and compiled.stat().st_mtime < max(path.stat().st_mtime, path.with_suffix(".py").stat().st_mtime)
    ]
    assert not older, "run `make setup`"


def test_nothing_compiled_is_left_of_a_module_that_is_not_hot() -> None:
    left = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*" + SUFFIX)
        if not path.with_name(path.name.removesuffix(SUFFIX) + ".pxd").exists()
    ]
    assert not left, "run `make clean` and `make setup`"


def test_the_compiled_modules_run_where_they_are_there() -> None:
    files = files_in_a_new_process()
    wanted = {module_of(path): compiled_file(path) for path in HOT if compiled_file(path).exists()}
    assert {name: Path(file) for name, file in files.items() if name in wanted} == wanted


def test_the_plain_modules_run_when_they_are_asked_for() -> None:
    files = files_in_a_new_process(AMQP_BROKER_PLAIN="1")
    assert {name: Path(file) for name, file in files.items()} == {
        module_of(path): path.with_suffix(".py") for path in HOT
    }


def test_this_test_run_uses_the_modules_that_it_was_asked_to() -> None:
    loaded = importlib.import_module("amqp_broker.octets.buffer").__file__ or ""
    is_compiled = loaded.endswith(SUFFIX)
    assert is_compiled == (compiled_file(ROOT / "amqp_broker" / "octets" / "buffer.pxd").exists() and not IS_PLAIN)


def test_some_classes_are_kept_from_the_collector() -> None:
    assert any(NO_GC_DECLARED.search(path.read_text(encoding="utf-8")) for path in HOT)


def test_the_collector_does_not_know_what_is_declared_so() -> None:
    """Cython takes the word of the source alone, and says nothing of one in the .pxd that the source has not."""
    for path in HOT:
        declared = NO_GC_DECLARED.findall(path.read_text(encoding="utf-8"))
        assert NO_GC_MADE.findall(path.with_suffix(".py").read_text(encoding="utf-8")) == declared, path
        module = importlib.import_module(module_of(path))
        if (module.__file__ or "").endswith(SUFFIX):
            assert not [name for name in declared if getattr(module, name).__flags__ & HAVE_GC], path
