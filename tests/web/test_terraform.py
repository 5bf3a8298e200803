"""Terraform's provider for RabbitMQ (cyrilgdn/rabbitmq), which speaks through rabbit-hole: what it asks to make, read,
change and destroy each of its resources, as its source and that of rabbit-hole have it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from tests.web.http_client import Http, segment

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web terraform")
V = segment("tf/vhost")


class Provider:
    """rabbit-hole's ways: whoever gets below 300 is content, 404 of a read is "not there"."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def put(self, path: str, body: dict[str, Any]) -> None:
        said = self._http("PUT", path, body, content_type="application/json")
        assert said.status in (201, 204), said

    def post(self, path: str, body: dict[str, Any]) -> str:
        said = self._http("POST", path, body, content_type="application/json")
        assert said.status == 201, said
        return said.headers["location"]

    def read(self, path: str) -> Any:
        said = self._http("GET", path)
        return None if said.status == 404 else said.json

    def destroy(self, path: str) -> None:
        assert self._http("DELETE", path).status == 204
        # It may be gone already, which it takes for done.
        assert self._http("DELETE", path).status == 404


@pytest.fixture
def provider(http: Http) -> Provider:
    found = Provider(http)
    found.put(f"/vhosts/{V}", {"description": "", "default_queue_type": "quorum", "tracing": False})
    return found


def test_virtual_hosts_and_users(provider: Provider) -> None:
    vhost = provider.read(f"/vhosts/{V}")
    assert (vhost["name"], vhost["default_queue_type"]) == ("tf/vhost", "quorum")
    provider.put("/users/tf", {"password": "first", "tags": "management,policymaker"})
    assert set(provider.read("/users/tf")["tags"]) == {"management", "policymaker"}
    provider.put("/users/tf", {"password": "second", "tags": ""})
    assert provider.read("/users/tf")["tags"] == []
    allowed = {"configure": "", "write": ".*", "read": "^a$"}
    provider.put(f"/permissions/{V}/tf", allowed)
    assert {name: provider.read(f"/permissions/{V}/tf")[name] for name in allowed} == allowed
    topic = {"exchange": "amq.topic", "write": "^w", "read": "^r"}
    provider.put(f"/topic-permissions/{V}/tf", topic)
    (found,) = provider.read(f"/topic-permissions/{V}/tf")
    assert {name: found[name] for name in topic} == topic
    for path in (f"/topic-permissions/{V}/tf", f"/permissions/{V}/tf", "/users/tf"):
        provider.destroy(path)
    assert provider.read("/users/tf") is None


def test_queues_exchanges_and_bindings(provider: Provider) -> None:
    arguments: dict[str, Any] = {"alternate-exchange": "amq.fanout"}
    exchange = {"type": "topic", "durable": True, "auto_delete": False, "arguments": arguments}
    provider.put(f"/exchanges/{V}/shop", exchange)
    shown = provider.read(f"/exchanges/{V}/shop")
    assert {name: shown[name] for name in exchange} == exchange
    queue = {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 10, "x-queue-type": "classic"}}
    provider.put(f"/queues/{V}/orders", queue)
    shown = provider.read(f"/queues/{V}/orders")
    assert {name: shown[name] for name in queue} == queue
    assert shown["type"] == "classic"
    for arguments in ({}, {"x-match": "all", "n": 1}):
        location = provider.post(
            f"/bindings/{V}/e/shop/q/orders", {"routing_key": "a.#", "arguments": arguments, "source": "shop"}
        )
        key = unquote(location.rpartition("/")[2])
        listed = [each for each in provider.read(f"/bindings/{V}/e/shop/q/orders") if each["arguments"] == arguments]
        assert [each["properties_key"] for each in listed] == [key]
        provider.destroy(f"/bindings/{V}/e/shop/q/orders/{segment(key)}")
    provider.destroy(f"/queues/{V}/orders")
    provider.destroy(f"/exchanges/{V}/shop")


def test_policies_and_parameters(provider: Provider, http: Http) -> None:
    definition = {"max-length": 5, "overflow": "drop-head"}
    policy = {"pattern": "^a", "priority": 3, "apply-to": "queues", "definition": definition}
    for kind in ("policies", "operator-policies"):
        own = policy if kind == "policies" else {**policy, "definition": {"max-length": 5}}
        provider.put(f"/{kind}/{V}/p", own)
        shown = provider.read(f"/{kind}/{V}/p")
        assert {name: shown[name] for name in own} == own
        provider.destroy(f"/{kind}/{V}/p")
    # Shovels and federation are other programs' here: it says how it is done instead.
    for component in ("shovel", "federation-upstream"):
        said = http("PUT", f"/parameters/{component}/{V}/p", {"value": {"src-uri": "amqp://"}})
        assert (said.status, "amqp-broker queue move" in said.reason) == (400, True), said
