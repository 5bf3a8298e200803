"""What is stored and compared is summed by one function: two that differ would lose what is on the disk."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.sources import tree_of
from tests.house.test_imports import modules

ONE = "amqp_broker.octets.checksum"
#: Takes what compresses from there, and no sum.
COMPRESSES = "storage.packed_page"


@pytest.mark.parametrize(("module", "path"), modules(), ids=[module for module, _ in modules()])
def test_crc32_comes_from_one_module(module: str, path: Path) -> None:
    if module == ONE:
        return
    if module == COMPRESSES:
        assert "crc32" not in path.read_text(encoding="utf-8")
        return
    tree = tree_of(path)
    wrong = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
             and any(name == "zlib" for name in _names(node))]  # fmt: skip
    assert not wrong, f"{path}:{wrong}: take crc32 from {ONE}"


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
