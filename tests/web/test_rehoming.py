"""Homes of classic queues over HTTP: shown, changed for one queue and for all, as what would happen and in jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.test_moving import ended, fill
from tests.web.test_process import children_of
from tests.web.ui.test_sessions import Page

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web rehoming")


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with amqp_broker.running(management=True, workers=2, log_level="warning") as running:
        yield running


def management_of(broker: RunningBroker) -> int:
    """The number of its management process."""
    children = children_of(broker.process.pid)
    all_below = [*children, *(each for child in children for each in children_of(child))]
    (found,) = (each for each in all_below if b"management" in Path(f"/proc/{each}/cmdline").read_bytes())
    return found


def other_home(http: Http, name: str) -> tuple[str, str]:
    """Where a queue lives, and the other worker."""
    said = http.get(f"/v1/queues/%2F/{name}/homes")
    (other,) = said["homes"]
    return said["home"], other


def test_a_queue_moves(http: Http) -> None:
    fill(http, "moving", b"1", b"2", b"3")
    home, other = other_home(http, "moving")
    assert {home, other} == set(http.get("/v1/homes")["homes"])
    assert http.get("/v1/homes")["types"] == ["classic"]
    where = "/v1/queues/%2F/moving/rehome"
    dry = http("POST", where, {"home": other, "dry_run": True})
    assert (dry.status, dry.json) == (200, {
        "vhost": "/", "name": "moving", "from": home, "home": other, "messages": 3, "message_bytes": 3,
        "messages_unacknowledged": 0, "consumers": 0,
    })  # fmt: skip
    assert http.get("/queues/%2F/moving")["node"] == home
    job = ended(http, http("POST", where, {"home": other}))
    assert (job["kind"], job["state"], job["queue"], job["moved"]) == ("rehome", "done", "moving", 3), job
    assert (job["queues"], job["stayed"]) == (1, [])
    assert http.get("/queues/%2F/moving")["node"] == other
    assert [each["payload"] for each in http.get("/v1/queues/%2F/moving/messages")["messages"]] == ["1", "2", "3"]


def test_what_stays_says_why(http: Http) -> None:
    fill(http, "log", **{"x-queue-type": "quorum"})
    fill(http, "here")
    home, other = other_home(http, "here")
    said = http("GET", "/v1/queues/%2F/log/homes")
    assert (said.status, "is a quorum queue: it has no home" in said.reason) == (400, True)
    for name, goal, status, why in (
        ("log", other, 400, "is a quorum queue: it has no home"), ("here", home, 400, f"lives at {home} already"),
        ("here", "n9", 400, f"no node or worker 'n9'; there are {other}"), ("nothing", other, 404, "Not Found"),
    ):  # fmt: skip
        for dry_run in (True, False):
            said = http("POST", f"/v1/queues/%2F/{name}/rehome", {"home": goal, "dry_run": dry_run})
            assert (said.status, why in said.reason) == (status, True), (name, goal, said)
    assert http("GET", "/v1/queues/%2F/nothing/homes").status == 404
    assert http("POST", "/v1/queues/%2F/here/rehome", {}).json["reason"] == [{"key_missing": "home"}]


def test_one_that_is_refused_by_its_home_ends_as_failed(http: Http, broker: RunningBroker) -> None:
    """The home knows what the metadata do not: who leases from the queue."""
    fill(http, "leased", b"1")
    _, other = other_home(http, "leased")
    with Connection.open(broker.url) as connection:
        opened = {"queue": "leased", "group": "g", "owner": "o"}
        said = connection.channel().request("amq.system", "lease.open", json.dumps(opened).encode())
        assert json.loads(said.body)["ok"], said
        job = ended(http, http("POST", "/v1/queues/%2F/leased/rehome", {"home": other}))
    assert (job["state"], job["queues"]) == ("failed", 0), job
    assert "is being leased from" in job["reason"]
    assert [each["name"] for each in job["stayed"]] == ["leased"]


def test_all_are_spread(http: Http) -> None:
    for each in http.get("/queues"):
        http("DELETE", f"/queues/%2F/{each['name']}")
    names = [f"q{number}" for number in range(4)]
    for name in names:
        fill(http, name, b"x" * 100_000)
    homes = http.get("/v1/homes")["homes"]
    for name in names:  # all at one
        if http.get(f"/queues/%2F/{name}")["node"] != homes[0]:
            assert ended(http, http("POST", f"/v1/queues/%2F/{name}/rehome", {"home": homes[0]}))["state"] == "done"
    dry = http("POST", "/v1/rebalance/classic-queues", {"dry_run": True})
    assert dry.status == 200
    assert [(each["from"], each["home"]) for each in dry.json["moves"]] == [(homes[0], homes[1])] * 2
    job = ended(http, http("POST", "/v1/rebalance/classic-queues"))
    assert (job["kind"], job["state"], job["queues"], job["moved"]) == ("rebalance", "done", 2, 2), job
    assert sorted(http.get(f"/queues/%2F/{name}")["node"] for name in names) == sorted(homes * 2)
    again = http("POST", "/v1/rebalance/classic-queues", {"dry_run": True}).json
    assert again == {"homes": homes, "moves": []}
    assert ended(http, http("POST", "/v1/rebalance/classic-queues"))["queues"] == 0


def test_it_is_written_down_as_whose_it_was(http: Http, by_tag: dict[str, Http]) -> None:
    """Also of who may not use the virtual host: homes are the administrator's."""
    fill(http, "written", b"1")
    _, other = other_home(http, "written")
    http("DELETE", "/permissions/%2F/administrator")
    boss = by_tag["administrator"]
    assert boss("POST", "/v1/queues/%2F/written/rehome", {"home": other, "dry_run": True}).status == 200
    assert http.get("/v1/audit?what=queue.rehome&name=written")["items"] == []
    assert ended(boss, boss("POST", "/v1/queues/%2F/written/rehome", {"home": other}))["state"] == "done"
    (line,) = http.get("/v1/audit?what=queue.rehome&name=written")["items"]
    assert {key: line[key] for key in ("user", "from", "via", "vhost", "outcome")} == {
        "user": "administrator", "from": "127.0.0.1", "via": "http", "vhost": "/", "outcome": "done",
    }  # fmt: skip
    assert line["details"] == {"home": other}


