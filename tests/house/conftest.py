"""One worker of a parallel run has the rules of the house: it parses the sources once, and the others never."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before xdist reads the groups, also where this file was loaded first because its folder was asked for."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("house"))
