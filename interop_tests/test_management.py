"""amqpstorm's client for RabbitMQ's HTTP API, with ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from amqpstorm.management import ApiError, ManagementApi

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker

pytestmark = pytest.mark.xdist_group("management")
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def managed() -> Iterator[RunningBroker]:
    with amqp_broker.running(management=True) as running:
        yield running


@pytest.fixture(scope="module")
def api(managed: RunningBroker) -> ManagementApi:
    return ManagementApi(managed.management_url.rstrip("/"), "guest", "guest", timeout=TIMEOUT_S)


def test_amqpstorm_declares_binds_and_removes(api: ManagementApi) -> None:
    api.queue.declare("q", durable=True, arguments={"x-max-length": 10})
    api.exchange.declare("x", exchange_type="topic")
    api.queue.bind("q", "x", "a.*")
    assert [each["source"] for each in api.queue.bindings("q")] == ["", "x"]
    assert api.queue.get("q")["arguments"] == {"x-max-length": 10}
    assert {"q"} <= {each["name"] for each in api.queue.list()}
    assert api.basic.publish("body", "a.b", exchange="x", properties={"headers": {"a": 1}}) == {"routed": True}
    (message,) = api.basic.get("q", requeue=True)
    assert (message.body, message.properties["headers"]) == ("body", {"a": 1})
    api.queue.purge("q")
    assert api.basic.get("q") == []
    api.queue.unbind("q", "x", "a.*")
    api.exchange.delete("x")
    api.queue.delete("q")
    with pytest.raises(ApiError, match="NOT-FOUND"):
        api.queue.get("q")


def test_amqpstorm_looks_after_users(api: ManagementApi) -> None:
    api.virtual_host.create("v")
    api.user.create("u", "p", "management")
    api.user.set_permission("u", "v")
    assert api.user.get_permission("u", "v")["configure"] == ".*"
    assert {"u", "guest"} <= {each["user"] for each in api.virtual_host.get_permissions("v")}
    api.user.delete_permission("u", "v")
    api.user.delete("u")
    api.virtual_host.delete("v")
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.healthchecks.get()["status"] == "ok"
    assert api.whoami()["name"] == "guest"
    for listed in (api.nodes(), api.connection.list(), api.channel.list(), api.overview()["listeners"]):
        assert listed
