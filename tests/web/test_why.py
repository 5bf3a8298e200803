"""Why a message is not where somebody looks for it, over HTTP: what went nowhere, and where
one would go."""

from __future__ import annotations

import json
from base64 import b64encode
from http.client import HTTPConnection
from typing import Any

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import TIMEOUT_S, Http, segment

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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_trace_tells_what_happened(http: Http, name: str) -> None:
    one = segment(name)
    http("PUT", f"/queues/%2F/{one}", {"durable": True})
    opened = http("POST", "/v1/traces", {"vhost": "/", "exchange": "", "routing_key": name, "seconds": "60"})
    assert opened.status == 201, opened
    trace = opened.json["id"]
    assert [each["id"] for each in http.get("/v1/traces")] == [trace]
    http("POST", "/exchanges/%2F/amq.default/publish", {"routing_key": name, **NOTHING})
    got = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(http("POST", f"/queues/%2F/{one}/get", got).json) == 1
    found = http.get(f"/v1/traces/{trace}")
    assert [event["what"] for event in found["events"]] == ["published", "delivered"]
    assert found["events"][0]["queues"] == [name]
    after = segment(json.dumps(found["next"]))
    assert http.get(f"/v1/traces/{trace}?after={after}&limit=5")["events"] == []
    assert http("GET", f"/v1/traces/{trace}?after=x").status == 400
    assert http("DELETE", f"/v1/traces/{trace}").status == 204
    assert http("DELETE", f"/v1/traces/{trace}").status == 404
    assert http("GET", f"/v1/traces/{trace}").status == 404
    assert http("POST", "/v1/traces", {"vhost": "nothing"}).status == 404
    assert http("POST", "/v1/traces", {}).status == 400
    http("DELETE", f"/queues/%2F/{one}")


class Stream:
    """A tail that is being read."""

    def __init__(self, http: Http, query: str, **login: str) -> None:
        self._connection = HTTPConnection(http.host, http.port, timeout=TIMEOUT_S)
        said = login or {"authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
        self._connection.request("GET", f"/api/v1/tail?{query}", headers=said)
        self.response = self._connection.getresponse()

    def event(self) -> tuple[str, Any]:
        """The next one, comments passed over."""
        name = ""
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))

    def begin(self) -> None:
        assert self.response.readline() == b": it begins\n"

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def test_a_tail_is_a_stream_of_copies(http: Http, broker: RunningBroker) -> None:
    stream = Stream(http, "vhost=%2F&exchange=amq.topic&key=%23")
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    stream.begin()
    for name in HOSTILE:
        body = {"properties": {"headers": {"h": 5}}, "payload": name.encode("utf-8", "replace").decode()}
        http("POST", "/exchanges/%2F/amq.topic/publish", {"routing_key": name, **body, "payload_encoding": "string"})
    for name in HOSTILE:
        kind, event = stream.event()
        assert (kind, event["routing_key"], event["properties"]["headers"]) == ("message", name, {"h": 5})
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        for _ in range(500):
            channel.publish("amq.topic", "many", b"x")
        channel.call(m.QueueDeclare(queue="barrier", exclusive=True))
    left_out = 0
    while not left_out:
        kind, event = stream.event()
        left_out = event["left_out"] if kind == "left_out" else 0
    stream.close()
    while http.get("/v1/traces"):
        pass
    assert http("GET", "/v1/tail").status == 400
    assert http("GET", "/v1/tail?vhost=nothing").status == 404
    assert http("HEAD", "/v1/tail?vhost=%2F").status == 200
    assert http.get("/v1/traces") == []


def test_a_tail_ends_when_it_is_closed_elsewhere(http: Http) -> None:
    stream = Stream(http, "vhost=%2F")
    stream.begin()
    trace = http.get("/v1/traces")[0]["id"]
    assert http("DELETE", f"/v1/traces/{trace}").status == 204
    kind, event = stream.event()
    assert (kind, stream.response.read().strip()) == ("end", b"")
    assert trace in event["reason"]
    stream.close()


def test_a_tail_ends_with_the_session_of_its_reader(http: Http) -> None:
    form, plain = b"username=guest&password=guest", {"prefix": "", "authorization": ""}
    said = http("POST", "/login", raw=form, content_type="application/x-www-form-urlencoded", **plain)
    cookie = said.headers["set-cookie"].partition(";")[0]
    token = http("GET", "/session", cookie=cookie, **plain).json["token"]
    stream = Stream(http, "vhost=%2F", cookie=cookie)
    stream.begin()
    assert http("POST", "/logout", cookie=cookie, x_csrf_token=token, **plain).status == 204
    assert stream.event()[0] == "end"
    assert stream.response.read().strip() == b""
    while http.get("/v1/traces"):
        pass
    stream.close()
