"""A node is drained and revived over HTTP; probes say so, and whoever monitors may ask whether it can be stopped."""

from __future__ import annotations

import pytest

from amqp_broker.client import ConnectFailed, Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web draining")


def test_drained_and_revived(broker: RunningBroker, http: Http, by_tag: dict[str, Http]) -> None:
    node = http.get("/overview")["node"]
    assert http.get(f"/v1/nodes/{node}/guard")["is_safe"] is True
    assert http("GET", "/readyz", prefix="").status == 200
    said = http("POST", f"/v1/nodes/{node}/drain", {"pace": 5})
    assert (said.status, said.json["is_draining"]) == (200, True)
    assert http("GET", "/readyz", prefix="").status == 503
    assert http("GET", "/health/checks/is-in-service").status == 503
    assert http("GET", "/livez", prefix="").status == http("GET", "/livez/node", prefix="").status == 200
    assert by_tag["monitoring"].get(f"/v1/nodes/{node}/guard?wait=5")["is_draining"] is True
    with pytest.raises(ConnectFailed) as refused:
        Connection.open(broker.url)
    assert refused.value.reply_code == 320
    # These pages go on.
    assert http("PUT", "/queues/%2F/meanwhile", {"durable": True}).status == 201
    assert http("POST", f"/v1/nodes/{node}/revive").json["is_draining"] is False
    assert http("GET", "/readyz", prefix="").status == 200
    Connection.open(broker.url).close()
    whats = [line["what"] for line in http.get("/v1/audit?what=node.&limit=2")["items"]]
    assert whats == ["node.revive", "node.drain"]


def test_what_cannot_be(http: Http) -> None:
    node = http.get("/overview")["node"]
    assert http("POST", "/v1/nodes/nowhere/drain").status == 404
    assert http("POST", f"/v1/nodes/{node}/drain", {"pace": 0}).status == 400
    assert http("POST", f"/v1/nodes/{node}/drain", {"pace": "much"}).status == 400
    assert http("GET", f"/v1/nodes/{node}/guard?wait=x").status == 400
    assert http.get(f"/v1/nodes/{node}/guard")["is_draining"] is False
