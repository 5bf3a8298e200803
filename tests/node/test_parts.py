"""The parts of a turn: what the node calls at its end is what it lists, in that order."""

from __future__ import annotations

import ast
import inspect
import textwrap

from amqp_broker import node
from tests.house.test_imports import ROOT


def _end_turn() -> ast.FunctionDef:
    """Its source, whether the module is compiled or not."""
    tree = ast.parse((ROOT / "amqp_broker" / "node.py").read_text(encoding="utf-8"))
    return next(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == "end_turn")


def _calls(function: ast.FunctionDef) -> list[str]:
    """Of parts, as `part.method`; of the node's own steps, and of functions, their names. In order."""
    found = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    names = [ast.unparse(each.func).removeprefix("self.").removeprefix("_") for each in found]
    return [name for name in names if name not in ("set_time", "Turn", "min")]


def test_the_node_calls_what_it_lists() -> None:
    assert _calls(_end_turn()) == list(node.PARTS)


def test_a_call_that_is_not_listed_is_seen() -> None:
    def end_turn(self: object) -> None:
        self._other.end_turn(1)  # type: ignore[attr-defined]
        if self.store.is_busy:  # type: ignore[attr-defined]
            self.store.end_turn()  # type: ignore[attr-defined]

    (function,) = ast.parse(textwrap.dedent(inspect.getsource(end_turn))).body
    assert isinstance(function, ast.FunctionDef)
    assert _calls(function) == ["other.end_turn", "store.end_turn"]
