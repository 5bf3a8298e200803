"""Files of the project as text and as syntax trees, each read and parsed once a process: many rules look at the same.

A tree belongs to all tests that look at it: none may change it.
"""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def text_of(path: Path) -> str:
    """What the file says. Raises OSError."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """Its syntax tree. Raises OSError, SyntaxError."""
    tree = ast.parse(text_of(path))
    gc.freeze()  # it stays: the garbage collector need not walk through millions of nodes again and again
    return tree
