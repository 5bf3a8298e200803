"""A classic queue is brought to another worker, and a stream is looked at where it has no copy: in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker
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


def test_what_has_no_home_is_not_offered_one(window: Browser, http: Http) -> None:
    fill(http, "log", **{"x-queue-type": "quorum"})
    window.go("queues/%2F/log?tab=danger")
    window.find("#delete")
    window.until(lambda: "quorum" in window.texts("main .heading .badge"))
    assert window.all("#rehome") == []
    http("DELETE", "/queues/%2F/log")
