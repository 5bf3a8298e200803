"""On which nodes groups of queues are, over HTTP: RabbitMQ's paths of replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web replicas")

REPLICAS = "/queues/quorum/%2F/votes/replicas"
ON_NODE = "/queues/quorum/replicas/on"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One that others could join."""
    secret = tmp_path_factory.mktemp("replicas") / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    cluster = {"node_name": "n1", "cluster_listen": "127.0.0.1:0", "cluster_secret_file": str(secret)}
    with amqp_broker.running(management=True, log_level="warning", **cluster) as running:
        yield running


@pytest.fixture(scope="module")
def node(http: Http) -> str:
    """The name of the only node."""
    for name, kind in (("votes", "quorum"), ("plain", "classic")):
        made = http("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": {"x-queue-type": kind}})
        assert made.status == 201
    (row,) = http.get("/nodes")
    return str(row["name"])


def test_a_node_that_has_everything_gets_nothing_more(http: Http, node: str) -> None:
    assert http("POST", f"{REPLICAS}/add", {"node": node}).status == 204
    grown = http("POST", f"{ON_NODE}/{node}/grow", {"strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*"})
    assert (grown.status, grown.json) == (200, [])
    assert http("POST", f"{ON_NODE}/{node}/grow").status == 200


def test_the_last_one_keeps_what_it_has(http: Http, node: str) -> None:
    for path, body in ((f"{REPLICAS}/delete", {"node": node}), (f"{ON_NODE}/{node}/shrink", None)):
        refused = http("DELETE", path, body)
        assert refused.status == 400
        assert f"{node} is the only member of group" in refused.reason
    assert http.get("/queues/%2F/votes")["members"] == [node]


def test_what_cannot_be_is_refused(http: Http, node: str) -> None:
    assert "no member 'nowhere'" in http("POST", f"{REPLICAS}/add", {"node": "nowhere"}).reason
    assert "no member 'nowhere'" in http("DELETE", f"{ON_NODE}/nowhere/shrink").reason
    assert "leave out strategy and patterns" in http("POST", f"{ON_NODE}/{node}/grow", {"strategy": "even"}).reason
    assert "classic queue" in http("POST", "/queues/quorum/%2F/plain/replicas/add", {"node": node}).reason
    assert "no queue 'x'" in http("POST", "/queues/quorum/%2F/x/replicas/add", {"node": node}).reason
    assert http("POST", f"{REPLICAS}/add", {}).status == 400
