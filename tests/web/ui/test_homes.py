"""A classic queue is brought to another worker, and a stream is looked at where it has no copy: in a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import RunningBroker
from tests.packaging.scraped import managed
from tests.web.http_client import Http
from tests.web.test_moving import fill
from tests.web.ui.browser import why_none

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with amqp_broker.running(management=True, workers=2, log_level="warning") as running:
        yield running


def test_a_queue_is_moved(window: Browser, http: Http) -> None:
    fill(http, "moving", b"1", b"22")
    said = http.get("/v1/queues/%2F/moving/homes")
    home, (other,) = said["home"], said["homes"]
    window.go("queues/%2F/moving?tab=danger")
    window.until(lambda: window.texts("#home") == [f"It lives at {home}. "], "its home")
    window.click("#rehome")
    assert window.texts("dialog select option") == [other]
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: window.texts("dialog .preview dd"), "the preview")
    assert window.texts("dialog .preview dd") == [home, other, "2", "3 B", "0", "0"]
    assert http.get("/queues/%2F/moving")["node"] == home, "nothing has happened yet"
    window.click("dialog button.danger", "Move")
    window.until(lambda: any("done: 2 of 2 moved" in each for each in window.texts("#job")), "it is done")
    assert http.get("/queues/%2F/moving")["node"] == other
    window.until(lambda: window.texts("#home") == [f"It lives at {other}. "], "its new home")
    window.go("messages?tab=jobs")
    window.until(lambda: "rehome" in window.texts("main td"), "the job")
    http("DELETE", "/queues/%2F/moving")


def test_the_page_of_the_node_has_each_of_its_workers(window: Browser, http: Http) -> None:
    fill(http, "counted", b"1", b"22")
    names = [each["name"] for each in http.get("/v1/workers")]
    window.go(f"cluster/{names[0]}")
    window.until(lambda: window.texts("#workers tbody td:first-child") == names, "both workers")
    cells = "#workers tbody td:nth-child(6)"
    window.until(lambda: sorted(window.texts(cells)) == ["0", "2"], "their messages")
    http("DELETE", "/queues/%2F/counted")


def test_what_has_no_home_is_not_offered_one(window: Browser, http: Http) -> None:
    fill(http, "log", **{"x-queue-type": "quorum"})
    window.go("queues/%2F/log?tab=danger")
    window.find("#delete")
    window.until(lambda: "quorum" in window.texts("main .heading .badge"))
    assert window.all("#rehome") == []
    http("DELETE", "/queues/%2F/log")


PARTITIONS, MESSAGES = 3, 9


@pytest.fixture(scope="module")
def guest() -> Iterator[str]:
    """The pages of a node that has no copy of the streams `log` and `parts`, each with nine messages and a group."""
    with amqp_broker.running_cluster(2, queue_groups=1) as cluster:
        first, second = cluster.nodes
        with SystemClient(first.url) as client, Connection.open(first.url) as connection:
            channel = connection.channel()
            channel.confirm_select()
            for name, more in (("log", {}), ("parts", {"x-stream-partitions": PARTITIONS})):
                arguments = Table({"x-queue-type": "stream", **more})
                channel.call(m.QueueDeclare(queue=name, durable=True, arguments=arguments))
                for number in range(MESSAGES):
                    channel.publish("", name, b"message %d" % number)
                channel.wait_for_confirms()
                client.request("stream.seek", vhost="/", name=name, group="<b>billing", offset=1)
            client.request("queues.shrink", node="n2", vhost="/", queue="log")
        until = time.monotonic() + 60
        with SystemClient(second.url) as client:
            while "guest" not in [row["role"] for row in client.request("cluster.status")["groups"]]:
                assert time.monotonic() < until
        with managed(second.url) as (url, _):
            yield url


def rows_of(window: Browser, title: str) -> list[list[str]]:
    """Of the table whose first column is called so."""
    script = (
        "const table = [...document.querySelectorAll('main table')].find(each => each.querySelector('th')?.textContent"
        " === arguments[0]); return table ? [...table.tBodies[0].rows].map(row => [...row.cells].map(each =>"
        " each.textContent)) : []"
    )
    return list(window.driver.execute_script(script, title))


def test_a_stream_without_a_copy_here(opened: Browser, guest: str) -> None:
    opened.visit(guest)
    opened.log_in()
    opened.go("queues/%2F/log?tab=stream")
    opened.until(lambda: rows_of(opened, "Group"), "the group")
    assert rows_of(opened, "Group") == [["<b>billing", "1", "8", "nobody", "0"]]
    facts = opened.texts("main .tab dd")
    assert ("n1" in facts, "0 to 9" in facts) == (True, True), facts
    assert rows_of(opened, "Partition") == []
    opened.find("main input[name=from]").send_keys("7")
    opened.click("main form button")
    opened.until(lambda: opened.texts("main .payload") == ["message 7", "message 8"], "its messages")


def test_partitions_without_a_copy_here(opened: Browser, guest: str) -> None:
    opened.visit(guest)
    opened.log_in()
    opened.go("queues/%2F/parts?tab=stream")
    opened.until(lambda: rows_of(opened, "Partition"), "the partitions")
    found = rows_of(opened, "Partition")
    assert [(row[0], row[1]) for row in found] == [(f"parts-{number}", "n1") for number in range(PARTITIONS)]
    assert sum(int(row[3]) for row in found) == MESSAGES
    groups = rows_of(opened, "Group")
    assert [row[:3] for row in groups] == [["<b>billing", str(number), "1"] for number in range(PARTITIONS)]
    assert sum(int(row[3]) for row in groups) == MESSAGES - PARTITIONS
    assert "NaN" not in opened.find("main").text
    assert opened.all("main input[name=from]") == [], "messages are looked at in a partition"
    opened.click("main td a", "parts-1")
    opened.until(lambda: opened.texts("main h1") == ["parts-1"])
