"""Nothing outside of the packages of queue types asks which type a queue is, neither by its class nor by a name, nor
by looking whether it has what only some have. Nobody casts a queue to one of its classes, and nobody lists the types.

What is known of a type stands in its package and in its line of `amqp_broker/queue_types/register.py`. The pages of the
browser ask the API for it (`queue.types`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from amqp_broker.metadata.entities import DEFAULT_TYPE
from amqp_broker.queue_types.register import QUEUE_TYPES
from tests.house.sources import text_of, tree_of
from tests.house.test_imports import ROOT

#: Where the types are, and the classes of their queues.
PACKAGES = ("amqp_broker/queue_types/", "queues/")
#: The contract: who asks whether something is one of these asks for no type.
CONTRACT = {"Queue", "QueueType"}
#: Names of types and of their policies. The load generator has types of its own: the options of its command.
NAMES = {name for each in QUEUE_TYPES.values() for name in (each.name, each.policy_kind)}
ASKS_OF_ITSELF = ("amqp_broker/bench/", "amqp_broker/cli/bench.py")
#: The one line that names a type.
THE_DEFAULT = ("amqp_broker/metadata/entities.py", f'DEFAULT_TYPE: Final = "{DEFAULT_TYPE}"')
PAGES = "amqp_broker/web/static"

_TEXT = re.compile(r"""(["'`])(?P<text>[^"'`\n]*)\1""")
#: What stands before a text, or behind it, that is compared; and behind one of a list.
_IS_SAID = re.compile(r"[!=]==?\s*$")
_SAYS = re.compile(r"\s*[!=]==?")
_BEFORE_ANOTHER = re.compile(r"\s*,\s*[\"'`]")


@cache
def classes() -> frozenset[str]:
    """The classes of queues and of their types: all that stand on the contract, however far away."""
    bases: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ClassDef):
                    named = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                    bases.setdefault(node.name, set()).update(named)
    found = set(CONTRACT)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return frozenset(found - CONTRACT)


def _names_a_class(node: ast.AST) -> bool:
    """Whether one of the classes is named, be it in a text: "list[ClassicQueue]"."""
    words = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            words |= set(re.findall(r"\w+", each.value))
    return not words.isdisjoint(classes())


def _is_name(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES


def _call_asks(node: ast.Call) -> bool:
    called, arguments = ast.unparse(node.func), node.args
    if called in ("getattr", "hasattr"):
        return ast.unparse(arguments[0]).rpartition(".")[2] == "queue"
    if called in ("isinstance", "issubclass"):
        return _names_a_class(arguments[1])
    if called in ("cast", "typing.cast"):
        return _names_a_class(arguments[0])
    return called.endswith(".get") and any(map(_is_name, arguments[1:]))


def _comparison_asks(node: ast.Compare) -> bool:
    compared = [node.left, *node.comparators]
    has_class = any(isinstance(each, ast.Name) and each.id in classes() for each in compared)
    return has_class or any(map(_is_name, compared))


def _table_asks(node: ast.Dict) -> bool:
    """Whether it has several types, or says that something is of one."""
    said = any(
        isinstance(key, ast.Constant) and str(key.value).endswith("type") and _is_name(value)
        for key, value in zip(node.keys, node.values, strict=True)
    )
    return said or sum(map(_is_name, node.keys)) > 1


def questions(tree: ast.AST) -> Iterator[int]:
    """The lines that ask which type a queue is, or say that it is of one."""
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                asks = _call_asks(node)
            case ast.Compare():
                asks = _comparison_asks(node)
            case ast.Tuple() | ast.List() | ast.Set():
                asks = sum(map(_is_name, node.elts)) > 1
            case ast.Dict():
                asks = _table_asks(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                asks = any(map(_is_name, [*node.args.defaults, *node.args.kw_defaults]))
            case ast.AnnAssign() | ast.Assign():
                asks = _is_name(node.value)
            case _:
                continue
        if asks:
            yield node.lineno


def questions_of_pages(text: str) -> Iterator[int]:
    """The lines of JavaScript that compare something with the name of a type, or list such names."""
    for number, line in enumerate(text.splitlines(), 1):
        named = [each for each in _TEXT.finditer(line) if each["text"] in NAMES]
        is_compared = any(_IS_SAID.search(line[: each.start()]) or _SAYS.match(line[each.end() :]) for each in named)
        is_listed = len(named) > 1 and any(_BEFORE_ANOTHER.match(line[each.end() :]) for each in named)
        if is_compared or is_listed:
            yield number


def _line_of(path: Path, number: int) -> str:
    return text_of(path).splitlines()[number - 1]


def _asking() -> Iterator[str]:
    for path in sorted((ROOT / "amqp_broker").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith((*PACKAGES, *ASKS_OF_ITSELF)):
            lines = sorted(set(questions(tree_of(path))))
            yield from (f"{name}:{line}" for line in lines if (name, _line_of(path, line)) != THE_DEFAULT)
    for path in sorted((ROOT / PAGES).rglob("*.js")):
        yield from (f"{path.relative_to(ROOT)}:{line}" for line in questions_of_pages(text_of(path)))


def test_nobody_asks_which_type_a_queue_is() -> None:
    found = list(_asking())
    assert not found, "these ask for a queue's type; QueueType or Queue may say what they want:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("isinstance(queue, ClassicQueue)", True),
        ("isinstance(queue, (RemoteQueue, Other))", True),
        ("isinstance(queue, HeldQueue)", True),
        ("issubclass(found, StreamType)", True),
        ("found is ClassicType", True),
        ("cast('QuorumQueue', queue).group", True),
        ("cast('list[ClassicQueue]', found)", True),
        ("cast(QueueProxy, queue)", True),
        ("record.type == 'quorum'", True),
        ("'classic' != kind", True),
        ("row.get('type', 'classic')", True),
        ("KINDS = ('classic', 'quorum', 'stream')", True),
        ("{'classic': 1, 'stream': 2}", True),
        ("{'default_queue_type': 'classic'}", True),
        ("def declare(kind: str = 'classic'): pass", True),
        ("def declare(*, kind: str = 'classic'): pass", True),
        ("class Record:\n    type: str = 'classic'", True),
        ("getattr(one.queue, 'dispatcher', None)", True),
        ("isinstance(entry, Page)", False),
        ("isinstance(found, Queue)", False),
        ("cast('Queue | None', found)", False),
        ("cython.cast(Queue, consumer.queue)", False),
        ("queue_type.lives_in_groups", False),
        ("request('stream.stat', stream='stream')", False),
        ("{'stream': name}", False),
    ],
)
def test_the_check_finds_a_question(code: str, asks: bool) -> None:
    assert bool(list(questions(ast.parse(code)))) is asks


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ('isStream = queue.type === "stream";', True),
        ('return "classic" != type;', True),
        ('options: [["", "default"], "classic", "quorum", "stream"]', True),
        ('const APPLY_TO = ["all", "classic_queues", "quorum_queues"];', True),
        ('["stream", "Stream", offsets]', False),
        ("isStream = type.has_offsets;", False),
    ],
)
def test_the_check_finds_a_question_of_a_page(code: str, asks: bool) -> None:
    assert bool(list(questions_of_pages(code))) is asks


def test_the_classes_are_those_of_all_queues() -> None:
    some = {"ClassicQueue", "QueueRules", "QueueProxy", "QuorumQueue", "QueueOverStream", "RemoteQueue", "DelayQueue",
            "HeldQueue", "LogQueue", "StreamQueue", "PartitionedStream", "ClassicType", "GroupType"}  # fmt: skip
    assert some <= classes()


def test_the_default_is_a_type_that_there_is() -> None:
    assert DEFAULT_TYPE in QUEUE_TYPES
