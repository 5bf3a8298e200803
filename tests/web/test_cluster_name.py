"""The cluster has one name and one id, wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqp_broker.client import Connection
from amqp_broker.settings.config import Config
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.test_metrics import metrics_of, scrape

ID = "internal_cluster_id"


@pytest.fixture(autouse=True)
def unnamed(http: Http) -> Iterator[None]:
    """Nobody has given it a name, before and afterwards."""
    http("DELETE", "/global-parameters/cluster_name")
    yield
    http("DELETE", "/global-parameters/cluster_name")


def labels_of(http: Http, path: str) -> dict[str, str]:
    """What a scrape says of the cluster."""
    (labels,) = [dict(labels) for name, labels in scrape(metrics_of(http), path) if name == "rabbitmq_identity_info"]
    return labels


def names(http: Http, broker: RunningBroker) -> set[str]:
    with Connection.open(broker.url) as connection:
        of_client = connection.server_properties["cluster_name"]
    return {
        http.get("/cluster-name")["name"], http.get("/overview")["cluster_name"],
        http.get("/definitions")["original_cluster_name"], of_client,
        *(labels_of(http, path)["rabbitmq_cluster"] for path in ("/metrics", "/metrics/per-object")),
    }  # fmt: skip


def test_it_has_one_name_everywhere(http: Http, broker: RunningBroker) -> None:
    assert names(http, broker) == {Config().cluster_name}
    assert http("PUT", "/cluster-name", {"name": "warren"}).status == 204
    assert names(http, broker) == {"warren"}
    assert http.get("/global-parameters/cluster_name")["value"] == "warren"
    assert {"name": "cluster_name", "value": "warren"} in http.get("/definitions")["global_parameters"]


def test_its_id_stays_and_goes_nowhere_else(http: Http) -> None:
    before = http.get(f"/global-parameters/{ID}")["value"]
    assert before.startswith("rabbitmq-cluster-id-")
    http("PUT", "/cluster-name", {"name": "warren"})
    exported = http.get("/definitions")
    assert [each["name"] for each in exported["global_parameters"]] == ["cluster_name"]
    theirs = {"global_parameters": [{"name": ID, "value": "rabbitmq-cluster-id-theirs"}]}
    assert http("POST", "/definitions", theirs).status == 204
    for method, body in (("PUT", {"value": "mine"}), ("DELETE", None)):
        refused = http(method, f"/global-parameters/{ID}", body)
        assert (refused.status, "never changes" in refused.reason) == (400, True)
    assert http.get(f"/global-parameters/{ID}")["value"] == before
    for path in ("/metrics", "/metrics/detailed", "/metrics/per-object", "/metrics/memory-breakdown"):
        assert labels_of(http, path)["rabbitmq_cluster_permanent_id"] == before, path


@pytest.mark.parametrize("name", ["", 5, None, ["warren"], "n" * 256, "ü" * 128, "\ud800"])
def test_a_name_is_a_text(http: Http, name: object) -> None:
    assert http("PUT", "/cluster-name", {"name": name}).status == 400
    assert http("PUT", "/global-parameters/cluster_name", {"value": name}).status == 400
    of_definitions = {"global_parameters": [{"name": "cluster_name", "value": name}]}
    refused = http("POST", "/definitions", of_definitions)
    assert (refused.status, "the name of a cluster is a text" in refused.reason) == (400, True)
    assert http.get("/cluster-name")["name"] == Config().cluster_name
