"""Nothing outside of the packages of queue types asks which type a queue is, neither by its class nor by a name, nor
by looking whether it has what only some have.

What is known of a type stands in its package and in its line of `amqp_broker/queue_types/register.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import tree_of
from tests.house.test_imports import ROOT

#: Where the types are, and the classes of their queues.
PACKAGES = ("amqp_broker/queue_types/", "queues/")
CLASSES = {"ClassicQueue", "QueueProxy", "QuorumQueue", "RemoteQueue", "DelayQueue", "StreamQueue"}
#: Names of types and of their policies. The load generator has types of its own: the options of its command.
NAMES = {"classic", "quorum", "stream", "classic_queues", "quorum_queues", "streams"}
ASKS_OF_ITSELF = "amqp_broker/bench/"


def questions(tree: ast.AST) -> Iterator[int]:
    """The lines that ask which type a queue is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            if ast.unparse(node.args[0]).rpartition(".")[2] == "queue":
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if asked & CLASSES:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
            if any(isinstance(each, ast.Constant) and each.value in NAMES for each in compared):
                yield node.lineno


def _asking() -> dict[str, list[int]]:
    found = {}
    for path in sorted((ROOT / "amqp_broker").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith((*PACKAGES, ASKS_OF_ITSELF)):
            lines = list(questions(tree_of(path)))
            if lines:
                found[name] = lines
    return found


def test_nobody_asks_which_type_a_queue_is() -> None:
    found = [f"{name}:{line}" for name, lines in _asking().items() for line in lines]
    assert not found, "these ask for a queue's type; QueueType or Queue may say what they want:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("isinstance(queue, ClassicQueue)", True),
        ("isinstance(queue, (RemoteQueue, Other))", True),
        ("record.type == 'quorum'", True),
        ("'classic' != kind", True),
        ("getattr(one.queue, 'dispatcher', None)", True),
        ("isinstance(entry, Page)", False),
        ("queue_type.lives_in_groups", False),
    ],
)
def test_the_check_finds_a_question(code: str, asks: bool) -> None:
    assert bool(list(questions(ast.parse(code)))) is asks


def test_the_classes_are_there() -> None:
    paths = [path for package in PACKAGES for path in Path(ROOT, package).rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert all(f"class {name}" in text for name in CLASSES)
