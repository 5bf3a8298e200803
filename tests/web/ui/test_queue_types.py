"""Pages know no types of queues but those that the node names: one of a test's own is offered as the others are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.robustness.broker import Broker
from tests.web.http_client import Http
from tests.web.ui.browser import why_none

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser


class Managed(NamedTuple):
    """Where the management process is."""

    management_url: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    folder: Path = tmp_path_factory.mktemp("last-value")
    with Broker(folder, "--management-listen=127.0.0.1:0", module="tests.queue_types.last_value") as running:
        assert running.process.stdout is not None
        yield Managed(running.process.stdout.readline().decode().removeprefix("management ").strip())


def choose(window: Browser, name: str, value: str) -> None:
    window.driver.execute_script(
        "const field = document.querySelector(`dialog [name=${arguments[0]}]`); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', { bubbles: true }))",
        name, value,
    )  # fmt: skip


def offered(window: Browser, name: str) -> list[str]:
    return window.texts(f"dialog [name={name}] option")


def test_a_queue_of_it_is_declared(window: Browser, http: Http) -> None:
    window.go("queues")
    window.click("#add")
    window.find("dialog input[name=name]").send_keys("price")
    assert offered(window, "type") == ["default of the virtual host", "classic", "quorum", "stream", "last-value"]
    assert "x-max-priority=10" in window.texts("dialog .keys button"), "those of the virtual host's type"
    choose(window, "type", "stream")
    proposed = window.texts("dialog .keys button")
    assert proposed == ["x-max-length-bytes=1048576", 'x-max-age="7D"', "x-stream-partitions=8"]
    choose(window, "type", "last-value")
    assert window.texts("dialog .keys button") == ["x-history=2"]
    window.click("dialog .keys button", "x-history=2")
    window.click("dialog button.primary")
    window.until(lambda: "price" in window.texts("main tbody a"))
    shown = http.get("/queues/%2F/price")
    assert (shown["type"], shown["arguments"]) == ("last-value", {"x-history": 2, "x-queue-type": "last-value"})
    window.go("queues/%2F/price?tab=danger")
    window.find("#delete")
    window.until(lambda: "last-value" in window.texts("main .heading .badge"))
    assert window.all("#rehome") == [], "it has no home"


def test_a_virtual_host_may_have_it_as_its_default(window: Browser, http: Http) -> None:
    window.go("admin?tab=vhosts")
    window.click(".bar button", "Add a virtual host")
    window.find("dialog [name=name]").send_keys("prices")
    assert offered(window, "default_queue_type") == ["classic", "quorum", "stream", "last-value"]
    choose(window, "default_queue_type", "last-value")
    window.click("dialog button.primary")
    window.until(lambda: "prices" in window.texts("main tbody a"))
    window.go("vhosts/prices")
    window.until(lambda: "last-value" in window.texts("main dd"))
    window.click("main button", "Change")
    window.find("dialog [name=description]")
    assert window.find("dialog [name=default_queue_type]").get_attribute("value") == "last-value"
    choose(window, "default_queue_type", "classic")
    window.click("dialog button.primary")
    window.until(lambda: http.get("/vhosts/prices")["default_queue_type"] == "classic")


@pytest.mark.parametrize(
    ("tab", "whole", "of_all"),
    [
        ("policies", ["all", "queues", "classic_queues", "quorum_queues", "streams", "last_value_queues", "exchanges"],
         {"max-length=1000", "history=2", "alternate-exchange"}),
        ("operator", ["queues", "classic_queues", "quorum_queues", "streams", "last_value_queues"],
         {"max-length=1000", "delivery-limit=20"}),
    ],
)  # fmt: skip
def test_policies_reach_it(window: Browser, tab: str, whole: list[str], of_all: set[str]) -> None:
    window.go(f"admin?tab={tab}")
    window.click(".bar button", "Add")
    window.find("dialog [name=name]")
    assert offered(window, "apply-to") == whole
    assert of_all <= set(window.texts("dialog .keys button"))
    choose(window, "apply-to", "last_value_queues")
    of_it = {"message-ttl=60000", "history=2"} if tab == "policies" else {"message-ttl=60000"}
    assert set(window.texts("dialog .keys button")) == of_it
