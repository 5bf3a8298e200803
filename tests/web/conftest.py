"""One broker with its management process for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http

TAGS = ("none", "viewer", "management", "policymaker", "monitoring", "administrator")


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with amqp_broker.running(management=True, log_level="warning") as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: RunningBroker) -> Iterator[Http]:
    client = Http(broker.management_url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def by_tag(http: Http) -> Iterator[dict[str, Http]]:
    """A user for each tag, named after it, who may do everything in "/"."""
    clients = {}
    for tag in TAGS:
        http("PUT", f"/users/{tag}", {"password": "secret", "tags": "" if tag == "none" else tag})
        http("PUT", f"/permissions/%2F/{tag}", {"configure": ".*", "write": ".*", "read": ".*"})
        clients[tag] = http.as_user(tag, "secret")
    yield clients
    for client in clients.values():
        client.close()
