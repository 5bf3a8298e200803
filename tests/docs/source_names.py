"""The names that the source defines, read from its syntax trees: for the tests that keep the pages true.

Nothing is imported, so that it does not matter which modules are compiled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.house.sources import tree_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = ("amqp_broker", "exchanges", "queues", "raft", "storage")

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass
class SourceNames:
    """classes: each class name with its members and bases (classes of one name are taken together). functions: of
    each module, by the module's last name. words: every identifier and every string constant of one word."""

    members: dict[str, set[str]] = field(default_factory=dict)
    bases: dict[str, set[str]] = field(default_factory=dict)
    functions: dict[str, set[str]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)

    def has_member(self, class_name: str, member: str) -> bool:
        """Whether the class, or one that it inherits from, defines this method or attribute."""
        if member in self.members.get(class_name, ()):
            return True
        return any(self.has_member(base, member) for base in self.bases.get(class_name, ()))


@cache
def read_sources() -> SourceNames:
    """The names in all packages. Read once a process; what looks at them belongs to the worker of a parallel run that
    has the rules of the house, which parses the same files: `xdist_group("house")`."""
    names = SourceNames()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            _read(names, path)
    return names


def _read(names: SourceNames, path: Path) -> None:
    tree = tree_of(path)
    module = path.parent.name if path.stem == "__init__" else path.stem
    functions = names.functions.setdefault(module, set())
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            functions.add(statement.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names.members.setdefault(node.name, set()).update(_members_of(node))
            names.bases.setdefault(node.name, set()).update(
                base.id for base in node.bases if isinstance(base, ast.Name)
            )
        elif isinstance(node, ast.Name):
            names.words.add(node.id)
        elif isinstance(node, ast.arg):
            names.words.add(node.arg)
        elif isinstance(node, ast.Attribute):
            names.words.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.words.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            names.words.add(node.value)


def _members_of(class_node: ast.ClassDef) -> Iterator[str]:
    """Methods, class attributes, and what methods assign to `self`."""
    for node in ast.walk(class_node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def code_of(page: str) -> list[str]:
    """What a page sets as code: its fenced blocks and its spans."""
    blocks = _FENCE.findall(page)
    return blocks + _SPAN.findall(_FENCE.sub("", page))
