"""Fixtures of the interop tests: the broker under test, a virtual host for each module, names, a line that
can be cut.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from interop_tests.administration import administrator
from interop_tests.broker_under_test import (
    BrokerUnderTest,
    Restartable,
    Unavailable,
    broker_under_test,
    restartable_broker,
)
from interop_tests.cut_line import CutLine
from interop_tests.java_program import QUICK, JavaProgram, build

Named = Callable[[str], str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "holds(behaviour): the behaviour of the protocol that this test holds")
    config.addinivalue_line("markers", "ours_only(reason): decided otherwise than RabbitMQ 3.10 does it")


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerUnderTest]:
    with broker_under_test() as found:
        yield found


@pytest.fixture(scope="session")
def java_program(tmp_path_factory: pytest.TempPathFactory) -> JavaProgram:
    """Builds a Java program, and returns the command that runs it."""

    def made(source: str, main: str) -> list[str]:
        target = build(source, tmp_path_factory.mktemp("java") / source)
        return ["java", "-Xmx256m", *QUICK, "-cp", f"{target}/classes:{target}/dependency/*", main]

    return made


@pytest.fixture(scope="session")
def broker_url(broker: BrokerUnderTest) -> str:
    return broker.url


@pytest.fixture(autouse=True)
def _only_ours(request: pytest.FixtureRequest, broker: BrokerUnderTest) -> None:
    mark = request.node.get_closest_marker("ours_only")
    if mark is not None and broker.is_rabbitmq:
        pytest.skip(f"RabbitMQ 3.10 differs: {mark.args[0]}")


@pytest.fixture(scope="module")
def url(broker: BrokerUnderTest) -> Iterator[str]:
    """The URL of a virtual host of the module's own, gone afterwards; the broker's own one where it cannot be
    made.
    """
    try:
        admin = administrator(broker)
    except Unavailable:
        yield broker.url
        return
    vhost = f"interop-{uuid.uuid4().hex[:12]}"
    parts = urlsplit(broker.url)
    admin.create_vhost(vhost)
    admin.put_permission(parts.username or "guest", vhost, ".*", ".*", ".*")
    yield urlunsplit(parts._replace(path=f"/{quote(vhost, safe='')}"))
    admin.delete_vhost(vhost)


@pytest.fixture
def named() -> Named:
    """Makes names that no other test uses."""

    def made(stem: str) -> str:
        return f"{stem}-{uuid.uuid4().hex[:12]}"

    return made


@pytest.fixture
def line(url: str) -> Iterator[CutLine]:
    """A line to the broker that the test can cut."""
    with CutLine(url) as found:
        yield found


@pytest.fixture
def restartable() -> Iterator[Restartable]:
    try:
        with restartable_broker() as found:
            yield found
    except Unavailable as reason:
        pytest.skip(str(reason))
