"""Streams over HTTP: looked at, trimmed, held, published again; who may."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from tests.web.http_client import Http, segment
from tests.web.test_metrics import metrics_of, scrape
from tests.web.test_moving import LONG_S, ended, fill

pytestmark = pytest.mark.xdist_group("web streams")
STREAM = {"x-queue-type": "stream"}
LOG = "/v1/streams/%2F/log"


@pytest.fixture
def log(http: Http) -> Http:
    fill(http, "log", b"1", b"2", b"3", b"4", **STREAM)
    return http


def test_a_stream_is_shown_and_trimmed(log: Http) -> None:
    found = log.get(LOG)
    assert (found["messages"], found["first_offset"], found["next_offset"]) == (4, 0, 4)
    assert log.get(f"{LOG}/offset?time=2001-01-01T00:00:00Z")["offset"] == 0
    assert log.get(f"{LOG}/offset?time={found['last_time'] + 1}")["offset"] == 4
    for wrong in ("", "?time=soon", "?time=2001-01-01T00:00:00"):
        assert log("GET", f"{LOG}/offset{wrong}").status == 400
    said = log("GET", f"{LOG}/offset?time=first").reason
    assert said == "time is a time such as 2026-01-31T12:00:00Z, or milliseconds since the epoch, and not 'first'"
    assert log("POST", f"{LOG}/trim", {"before": 2}).json == {"first_offset": 2}
    assert log("POST", f"{LOG}/trim", {}).status == 400
    assert log("GET", "/v1/streams/%2F/none").status == 404


def test_a_place_is_an_offset(log: Http) -> None:
    later = log.get(LOG)["last_time"] + 1
    moment = datetime.fromtimestamp(later / 1000 + 1, UTC).isoformat()
    for at, offset in (
        ("first", 0), ("last", 3), ("next", 4), ("2", 2), ("9", 4), ("-1", 3), ("1h", 0), ("2001-01-01T00:00:00Z", 0),
        (segment(moment), 4),
    ):  # fmt: skip
        assert log.get(f"{LOG}/offset?at={at}") == {"offset": offset}, at
    for wrong in ("", "at=soon", "at=1w", "at=", "at=2001-01-01T00:00:00", "at=1&time=1", "time=first"):
        assert log("GET", f"{LOG}/offset?{wrong}").status == 400, wrong
    assert log("GET", "/v1/streams/%2F/none/offset?at=first").status == 404


def test_it_is_sought_held_and_trimmed_at_a_place(log: Http) -> None:
    for place, position in (("next", 4), ("first", 0), ("last", 3), ("2001-01-01T00:00:00Z", 0), ("1", 1), (2, 2)):
        assert log("PUT", f"{LOG}/groups/billing", {"offset": place}).json == {"position": position}, place
    assert log("PUT", f"{LOG}/groups/billing", {"offset": "soon"}).status == 400
    assert log("PUT", f"{LOG}/holds/audit", {"offset": "last"}).status == 200
    assert log.get(LOG)["holds"][0]["offset"] == 3
    assert log("PUT", f"{LOG}/holds/audit", {"offset": "soon"}).status == 400
    assert log("POST", f"{LOG}/trim", {"before": "1h"}).json == {"first_offset": 0}
    assert log("POST", f"{LOG}/trim", {"before": "last"}).json == {"first_offset": 3}
    assert log("POST", f"{LOG}/trim", {"before": "soon"}).status == 400
    for wrong in ("PUT", "/groups/g", {"offset": "last"}), ("PUT", "/holds/h", {"offset": "last"}), (
        "POST", "/trim", {"before": "last"}
    ):  # fmt: skip
        assert log(wrong[0], f"/v1/streams/%2F/none{wrong[1]}", wrong[2]).status == 404, wrong


def test_its_segments_are_listed_page_by_page(log: Http, by_tag: dict[str, Http]) -> None:
    found = by_tag["viewer"].get(f"{LOG}/segments")
    (only,) = found["segments"]
    assert (only["first_offset"], only["next_offset"], only["is_sealed"], found["next"]) == (0, 4, False, None)
    assert only["messages"] == 4
    assert only["octets"] == log.get(LOG)["stream_bytes"]
    assert log.get(f"{LOG}/segments?from=4&limit=1")["segments"] == []
    for wrong in ("from=-1", "from=x", "limit=0", "limit=1000"):
        assert log("GET", f"{LOG}/segments?{wrong}").status == 400, wrong
    fill(log, "plain")
    said = log("GET", "/v1/streams/%2F/plain/segments")
    assert (said.status, "it has no offsets" in said.reason) == (400, True)


def test_groups_go_on_elsewhere_and_are_forgotten(log: Http) -> None:
    assert log("PUT", f"{LOG}/groups/billing", {"offset": 3}).json == {"position": 3}
    (group,) = log.get(LOG)["groups"]
    assert (group["name"], group["position"], group["lag"]) == ("billing", 3, 1)
    assert log("DELETE", f"{LOG}/groups/billing").status == 204
    assert log("DELETE", f"{LOG}/groups/billing").status == 400
    assert log.get(LOG)["groups"] == []


def test_it_is_held_by_who_may_read_it(log: Http, by_tag: dict[str, Http]) -> None:
    said = log("PUT", f"{LOG}/holds/audit", {"offset": 1, "for_ms": 60_000})
    assert said.status == 200
    assert log.get(LOG)["holds"] == [{"name": "audit", "offset": 1, "until": said.json["until"]}]
    assert log("DELETE", f"{LOG}/holds/audit").status == 204
    assert log.get(LOG)["holds"] == []
    assert log("PUT", "/v1/streams/%2F/none/holds/audit", {"offset": 1}).status == 404
    assert log("PUT", f"{LOG}/holds/audit", {"offset": -1}).status == 400
    permissions = {"configure": ".*", "write": ".*", "read": "^other$"}
    assert log("PUT", "/permissions/%2F/management", permissions).status in (201, 204)
    try:
        refused = by_tag["management"]("PUT", f"{LOG}/holds/audit", {"offset": 1})
        assert (refused.status, refused.json["reason"]) == (401, "Access refused.")
        assert by_tag["management"]("POST", f"{LOG}/trim", {"before": 1}).status == 401
    finally:
        log("PUT", "/permissions/%2F/management", {"configure": ".*", "write": ".*", "read": ".*"})


def test_what_a_producer_has_published(log: Http) -> None:
    message = {
        "properties": {"headers": {"x-producer-id": "p", "x-producer-sequence": 7}}, "routing_key": "log",
        "payload": "", "payload_encoding": "string",
    }  # fmt: skip
    log("POST", "/exchanges/%2F/amq.default/publish", message)
    assert log.get(f"{LOG}/producers/p?sequence=7") == {"sequence": 7, "offset": 4, "is_published": True}
    assert log.get(f"{LOG}/producers/q") == {"sequence": None, "offset": None}


def test_a_range_is_published_again_in_a_job(log: Http, by_tag: dict[str, Http]) -> None:
    fill(log, "to")
    manager = by_tag["management"]
    wanted = {"from": 1, "below": 3, "to": {"queue": "to"}}
    job = ended(manager, manager("POST", f"{LOG}/replay", wanted))
    assert (job["kind"], job["state"], job["moved"], job["next_offset"]) == ("stream-replay", "done", 2, 3)
    assert [each["payload"] for each in log.get("/v1/queues/%2F/to/messages")["messages"]] == ["2", "3"]
    assert log.get(LOG)["messages"] == 4
    job = ended(log, log("POST", f"{LOG}/replay", {"from": "2001-01-01T00:00:00Z", "to": {"exchange": "amq.topic"}}))
    assert (job["state"], job["unroutable"]) == ("done", 4)
    job = ended(log, log("POST", f"{LOG}/replay", {"from": "last", "below": "next", "to": {"queue": "to"}}))
    assert (job["state"], job["moved"], job["next_offset"]) == ("done", 1, 4)
    for wrong in (
        {"from": 0, "to": {"queue": "nowhere"}}, {"from": 0, "to": {"exchange": "no such"}},
        {}, {"from": 0}, {"from": 0, "to": {}}, {"from": "x", "to": {"queue": "to"}},
        {"from": 0, "to": {"queue": "to"}, "rate": 0}, {"from": 0, "to": {"queue": "to"}, "filter": "colour=red"},
    ):  # fmt: skip
        assert log("POST", f"{LOG}/replay", wrong).status == 400, wrong
    assert log("POST", "/v1/streams/%2F/none/replay", wanted).status == 404
    fill(log, "plain")
    job = ended(log, log("POST", "/v1/streams/%2F/plain/replay", wanted))
    assert (job["state"], "it has no offsets" in job["reason"]) == ("failed", True)


def test_metrics_say_how_far_behind_groups_are(log: Http) -> None:
    log("PUT", f"{LOG}/groups/billing", {"offset": 1})
    named = frozenset({("vhost", "/"), ("queue", "log")})
    group = named | {("group", "billing")}
    metrics = metrics_of(log)
    until = time.monotonic() + LONG_S
    lag = ("amqp_broker_stream_group_lag_messages", group)
    for path in ("/metrics/detailed?family=stream_metrics&queue=^log$", "/metrics/per-object"):
        while (found := scrape(metrics, path)).get(lag) != 3:  # rows are a little older than the stream
            assert time.monotonic() < until, found
        assert found["amqp_broker_stream_first_offset", named] == 0
        assert found["amqp_broker_stream_next_offset", named] == 4
        assert found["amqp_broker_stream_bytes", named] > 4
        assert found["amqp_broker_stream_groups_left_out", frozenset()] == 0
    others = scrape(metrics, "/metrics/detailed?family=stream_metrics&queue=^other$")
    assert lag not in others


def test_its_messages_are_looked_at(log: Http) -> None:
    found = log.get("/v1/queues/%2F/log/messages?from=1&limit=2")
    assert [(each["position"], each["payload"]) for each in found["messages"]] == [(1, "2"), (2, "3")]
    assert log("GET", "/v1/queues/%2F/log/messages/3/body").body == b"4"


def test_a_place_is_in_each_partition(http: Http) -> None:
    http("DELETE", "/queues/%2F/parts")
    arguments = {"x-queue-type": "stream", "x-stream-partitions": 2}
    assert http("PUT", "/queues/%2F/parts", {"durable": True, "arguments": arguments}).status == 201
    message = {"properties": {}, "routing_key": "parts-0", "payload": "x", "payload_encoding": "string"}
    for key in ("parts-0", "parts-0", "parts-1"):
        http("POST", "/exchanges/%2F/amq.default/publish", {**message, "routing_key": key})
    parts = "/v1/streams/%2F/parts"
    assert http.get(f"{parts}/offset?at=next") == {
        "partitions": [{"name": "parts-0", "offset": 2}, {"name": "parts-1", "offset": 1}],
    }  # fmt: skip
    assert http("PUT", f"{parts}/groups/g", {"offset": "next"}).json == {
        "partitions": [{"name": "parts-0", "position": 2}, {"name": "parts-1", "position": 1}],
    }  # fmt: skip
    assert http("POST", f"{parts}/trim", {"before": "next"}).json == {
        "partitions": [{"name": "parts-0", "first_offset": 2}, {"name": "parts-1", "first_offset": 1}],
    }  # fmt: skip
    for method, path, body in (
        ("PUT", f"{parts}/holds/h", {"offset": "first"}), ("GET", f"{parts}/segments", None),
        ("POST", f"{parts}/replay", {"from": "first", "to": {"exchange": "amq.topic"}}),
    ):  # fmt: skip
        said = http(method, path, body)
        assert (said.status, "partitions" in said.reason) == (400, True), said
    assert http("DELETE", "/queues/%2F/parts").status == 204


def test_what_partitions_have_is_counted_once(http: Http) -> None:
    arguments = {"x-queue-type": "stream", "x-stream-partitions": 2}
    assert http("PUT", "/queues/%2F/parts", {"durable": True, "arguments": arguments}).status == 201
    message = {"properties": {}, "routing_key": "parts", "payload": "x", "payload_encoding": "string"}
    for _ in range(4):
        http("POST", "/exchanges/%2F/amq.default/publish", message)
    metrics = metrics_of(http)
    path = "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&queue=^parts"
    until = time.monotonic() + LONG_S
    while True:
        found = scrape(metrics, path)
        messages = {dict(labels)["queue"]: count for (name, labels), count in found.items()
                    if name.endswith("queue_messages_ready")}  # fmt: skip
        if sum(messages.values()) == 4:  # rows are a little older than the stream
            break
        assert time.monotonic() < until, found
    assert sorted(messages) == ["parts-0", "parts-1"]
    consumers = {dict(labels)["queue"] for name, labels in found if name.endswith("queue_consumers")}
    assert consumers == {"parts", "parts-0", "parts-1"}
    assert http.get("/queues/%2F/parts")["messages"] == 4
    assert http("DELETE", "/queues/%2F/parts").status == 204
