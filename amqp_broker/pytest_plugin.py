"""The pytest plugin: the fixture `amqp_broker`, a virtual host of its own for every test, on one broker a
session.

    def test_worker(amqp_broker):
        connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))

The broker runs in a child process on a free port; with pytest-xdist, every worker has its own. The option
--amqp-broker-url (or AMQP_BROKER_TEST_URL) names a broker that runs already, whose user has to be an
administrator.

This module is loaded in every test run of those who have the package installed: it imports nothing but pytest
until the fixture is asked for.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from amqp_broker.system_client import SystemClient

URL_VARIABLE = "AMQP_BROKER_TEST_URL"


@dataclass(frozen=True, slots=True)
class BrokerForTest:
    """A virtual host of one test. `url` is complete; the rest are its parts, decoded."""

    url: str
    host: str
    port: int
    username: str
    password: str
    vhost: str

    @property
    def connect_kwargs(self) -> dict[str, str | int]:
        """Keyword arguments for `aio_pika.connect` and `connect_robust`, where a url does not suit."""
        return {
            "host": self.host,
            "port": self.port,
            "login": self.username,
            "password": self.password,
            "virtualhost": self.vhost,
        }


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amqp-broker")
    group.addoption(
        "--amqp-broker-url",
        metavar="URL",
        default=os.environ.get(URL_VARIABLE),
        help="an amqp-broker that runs already, for the fixture amqp_broker, instead of one of its own",
    )


@pytest.fixture(scope="session")
def amqp_broker_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The url of the session's broker: the given one's, or that of a child process."""
    given: str | None = pytestconfig.getoption("amqp_broker_url")
    if given is not None:
        yield given
        return
    from amqp_broker.testing.embedded import running

    with running(log_level="warning") as broker:
        yield broker.url


@pytest.fixture(scope="session")
def amqp_broker_system(amqp_broker_url: str) -> Iterator[SystemClient]:
    """The session's connection for requests to the broker itself (`request("statistics")`, ...)."""
    from amqp_broker.system_client import SystemClient

    with SystemClient(amqp_broker_url) as client:
        yield client


@pytest.fixture
def amqp_broker(amqp_broker_url: str, amqp_broker_system: SystemClient) -> Iterator[BrokerForTest]:
    """A fresh virtual host on the session's broker; gone, with all that is in it, after the test."""
    parts = urlsplit(amqp_broker_url)
    username = unquote(parts.username or "guest")
    vhost = f"test-{uuid.uuid4().hex}"
    amqp_broker_system.request("vhost.create", name=vhost, permissions_for=username)
    yield BrokerForTest(
        url=parts._replace(path="/" + quote(vhost, safe="")).geturl(),
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5672,
        username=username,
        password=unquote(parts.password or "guest"),
        vhost=vhost,
    )
    amqp_broker_system.request("vhost.delete", name=vhost)
