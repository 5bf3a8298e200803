"""Every page beside 10,000 queues and 2,000 connections: it stands soon, draws no more than a page of rows, and the
console says nothing is wrong."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.ui.browser import why_none
from tests.web.ui.test_pages import PLACES

pytest.importorskip("selenium")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("web large"),
    pytest.mark.skipif(bool(why_none()), reason=why_none()),
]

if not why_none():
    from tests.web.ui.browser import Browser

QUEUES = 10_000
CONNECTIONS = 2_000
MOST_ROWS = 200
#: A page that takes longer has a reader who leaves; on a quiet machine each is a tenth of it.
MOST_S = 5.0


@pytest.fixture(scope="module")
def crowd(broker: RunningBroker) -> Iterator[None]:
    """All of them, each connection with a channel and a consumer."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hard))
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            for number in range(QUEUES):
                channel.call(m.QueueDeclare(queue=f"many.{number:05}"))
        for number in range(CONNECTIONS):
            connection = stack.enter_context(Connection.open(broker.url, name=f"client {number}"))
            connection.channel().consume(f"many.{number:05}")
        yield


@pytest.mark.parametrize("place", [*PLACES, "queues/%2F/many.00007", "queues?page=100&sort=messages"])
def test_a_page_stands_soon(window: Browser, crowd: None, place: str) -> None:
    window.go("nowhere")
    began = time.monotonic()
    window.go(place)
    window.find("main h1")
    assert time.monotonic() - began < MOST_S
    assert len(window.all("main tbody tr")) <= MOST_ROWS
    assert window.texts("main .problem:not([hidden])") == []


def test_figures_are_whole(window: Browser, http: Http, crowd: None) -> None:
    totals = http.get("/overview")["object_totals"]
    assert (totals["queues"], totals["consumers"]) == (QUEUES, CONNECTIONS)
    assert totals["connections"] >= CONNECTIONS
    window.go("queues")
    window.until(lambda: any("10,000" in each for each in window.texts(".pager .total")), "all queues")
    window.go("connections")
    window.until(lambda: any("2,00" in each for each in window.texts(".pager .total")), "all connections")
    name = http.get("/connections?page=3&page_size=100")["items"][0]["name"]
    window.find(".filter").send_keys(name.partition(" -> ")[0])
    window.until(lambda: len(window.all("main tbody tr")) == 1, "the one that was looked for")
