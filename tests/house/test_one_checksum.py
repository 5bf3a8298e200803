"""What is stored and compared is summed by one function: two that differ would lose what is on the disk."""

from __future__ import annotations

import ast

from tests.house.sources import tree_of
from tests.house.test_imports import modules

ONE = "amqp_broker.octets.checksum"
#: Takes what compresses from there, and no sum.
COMPRESSES = "storage.packed_page"


def test_crc32_comes_from_one_module() -> None:
    paths = dict(modules())
    paths.pop(ONE)
    assert "crc32" not in paths.pop(COMPRESSES).read_text(encoding="utf-8")
    wrong = [f"{path}:{node.lineno}" for path in paths.values() for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Import | ast.ImportFrom) and "zlib" in _names(node)]  # fmt: skip
    assert not wrong, f"{wrong}: take crc32 from {ONE}"


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