def test_a_page_of_others_moves_nothing(http: Http) -> None:
    fill(http, "forged")
    home, other = other_home(http, "forged")
    page = Page(http)
    assert page.log_in().status == 200
    where = "/v1/queues/%2F/forged/rehome"
    for headers in ({"x_csrf_token": ""}, {"origin": "http://elsewhere.example"}):
        assert page("POST", where, {"home": other}, **headers).status == 403
        assert page("POST", "/v1/rebalance/classic-queues", {}, **headers).status == 403
    assert http.get("/queues/%2F/forged")["node"] == home
    assert ended(http, page("POST", where, {"home": other}))["state"] == "done"


def test_what_was_asked_for_is_written_down_though_who_asked_is_killed(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path / "data", management=True, workers=2) as broker:
        homes = {}
        for number in range(4):
            http = Http(broker.management_url)
            fill(http, f"q{number}", b"1")
            _, other = other_home(http, f"q{number}")
            homes[f"q{number}"] = other
            assert http("POST", f"/v1/queues/%2F/q{number}/rehome", {"home": other}).status == 202
            os.kill(management_of(broker), signal.SIGKILL)
            http.close()
        http = Http(broker.management_url)
        moved = {name for name, home in homes.items() if http.get(f"/queues/%2F/{name}")["node"] == home}
        http.close()
    files = sorted((tmp_path / "data" / "audit").iterdir())
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    written = {line["name"] for line in lines if line["what"] == "queue.rehome" and line["outcome"] == "done"}
    assert written == moved
