"""A node of its own for each test, and an administrator who asks it; tests that need other ones say so themselves."""

from __future__ import annotations

import pytest

from tests.node.node_driver import NodeDriver
from tests.node.system_service import SystemService


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


@pytest.fixture
def service(driver: NodeDriver) -> SystemService:
    return SystemService(driver)
