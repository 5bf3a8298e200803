"""docs/architecture.md and docs/flows.md lead to the right places: every `file: Name`, every room, the parts of a turn.

A place is `file.py: Class.method`, `file.py: function`, or `file.py: Class`; a file stands below the checkout, or below
amqp_broker/. The file itself has to define it: an inherited method is named where it is written. So a rename breaks
these tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from amqp_broker import node
from tests.docs.blocks import blocks_of
from tests.docs.source_names import DOCS, ROOT, read_sources
from tests.house.rooms import ROOMS
from tests.house.sources import tree_of

pytestmark = pytest.mark.xdist_group("house")  # see read_sources
FLOWS = DOCS / "flows.md"
ARCHITECTURE = DOCS / "architecture.md"
PAGES = (ARCHITECTURE, FLOWS)

_PLACE = re.compile(r"([\w/]+\.py): ([A-Za-z_]\w*(?:\.\w+)?)(?![\w(])")
_SPAN = re.compile(r"`([^`\n]+)`")
_ROOM_ROW = re.compile(r"^\| `([\w/.]+)` \| .+ \| `([\w/.]+\.py)` \|$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r"\]\(#([\w-]+)\)")


def path_of(file: str) -> Path | None:
    """The file of a place, None where there is none."""
    return next((path for path in (ROOT / file, ROOT / "amqp_broker" / file) if path.is_file()), None)


@cache
def defined_in(path: Path) -> frozenset[str]:
    """Functions, classes, and methods and properties of classes with the class in front: what this file itself has."""
    found: set[str] = set()
    for each in tree_of(path).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(each, ast.ClassDef):
            methods = [one for one in each.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found.update(f"{each.name}.{method.name}" for method in methods)
    return frozenset(found)


def is_there(file: str, name: str) -> bool:
    path = path_of(file)
    return path is not None and name in defined_in(path)


def steps() -> Iterator[str]:
    """The lines of all flows, without comments."""
    for block in blocks_of(FLOWS):
        for line in block.text.splitlines():
            step = line.partition("#")[0].strip()
            if step:
                yield step


def test_every_step_of_a_flow_is_in_its_file() -> None:
    wrong = [step for step in steps() if not ((found := _PLACE.fullmatch(step)) and is_there(*found.groups()))]
    assert not wrong, "docs/flows.md names what its files do not have:\n" + "\n".join(wrong)
    assert len(list(steps())) > 300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_in_the_text_is_in_its_file(page: Path) -> None:
    spans = _SPAN.findall(page.read_text(encoding="utf-8"))
    places = [found.groups() for span in spans if (found := _PLACE.fullmatch(span))]
    wrong = [f"{file}: {name}" for file, name in places if not is_there(file, name)]
    assert not wrong, f"docs/{page.name} names what its files do not have:\n" + "\n".join(wrong)
    assert len(places) > 20


def test_every_class_in_a_comment_of_a_flow_is_there() -> None:
    """`Class.method` is the notation itself."""
    named = set(re.findall(r"(?<![\w./])([A-Z]\w*)\.\w+", FLOWS.read_text(encoding="utf-8"))) - {"Class"}
    unknown = sorted(named - set(read_sources().members))
    assert not unknown, f"docs/flows.md names classes that are not there: {', '.join(unknown)}"


def test_the_check_notices_a_rename() -> None:
    assert is_there("node.py", "Node.end_turn")
    assert is_there("amqp_broker/node.py", "Node")
    assert is_there("queues/rules.py", "QueueRules.ack")
    assert not is_there("queues/classic.py", "ClassicQueue.ack")  # inherited: name where it is written
    assert not is_there("node.py", "Node.finish_turn")
    assert not is_there("queues/rule.py", "QueueRules.ack")


def test_every_link_within_the_flows_leads_somewhere() -> None:
    text = FLOWS.read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}
    assert not [link for link in _ANCHOR.findall(text) if link not in anchors]


def rooms() -> list[tuple[str, str]]:
    """Each room's row: what it is called in ROOMS, and the file to open first."""
    return _ROOM_ROW.findall(ARCHITECTURE.read_text(encoding="utf-8"))


def room_of(where: str) -> str:
    return where.rstrip("/").removeprefix("amqp_broker/").removesuffix(".py")


def test_every_room_has_its_row_from_the_top_to_the_bottom() -> None:
    assert [room_of(where) for where, _ in rooms()] == [room for room in ROOMS if "." not in room]


def test_the_file_to_open_first_is_one_of_the_room() -> None:
    wrong = [row for row in rooms() if not (ROOT / row[0]).exists() or not (ROOT / row[1]).is_file()]
    wrong += [row for row in rooms() if not row[1].startswith(row[0])]
    assert not wrong


def test_the_parts_of_a_turn_are_those_of_the_node() -> None:
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("### What the end of a turn does")[2]
    listed = re.findall(r"^\d+\. `([\w.]+)`", section.partition("\n#")[0], re.MULTILINE)
    assert listed == list(node.PARTS)
