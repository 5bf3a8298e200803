"""What would happen is shown before it is done: by pages, in a browser. And addresses have what is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http, segment
from tests.web.ui.browser import why_none

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser

QUEUES = ("one", "two", "three")


def fill(http: Http, queue: str, messages: int) -> None:
    said = {"routing_key": queue, "properties": {}, "payload": "x", "payload_encoding": "string"}
    for _ in range(messages):
        assert http("POST", "/exchanges/%2F/amq.default/publish", said).json == {"routed": True}


@pytest.fixture
def queues(http: Http) -> Iterator[None]:
    """Each holds one more than the one before."""
    for number, name in enumerate(QUEUES, 1):
        assert http("PUT", f"/queues/%2F/{name}", {"durable": True}).status == 201
        fill(http, name, number)
    yield
    for name in QUEUES:
        http("DELETE", f"/queues/%2F/{name}")


def select_all(window: Browser, place: str, rows: int) -> None:
    window.go(place)
    window.until(lambda: len(window.all("main tbody tr")) == rows, f"{rows} rows")
    window.click("thead .tick input")
    window.until(lambda: window.texts(".many b") == [f"{rows} selected"])


def cells(window: Browser) -> list[list[str]]:
    """Of the table in the dialog."""
    rows = "[...document.querySelectorAll('dialog tbody tr')]"
    return list(window.driver.execute_script(f"return {rows}.map(row => [...row.cells].map(each => each.textContent))"))


@pytest.mark.usefixtures("queues")
def test_many_queues_are_purged_and_deleted_as_they_are_now(window: Browser, http: Http) -> None:
    select_all(window, "queues", 3)
    # What is previewed is not what the list showed once.
    fill(http, "one", 5)
    http("DELETE", "/queues/%2F/two")
    window.click(".many button", "Purge")
    window.find("dialog input")
    assert sorted(cells(window)) == [
        ["one", "6", "0", "0"], ["three", "3", "0", "0"], ["two", "is not there any more", "", ""],
    ]  # fmt: skip
    assert "9 messages are thrown away" in window.texts("dialog .fields > p")[0]
    window.find("dialog input").send_keys("3")
    window.click("dialog button.danger")
    window.until(lambda: any("1 of 3 failed" in each for each in window.texts("#notes p")), "what failed")
    assert [http.get(f"/queues/%2F/{name}")["messages"] for name in ("one", "three")] == [0, 0]
    select_all(window, "queues", 2)
    window.click(".many button", "Delete")
    window.find("dialog input").send_keys("2")
    window.click("dialog button.danger")
    window.until(lambda: not http.get("/queues"), "deleted")


@pytest.mark.usefixtures("queues")
def test_many_queues_are_moved(window: Browser, http: Http) -> None:
    http("PUT", "/queues/%2F/goal", {"durable": True})
    select_all(window, "queues?name=o", 3)  # one, two, and goal
    window.click(".many button", "Move")
    window.driver.execute_script("document.querySelector('dialog [name=way]').value = 'queue'")
    window.find("dialog [name=name]").send_keys("goal")
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: cells(window), "the preview")
    assert sorted(cells(window)) == [["goal", "0", "0"], ["one", "1", "1"], ["two", "2", "2"]]
    assert "3 messages of 3 queues" in window.texts("dialog .preview p")[0]
    window.find("dialog [name=key]").send_keys("k")
    window.until(lambda: not cells(window), "what is typed has it shown again")
    window.click("dialog button.danger", "What would happen?")
    window.click("dialog button.danger", "Move")
    window.until(lambda: not window.all("dialog"), "done")
    assert [http.get(f"/queues/%2F/{name}")["messages_ready"] for name in (*QUEUES, "goal")] == [0, 0, 3, 3]
    window.go("messages?tab=jobs")
    window.until(lambda: sum("done" in each for each in window.texts("main td")) == 3, "the jobs")
    for left in (2, 1, 0):
        window.click("main td button", "Forget")
        window.until(lambda left=left: len(window.all("main td button")) == left, "forgotten")
    assert http.get("/v1/jobs") == []
    http("DELETE", "/queues/%2F/goal")


def clients(http: Http) -> list[str]:
    return [each["name"] for each in http.get("/connections") if each["user_provided_name"].startswith("client ")]


def test_many_connections_are_closed(window: Browser, http: Http, broker: RunningBroker) -> None:
    connections = [Connection.open(broker.url, name=f"client {number}") for number in range(2)]
    connections[0].channel()
    try:
        window.until(lambda: len(clients(http)) == 2, "both are shown")
        names = "|".join(re.escape(name.partition(" ")[0]) for name in clients(http))
        select_all(window, f"connections?name={segment(names)}&use_regex=true", 2)
        window.click(".many button", "Close")
        window.until(lambda: cells(window), "the preview")
        found = {row[1]: row[2:] for row in cells(window)}
        assert found["client 0"] == ["guest", "1 channels end"]
        assert found["client 1"] == ["guest", "0 channels end"]
        window.find("dialog input").send_keys("2")
        window.click("dialog button.danger")
        window.until(lambda: not clients(http), "closed")
    finally:
        for each in connections:
            each.abort()


@pytest.mark.usefixtures("queues")
def test_a_policy_says_what_it_would_match(window: Browser, http: Http) -> None:
    window.go("admin?tab=policies")
    window.click(".bar button", "Add")
    window.find("dialog [name=name]").send_keys("short")
    window.find("dialog [name=pattern]").send_keys("t")
    window.driver.execute_script("document.querySelector('dialog [name=apply-to]').value = 'queues'")
    window.find("dialog [name=definition]").send_keys('{"max-length": 10}')
    window.click("dialog button.primary", "What would happen?")
    window.until(lambda: cells(window), "the preview")
    assert cells(window) == [["queue", "three"], ["queue", "two"]]
    assert "2 queues match, it would apply to 2; 0 exchanges match" in window.texts("dialog .preview p")[0]
    assert http.get("/policies") == []
    window.click("dialog button.primary", "Save")
    window.until(lambda: [each["name"] for each in http.get("/policies")] == ["short"], "set")
    window.click("td button", "Remove")
    asked = "What it set is set no more, for 2 queues and 0 exchanges."
    window.until(lambda: asked in window.texts("dialog p"), "what it sets now")
    window.find("dialog input").send_keys("short")
    window.click("dialog button.danger")
    window.until(lambda: http.get("/policies") == [], "removed")


@pytest.mark.usefixtures("queues")
def test_definitions_are_compared_before_they_are_imported(window: Browser, http: Http, tmp_path: Path) -> None:
    hostile = "<script>window.broken=1</script>"
    definitions = {
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
            for name in ("new", hostile)
        ] + [{"name": "one", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}],
        "users": [{"name": "guest", "password_hash": "", "tags": "administrator"}],
    }  # fmt: skip
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(definitions))
    window.go("admin?tab=definitions")
    window.find("input[type=file]").send_keys(str(file))
    window.click("#look")
    window.until(lambda: window.texts("#diff > p"), "what would happen")
    assert window.texts("#diff > p")[0] == "2 are added, 1 changed."
    titles = window.texts("#diff summary")
    assert [each.split()[0] for each in titles[:3]] == ["2", "1", "1"]
    assert "name guest" in window.texts("#diff [data-kind=change] td")
    assert not window.driver.execute_script("return window.broken")
    # Everything but the user's password, and the queue with the name that is none.
    window.click("[data-kind=change] thead input")
    place = window.driver.execute_script(
        "const rows = [...document.querySelectorAll('[data-kind=add] tbody tr')];"
        "const box = rows.find(each => each.textContent.includes('script')).querySelector('input');"
        "box.click(); return box.dataset.place"
    )
    assert place == "queues[1]"
    window.click("#import")
    asked = "1 changes of 1 that are ticked. Nothing is deleted; what is there and declared differently stays."
    window.until(lambda: asked in window.texts("dialog p"), "the question")
    window.find("dialog input").send_keys("definitions.json")
    window.click("dialog button.danger")
    window.until(lambda: http("GET", "/queues/%2F/new").status == 200, "imported")
    assert http("GET", f"/queues/%2F/{segment(hostile)}").status == 404
    http("DELETE", "/queues/%2F/new")


def test_a_node_is_drained_and_revived(window: Browser, http: Http) -> None:
    node = segment(http.get("/overview")["node"])
    window.go(f"cluster/{node}")
    window.click("#drain")
    window.until(lambda: any("connections are closed" in each for each in window.texts("dialog p")), "the question")
    assert window.texts("dialog .badge") == ["yes"]
    assert http("GET", "/readyz", prefix="").status == 200
    window.find("dialog input").send_keys("50")
    window.click("dialog button.danger")
    window.find("#revive")
    assert http("GET", "/readyz", prefix="").status == 503
    window.until(lambda: "It is being drained." in window.texts("#guard p"))
    window.click("#revive")
    window.find("#drain")
    assert http("GET", "/readyz", prefix="").status == 200


def test_a_virtual_host_is_protected(window: Browser, http: Http) -> None:
    http("PUT", "/vhosts/kept", {})
    window.go("vhosts/kept")
    window.click("#protect", "Protect from deletion")
    window.until(lambda: "protected" in window.texts("main .heading .badge"), "protected")
    assert not window.find("#delete").is_enabled()
    assert http("DELETE", "/vhosts/kept").status == 412
    window.click("#protect", "Protect no more")
    window.until(lambda: window.find("#delete").is_enabled(), "to be deleted")
    http("DELETE", "/vhosts/kept")


@pytest.mark.usefixtures("queues")
def test_an_address_has_what_is_shown(window: Browser, http: Http) -> None:
    """Tabs, filters and what was asked: by a link, and back again."""
    for key in ("first", "second"):
        http("POST", "/bindings/%2F/e/amq.topic/q/one", {"routing_key": key})
    window.go("queues/%2F/one?tab=bindings&name=seco")
    window.until(lambda: window.texts("main tbody code") == ["second"], "the filtered binding")
    window.find(".filter").send_keys("\ue003\ue003")
    window.until(lambda: "name=se" in window.driver.current_url and "name=sec" not in window.driver.current_url)
    window.go("exchanges/%2F/amq.topic?name=first&to.name=nothing")
    window.until(lambda: window.texts("main tbody code") == ["first"], "one table of two is filtered")
    window.go("exchanges/%2F/amq.topic?tab=route&routing_key=first")
    window.until(lambda: window.texts(".output section h3 a")[-1:] == ["one"], "the route test of the address")
    window.go("queues/%2F/three?tab=messages&from=newest&filter=routing_key%3Dthree")
    window.until(lambda: len(window.texts("#peeked .payload")) == 3, "the messages of the address")
    window.go("audit?what=queue.declare&name=two")
    window.until(lambda: set(window.texts("main tbody td:nth-child(6)")) == {"two"}, "the lines of the address")
    window.find("input[name=name]").clear()
    window.find("input[name=name]").send_keys("three\n")
    window.until(lambda: set(window.texts("main tbody td:nth-child(6)")) == {"three"}, "others")
    assert "name=three" in window.driver.current_url
    window.driver.back()
    window.until(lambda: set(window.texts("main tbody td:nth-child(6)")) == {"two"}, "back")
    window.go("overview?range=3600")
    script = "return document.querySelector('main select').value"
    window.until(lambda: window.driver.execute_script(script) == "3600", "the range")
    window.go("admin?tab=users&name=guest&vhost=%2F")
    window.until(lambda: window.texts("main tbody a") == ["guest"])
    window.click("[data-tab=policies]")
    window.until(lambda: window.driver.current_url.endswith("#/admin?tab=policies&vhost=%2F"), "tabs keep the host")
