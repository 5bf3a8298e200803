"""Messages of queues over HTTP: looked at, downloaded, moved and replayed in jobs."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from tests.web.http_client import Http

pytestmark = pytest.mark.xdist_group("web moving")
LONG_S = 60


def fill(http: Http, name: str, *bodies: bytes, **arguments: object) -> None:
    http("DELETE", f"/queues/%2F/{name}")
    assert http("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": arguments}).status == 201
    for body in bodies:
        payload = base64.b64encode(body).decode()
        message = {"properties": {"app_id": "a"}, "routing_key": name, "payload": payload, "payload_encoding": "base64"}
        assert http("POST", "/exchanges/%2F/amq.default/publish", message).json == {"routed": True}


def ended(http: Http, said: Any) -> dict[str, Any]:
    assert said.status == 202, said
    until = time.monotonic() + LONG_S
    while (job := http.get(f"/v1/jobs/{said.json['id']}"))["state"] == "running":
        assert time.monotonic() < until, job
    found: dict[str, Any] = job
    return found


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_messages_are_looked_at(http: Http, queue_type: str) -> None:
    large = bytes(range(256)) * 2000
    fill(http, "seen", b"<script>", b"\xff", large, **{"x-queue-type": queue_type})
    found = http.get("/v1/queues/%2F/seen/messages?limit=2")
    assert [(each["payload"], each["payload_encoding"]) for each in found["messages"]] == [
        ("<script>", "string"), ("/w==", "base64"),
    ]  # fmt: skip
    assert found["next"] == 3
    assert http.get("/v1/queues/%2F/seen/messages?from=newest&limit=1")["messages"][0]["payload_bytes"] == len(large)
    whole = http("GET", "/v1/queues/%2F/seen/messages/3/body")
    assert whole.body == large
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"].startswith("attachment")
    assert http("GET", "/v1/queues/%2F/seen/messages/9/body").status == 404
    assert http("GET", "/v1/queues/%2F/nothing/messages").status == 404
    assert http("GET", "/v1/queues/%2F/seen/messages?from=x").status == 400


def test_messages_are_moved_as_the_user(http: Http, by_tag: dict[str, Http]) -> None:
    fill(http, "from", b"1", b"2", b"3")
    fill(http, "to")
    dry = http("POST", "/v1/queues/%2F/from/move", {"to": {"queue": "to"}, "dry_run": True}).json
    assert (dry["moved"], dry["is_all"]) == (3, True)
    manager = by_tag["management"]
    said = manager("POST", "/v1/queues/%2F/from/move", {"to": {"queue": "to"}, "positions": [2]})
    job = ended(manager, said)
    assert (job["state"], job["moved"], job["left_over"], job["user"]) == ("done", 1, 1, "management")
    assert http.get("/v1/queues/%2F/to/messages")["messages"][0]["payload"] == "2"
    assert by_tag["policymaker"]("GET", f"/v1/jobs/{job['id']}").status == 404
    assert job["id"] in [each["id"] for each in http.get("/v1/jobs")]
    assert manager("DELETE", f"/v1/jobs/{job['id']}").status == 204
    assert http("GET", f"/v1/jobs/{job['id']}").status == 404
    for wrong in ({}, {"to": {}}, {"to": {"queue": "to"}, "rate": 0}, {"to": {"queue": "to"}, "positions": [99]}):
        assert http("POST", "/v1/queues/%2F/from/move", wrong).status == 400, wrong


def test_what_nobody_takes_stays(http: Http) -> None:
    fill(http, "kept", b"1", b"2")
    to = {"exchange": "amq.direct", "routing_key": "nowhere"}
    job = ended(http, http("POST", "/v1/queues/%2F/kept/move", {"to": to}))
    assert (job["moved"], job["unroutable"]) == (0, 2)
    assert len(http.get("/v1/queues/%2F/kept/messages")["messages"]) == 2


@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize(
    ("to", "missing"),
    [
        ({"queue": "nowhere"}, "queue 'nowhere'"),
        ({"exchange": "amq.default", "routing_key": "nowhere"}, "queue 'nowhere'"),
        ({"exchange": "no such", "routing_key": "kept"}, "exchange 'no such'"),
    ],
)
def test_no_job_is_begun_to_where_nothing_is(http: Http, to: dict[str, str], missing: str, is_dry: bool) -> None:
    fill(http, "kept", b"1")
    jobs = len(http.get("/v1/jobs"))
    refused = http("POST", "/v1/queues/%2F/kept/move", {"to": to, "dry_run": is_dry})
    assert (refused.status, f"there is no {missing} in vhost '/'" in refused.reason) == (400, True)
    assert len(http.get("/v1/jobs")) == jobs


@pytest.mark.parametrize("what", ["move", "replay"])
def test_no_job_is_begun_of_what_is_not_there(http: Http, what: str) -> None:
    body = {"to": {"queue": "kept"}} if what == "move" else {}
    fill(http, "kept")
    for path in ("%2F/nothing", "none/kept"):
        assert http("POST", f"/v1/queues/{path}/{what}", body).status == 404, path


def test_actions_are_those_of_a_queue_that_is_there(http: Http) -> None:
    fill(http, "kept")
    assert http("POST", "/queues/%2F/kept/actions", {"action": "sync"}).status == 204
    assert http("POST", "/queues/%2F/kept/actions", {"action": "sing"}).json["reason"] == ["unknown", "sing"]
    for path, reason in (("%2F/nothing", "queue_not_found"), ("none/kept", "vhost_not_found")):
        refused = http("POST", f"/queues/{path}/actions", {"action": "sync"})
        assert (refused.status, refused.json) == (404, {"error": "not_found", "reason": reason})


def test_a_move_into_its_own_queue_ends(http: Http) -> None:
    fill(http, "round", b"1", b"2", b"3")
    job = ended(http, http("POST", "/v1/queues/%2F/round/move", {"to": {"queue": "round"}}))
    assert (job["state"], job["moved"]) == ("done", 3)
    assert [each["payload"] for each in http.get("/v1/queues/%2F/round/messages")["messages"]] == ["1", "2", "3"]


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_job_that_is_cancelled_half_way_leaves_the_rest(http: Http, queue_type: str) -> None:
    bodies = [b"%d" % number for number in range(60)]
    fill(http, "half", *bodies, **{"x-queue-type": queue_type})
    fill(http, "otherhalf")
    said = http("POST", "/v1/queues/%2F/half/move", {"to": {"queue": "otherhalf"}, "rate": 20})
    until = time.monotonic() + LONG_S
    while http.get(f"/v1/jobs/{said.json['id']}")["moved"] < 5:
        assert time.monotonic() < until
    assert http("DELETE", f"/v1/jobs/{said.json['id']}").status == 204
    job = ended(http, said)
    assert (job["state"], 5 <= job["moved"] < 60) == ("cancelled", True)
    moved, left = (
        [each["payload"] for each in http.get(f"/v1/queues/%2F/{name}/messages?limit=100")["messages"]]
        for name in ("otherhalf", "half")
    )
    assert len(moved) == job["moved"]
    assert [*moved, *left] == [body.decode() for body in bodies], "each in one place, in order"
    # What has ended is forgotten, and may be begun again.
    assert http("DELETE", f"/v1/jobs/{said.json['id']}").status == 204
    job = ended(http, http("POST", "/v1/queues/%2F/half/move", {"to": {"queue": "otherhalf"}}))
    assert (job["state"], job["moved"]) == ("done", len(left))


def test_what_comes_back_is_no_duplicate_of_itself(http: Http) -> None:
    """A queue that remembers message ids takes a message that was moved away and back; a mere copy it drops."""
    fill(http, "remembers", **{"x-queue-type": "quorum", "x-message-deduplication": True})
    fill(http, "elsewhere")
    message = {"properties": {"message_id": "once"}, "routing_key": "remembers", "payload": "1"}
    for _ in range(2):
        http("POST", "/exchanges/%2F/amq.default/publish", {**message, "payload_encoding": "string"})
    assert len(http.get("/v1/queues/%2F/remembers/messages")["messages"]) == 1, "the second is a duplicate"
    for source, goal in (("remembers", "elsewhere"), ("elsewhere", "remembers")):
        job = ended(http, http("POST", f"/v1/queues/%2F/{source}/move", {"to": {"queue": goal}}))
        assert (job["state"], job["moved"]) == ("done", 1)
    (found,) = http.get("/v1/queues/%2F/remembers/messages")["messages"]
    assert (found["properties"]["message_id"], found["payload"]) == ("once", "1")
    assert "x-moved-by" in found["properties"]["headers"]
    assert http.get("/v1/queues/%2F/elsewhere/messages")["messages"] == []
