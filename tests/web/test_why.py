"""Why a message is not where somebody looks for it, over HTTP: what went nowhere, and where
one would go."""

from __future__ import annotations

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http, segment

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web why")

HOSTILE = ("<script>", "100%25 %2F", "é\U0001f600", "a/b?c#d", "\udcff\udc80")
NOTHING = {"properties": {}, "payload": "", "payload_encoding": "string"}


def test_what_went_nowhere_is_listed_the_newest_first(http: Http) -> None:
    for key in HOSTILE:
        said = http("POST", "/exchanges/%2F/amq.direct/publish", {"routing_key": key, **NOTHING})
        assert said.json == {"routed": False}
    rows = http.get("/v1/unroutable?exchange=amq.direct")
    assert [row["routing_key"] for row in rows] == list(HOSTILE[::-1])
    assert {row["user"] for row in rows} == {"guest"}
    assert all(row["mandatory"] and row["at"] and row["vhost"] == "/" for row in rows)
    page = http.get("/v1/unroutable?page=2&page_size=2&columns=routing_key")
    assert [row["routing_key"] for row in page["items"]] == [HOSTILE[2], HOSTILE[1]]
    assert page["total_count"] == len(HOSTILE)
    assert http.get("/v1/unroutable?sort=routing_key&page=1")["items"][0]["routing_key"] == min(HOSTILE)
    one = http.get(f"/v1/unroutable?routing_key={segment(HOSTILE[1])}")
    assert [row["routing_key"] for row in one] == [HOSTILE[1]]
    assert http.get("/v1/unroutable?exchange=nothing") == []
    assert http("GET", "/v1/unroutable?vhost=nothing").status == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_where_a_message_would_go(http: Http, name: str) -> None:
    one = segment(name)
    for kind in ("queues", "exchanges"):
        assert http("PUT", f"/{kind}/%2F/{one}", {"durable": True}).status == 201
    http("POST", f"/bindings/%2F/e/{one}/q/{one}", {"routing_key": name})
    path = f"/v1/exchanges/%2F/{one}/route-test"
    said = http("POST", path, {"routing_key": name, "headers": {"n": 5}, "size": "7", "limit": 5})
    assert said.status == 200, said
    assert [queue["name"] for queue in said.json["queues"]] == [name]
    assert said.json["exchanges"][0]["matched"][0]["routing_key"] == name
    assert http("POST", "/v1/exchanges/%2F/amq.default/route-test", {"routing_key": name}).json["queue_count"] == 1
    nowhere = http("POST", path, {"routing_key": "x"}).json
    assert (nowhere["queue_count"], nowhere["exchanges"][0]["not_matched"][0]["routing_key"]) == (0, name)
    assert http("POST", path, {"headers": 5}).status == 400
    assert http("POST", path, {"limit": 1000}).status == 400
    assert http("POST", path, {"user": "nobody"}).status == 404
    for kind in ("queues", "exchanges"):
        http("DELETE", f"/{kind}/%2F/{one}")
    assert http("POST", path, {}).status == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_a_queue_says_what_is_the_matter_with_it(http: Http, broker: RunningBroker, name: str) -> None:
    one = segment(name)
    http("PUT", f"/queues/%2F/{one}", {"durable": True})
    publish = {"routing_key": name, **NOTHING}
    assert http("POST", "/exchanges/%2F/amq.default/publish", publish).json == {"routed": True}
    shown = http.get(f"/queues/%2F/{one}")
    assert shown["amqp_broker"]["hints"] == ["1 message waits and there is no consumer."]
    assert shown["amqp_broker"]["eta_ms"] == "never"
    assert "amqp_broker" not in http.get("/queues")[0]
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.call(m.BasicQos(prefetch_count=5))
        channel.consume(name)
        channel.call(m.QueueDeclare(queue=name, passive=True))
        (details,) = http.get(f"/queues/%2F/{one}")["consumer_details"]
        assert (details["prefetch_count"], details["messages_unacknowledged"]) == (5, 1)
    http("DELETE", f"/queues/%2F/{one}")


@pytest.mark.parametrize("name", HOSTILE)
def test_the_group_behind_a_quorum_queue(http: Http, name: str) -> None:
    one = segment(name)
    http("PUT", f"/queues/%2F/{one}", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    http("PUT", "/queues/%2F/classic", {"durable": True})
    for path in ("/v1/quorum-queues", "/v1/quorum-queues/%2F"):
        assert [row["name"] for row in http.get(path)] == [name]
    view = http.get(f"/v1/quorum-queues/%2F/{one}")
    (member,) = view["members"]
    assert (member["node"], member["role"], member["lag"]) == (view["leader"], "leader", 0)
    assert view["leader_changes"][0]["term"] == view["term"]
    assert http("GET", "/v1/quorum-queues/%2F/classic").status == 400
    assert http("GET", "/v1/quorum-queues/%2F/nothing").status == 404
    for queue in (one, "classic"):
        http("DELETE", f"/queues/%2F/{queue}")
