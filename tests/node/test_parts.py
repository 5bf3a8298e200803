"""The parts of a turn: what the node calls is what it lists, in that order, and each call is a phase of a part."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker import node
from amqp_broker.turn import part
from tests.house.test_imports import ROOT
from tests.node.node_driver import NodeDriver


def _defined(path: Path, name: str) -> ast.FunctionDef | None:
    """A function of a file, whether the module is compiled or not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next((each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _node_method(name: str) -> ast.FunctionDef:
    found = _defined(ROOT / "amqp_broker" / "node.py", name)
    assert found is not None
    return found


def _calls(function: ast.FunctionDef) -> list[str]:
    """Of parts, as `part.method`; of the node's own steps, and of functions that do something, their names. In
    order."""
    found = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    names = [ast.unparse(each.func).removeprefix("self.").removeprefix("_") for each in found]
    return [name for name in names if name not in ("set_time", "Turn", "job.finish", "connections_of")]


def _signature(function: ast.FunctionDef) -> str:
    return f"({ast.unparse(function.args)}) -> {ast.unparse(function.returns) if function.returns else None}"


def _phases() -> dict[str, str]:
    """The signature of each phase, by its name."""
    functions = (
        each
        for phase in (part.Works, part.EndsTurn, part.Syncs, part.WantsSync, part.Ticks, part.HasDeadline)
        for each in ast.parse(textwrap.dedent(inspect.getsource(phase))).body[0].body  # type: ignore[attr-defined]
        if isinstance(each, ast.FunctionDef)
    )
    return {each.name: _signature(each) for each in functions}


def _wrong(of: object, name: str) -> Iterator[str]:
    """What is not as the protocol of a turn's parts has it."""
    kind = type(of)
    function = _method(kind, name)
    assert function is not None, f"{kind.__name__} has no {name}"
    found = _signature(function)
    if name == "take" or name.startswith("take_"):
        if not found.startswith("(self) -> list["):
            yield f"{kind.__name__}.{name}{found}: what the driver gets is a list, and nothing tells which"
    elif name not in _phases():
        yield f"{kind.__name__}.{name} is no phase (amqp_broker/turn/part.py)"
    elif found != _phases()[name]:
        yield f"{kind.__name__}.{name}{found}: it is {_phases()[name]}"


def _method(kind: type, name: str) -> ast.FunctionDef | None:
    for each in kind.__mro__:
        path = ROOT / f"{each.__module__.replace('.', '/')}.py"
        if not path.is_file():
            continue
        for line in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(line, ast.ClassDef) and line.name == each.__name__:
                for function in line.body:
                    if isinstance(function, ast.FunctionDef) and function.name == name:
                        return function
    return None


def test_the_node_calls_what_it_lists() -> None:
    assert _calls(_node_method("end_turn")) == list(node.PARTS)
    assert _calls(_node_method("synced")) == list(node.SYNCED)


@pytest.mark.parametrize("call", [each for each in (*node.PARTS, *node.SYNCED) if "." in each])
def test_what_is_called_of_a_part_is_a_phase(call: str) -> None:
    name, _, method = call.partition(".")
    broker = NodeDriver().node
    of = broker.broker.dead_letters if name == "dead_letters" else getattr(broker, name)
    assert list(_wrong(of, method)) == []


def test_the_parts_are_what_the_protocols_say() -> None:
    """Mypy looks; here it is seen that they are there."""
    broker = NodeDriver().node
    works: tuple[part.Works, ...] = (
        broker.turn_share, broker.background, broker.leases, broker.broker.dead_letters, broker.remote_queues,
        broker.replication,
    )  # fmt: skip
    ends: tuple[part.EndsTurn, ...] = (
        broker.remote_queues, broker.replication, broker.confirming, broker.turn_share,
    )  # fmt: skip
    syncs: tuple[part.Syncs, ...] = (broker.store, broker.confirming, broker.answers)
    wanting: tuple[part.WantsSync, ...] = (broker.remote_queues, broker.replication, broker.leases)
    ticks: tuple[part.Ticks, ...] = (broker.turn_share,)
    dated: tuple[part.HasDeadline, ...] = (broker.replication, broker.answers)
    assert all([works, ends, syncs, wanting, ticks, dated])
    assert not any(each.wants_sync for each in wanting[:1])
    assert all(each.deadline >= 0 for each in dated)


def test_a_call_that_is_not_listed_is_seen() -> None:
    def end_turn(self: object) -> None:
        self._other.end_turn(1)  # type: ignore[attr-defined]
        if self.store.is_busy:  # type: ignore[attr-defined]
            self.store.end_turn()  # type: ignore[attr-defined]

    (function,) = ast.parse(textwrap.dedent(inspect.getsource(end_turn))).body
    assert isinstance(function, ast.FunctionDef)
    assert _calls(function) == ["other.end_turn", "store.end_turn"]


def test_another_signature_is_seen() -> None:
    broker = NodeDriver().node
    (wrong,) = _wrong(broker.store, "end_turn")
    assert wrong == "MessageStore.end_turn(self) -> None: it is (self, now: int) -> None"
    assert list(_wrong(broker.store, "shorten")) == ["MessageStore.shorten is no phase (amqp_broker/turn/part.py)"]
