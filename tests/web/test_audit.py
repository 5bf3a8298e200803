"""The audit log over HTTP: what is asked of the management process is the node's to write down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import ChannelClosed, Connection
from amqp_broker.protocol import methods as m
from amqp_broker.testing.embedded import RunningBroker
from tests.docs.blocks import block_named
from tests.web.http_client import Http
from tests.web.test_process import children_of

#: One broker for those that need no own.
pytestmark = pytest.mark.xdist_group("web audit")


def test_what_was_done_over_http_and_amqp(broker: RunningBroker, http: Http, by_tag: dict[str, Http]) -> None:
    assert by_tag["management"]("PUT", "/queues/%2F/written", {"durable": True}).status == 201
    assert http("DELETE", "/queues/%2F/written/contents").status == 204
    assert http("PUT", "/vhosts/other", {}).status == 201
    with Connection.open(broker.url) as connection:
        connection.channel().call(m.QueueDelete(queue="written"))
    page = http.get("/v1/audit?limit=4")
    assert [line["what"] for line in page["items"]] == ["queue.delete", "vhost.create", "queue.purge", "queue.declare"]
    declared, deleted = page["items"][3], page["items"][0]
    assert (declared["user"], declared["from"], declared["via"]) == ("management", "127.0.0.1", "http")
    assert "by" not in declared
    assert (deleted["user"], deleted["via"], deleted["outcome"]) == ("guest", "amqp", "done")
    older = http.get(f"/v1/audit?limit=1&before={page['next']}")
    assert older["items"][0]["at"] <= declared["at"]
    assert [line["name"] for line in http.get("/v1/audit?what=vhost.&vhost=")["items"]] == ["other"]


def test_the_page_says_how_to_read_it(http: Http) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command, line = block_named("the audit log").splitlines()
    assert command == "amqp-broker list audit --limit 20"
    here = line.replace(":15672", f":{http.port}")
    subprocess.run(f"{here} --fail --silent --show-error", shell=True, check=True, capture_output=True, timeout=60)


def test_a_refused_login_and_a_refused_change(http: Http, by_tag: dict[str, Http]) -> None:
    stranger = http.as_user("stranger", "wrong")
    assert stranger("GET", "/overview").status == 401
    assert by_tag["management"]("PUT", "/queues/%2F/amq.own", {"durable": True}).status in (400, 401)
    lines = http.get("/v1/audit?outcome=refused&limit=2")["items"]
    assert [(line["what"], line["user"], line["from"]) for line in lines] == [
        ("queue.declare", "management", "127.0.0.1"), ("login", "stranger", "127.0.0.1"),
    ]  # fmt: skip
    stranger.close()


@pytest.mark.parametrize("query", ["before=x", "before=WzFd", "limit=x", "limit=1000", "node=nowhere"])
def test_what_cannot_be_asked(http: Http, query: str) -> None:
    assert http("GET", f"/v1/audit?{query}").status == 400


def test_it_is_complete_when_the_management_process_is_killed(tmp_path: Path) -> None:
    """Each change is written down by the node, whoever asked for it: nothing of it is in the process that asked."""
    with amqp_broker.running(tmp_path / "data", management=True) as broker:
        for number in range(6):
            http = Http(broker.management_url)
            assert http("GET", "/overview").status == 200
            (child,) = children_of(broker.process.pid)
            if number % 2:
                assert http("PUT", f"/queues/%2F/q{number}", {"durable": True}).status == 201
            else:  # on its way, or not
                http.send("PUT", f"/queues/%2F/q{number}", {"durable": True})
            os.kill(child, signal.SIGKILL)
            http.close()
        made = set()
        with Connection.open(broker.url) as connection:
            for number in range(6):
                with suppress(ChannelClosed):
                    connection.channel().call(m.QueueDeclare(queue=f"q{number}", passive=True))
                    made.add(f"q{number}")
    files = sorted((tmp_path / "data" / "audit").iterdir())
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert {line["name"] for line in lines if line["what"] == "queue.declare"} == made
    assert made >= {"q1", "q3", "q5"}
    assert (lines[0]["what"], lines[-1]["what"]) == ("node.start", "node.stop")
