"""Pages are looked at where there is a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.testing.embedded import RunningBroker
from tests.web.conftest import broker, http
from tests.web.http_client import Http
from tests.web.ui.browser import Browser, browser, why_none

__all__ = ["broker", "http"]


@pytest.fixture(scope="module")
def window(broker: RunningBroker, http: Http, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Logged in as guest."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    with browser(broker.management_url, Path(tmp_path_factory.mktemp("browser")) / "profile") as opened:
        opened.log_in()
        yield opened


@pytest.fixture(autouse=True)
def _no_complaints(request: pytest.FixtureRequest) -> Iterator[None]:
    """The console says nothing is wrong, whatever a test has looked at."""
    yield
    if "window" in request.fixturenames:
        assert request.getfixturevalue("window").complaints() == []
