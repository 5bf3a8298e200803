"""One worker of a parallel run has the rules of the house: it parses the sources once, and the others never."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """It is told of the tests below its folder."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group("house"))
