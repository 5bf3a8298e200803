"""Pages are looked at where there is a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.testing.embedded import RunningBroker
from tests.web.conftest import broker, http
from tests.web.ui.browser import Browser, browser, why_none

__all__ = ["broker", "http"]


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The one browser, which takes seconds to start."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    with browser(Path(tmp_path_factory.mktemp("browser")) / "profile") as started:
        yield started


@pytest.fixture
def newcomer(opened: Browser, broker: RunningBroker) -> Browser:
    """Who comes for the first time."""
    opened.visit(broker.management_url)
    return opened


@pytest.fixture
def window(opened: Browser, broker: RunningBroker) -> Browser:
    """Logged in as guest."""
    if (opened.url, opened.user) != (broker.management_url.rstrip("/"), "guest"):
        opened.visit(broker.management_url)
        opened.log_in()
    opened.driver.execute_script("document.querySelectorAll('dialog').forEach(each => each.close())")
    return opened


@pytest.fixture(autouse=True)
def _no_complaints(request: pytest.FixtureRequest) -> Iterator[None]:
    """The console says nothing is wrong, whatever a test has looked at."""
    yield
    if "opened" in request.fixturenames:
        assert request.getfixturevalue("opened").complaints() == []
