"""Each page while the node is away: it says so, keeps what it shows, and goes on by itself when the node is back; also
one that is opened meanwhile. The console says nothing is wrong (conftest.py)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http, segment
from tests.web.ui.browser import why_none

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser

#: One of each kind, and their tabs; in names of things, those of this broker.
PAGES = (
    "overview", "queues", "queues/%2F/q", "exchanges", "exchanges/%2F/amq.topic", "connections",
    "connections/CONNECTION", "channels", "channels/CHANNEL", "consumers", "messages", "cluster", "cluster/NODE",
    "admin", "users/guest", "vhosts/%2F", "audit",
)  # fmt: skip
TABS = (
    "queues/%2F/q?tab=messages", "queues/%2F/q?tab=consumers", "queues/%2F/q?tab=bindings",
    "queues/%2F/q?tab=configuration", "queues/%2F/s", "queues/%2F/s?tab=stream", "queues/%2F/replicated",
    "exchanges/%2F/amq.topic?tab=publish", "admin?tab=vhosts", "admin?tab=policies", "admin?tab=operator",
    "admin?tab=limits", "admin?tab=definitions",
)  # fmt: skip


@pytest.fixture(scope="module")
def lonely() -> Iterator[tuple[RunningBroker, dict[str, str]]]:
    """A broker of its own with something of everything in it, and how its things are called in addresses."""
    with amqp_broker.running(management=True, log_level="warning") as broker, Connection.open(broker.url) as client:
        http = Http(broker.management_url)
        types = {"q": "classic", "s": "stream", "replicated": "quorum"}
        for name, queue_type in types.items():
            arguments = {"x-queue-type": queue_type}
            assert http("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": arguments}).status == 201
            http("POST", f"/bindings/%2F/e/amq.topic/q/{name}", {"routing_key": name})
        http("PUT", "/policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 10}})
        limit = {"pattern": "^q", "apply-to": "queues", "definition": {"max-length": 9}}
        http("PUT", "/operator-policies/%2F/p", limit)
        http("PUT", "/vhost-limits/%2F/max-queues", {"value": 100})
        channel = client.channel()
        channel.consume("q")
        channel.publish("", "q", b"x")
        (row,) = [row for row in http.get("/channels") if row["consumer_count"]]
        yield broker, {
            "CONNECTION": segment(row["connection_details"]["name"]), "CHANNEL": segment(row["name"]),
            "NODE": segment(http.get("/overview")["node"]),
        }  # fmt: skip
        http.close()


@contextmanager
def away(broker: RunningBroker) -> Iterator[None]:
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)


def says_it_is_away(window: Browser) -> bool:
    return any("does not answer" in each for each in window.texts("#state:not([hidden])"))


def is_whole(window: Browser) -> bool:
    """Nothing is old, missing or wrong."""
    wrong = "#state:not([hidden]), main.old, main[aria-busy=true], main .problem:not([hidden])"
    return bool(window.texts("main h1")) and not window.texts(wrong)


@pytest.mark.parametrize("place", [*PAGES, *(pytest.param(each, marks=pytest.mark.long) for each in TABS)])
def test_it_is_said_and_it_goes_on(opened: Browser, lonely: tuple[RunningBroker, dict[str, str]], place: str) -> None:
    broker, names = lonely
    for word, name in names.items():
        place = place.replace(word, name)
    window = opened
    if window.url != broker.management_url.rstrip("/"):
        window.visit(broker.management_url)
        window.log_in()
    # Lists are kept for a second; whatever is asked for after that is not answered.
    window.go("nowhere")
    with away(broker):
        window.driver.execute_script("location.hash = arguments[0]", f"#/{place}")
        window.until(lambda: says_it_is_away(window), "it says that the node is away")
    window.until(lambda: is_whole(window), "the page that was opened meanwhile")
    heading, rows = window.texts("main h1"), len(window.all("main table"))
    with away(broker):
        window.until(lambda: says_it_is_away(window), "it says that the node has gone")
        assert (window.texts("main h1"), len(window.all("main table"))) == (heading, rows), "what it shows stays"
        assert window.all("main.old")
    window.until(lambda: is_whole(window), "it goes on")
    assert (window.texts("main h1"), len(window.all("main table"))) == (heading, rows)
