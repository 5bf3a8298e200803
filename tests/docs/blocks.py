"""The blocks of code in README and docs: each is run as it stands, or run by a test, or marked as an excerpt.

What a reader does not see says which, on the line before the block: `<!-- excerpt -->` for what is not run, `<!-- test:
NAME -->` for what a test of its own runs. A block without a mark is run by tests/docs/test_blocks.py. A block without a
language is a diagram, or what something prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.source_names import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(r"^(?:<!-- ([\w: ]+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """mark: "", "excerpt" or "test: NAME"."""

    page: str
    line: int
    mark: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """In the order of the page, those without a language too."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        mark, language, code = found.groups()
        line = text.count("\n", 0, found.start(3)) + 1
        yield Block(str(page.relative_to(ROOT)), line, mark or "", language, code)


def all_blocks() -> list[Block]:
    """Of all pages."""
    return [block for page in PAGES for block in blocks_of(page)]


def block_named(name: str) -> str:
    """What the block with the mark `test: NAME` says."""
    (block,) = [block for block in all_blocks() if block.mark == f"test: {name}"]
    return block.text
