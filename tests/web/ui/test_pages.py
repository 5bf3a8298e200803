"""Each page in a browser: with nothing in the broker, with thousands of queues, and with names that are meant to
break them; with the node away: test_node_away.py. The console says nothing is wrong (conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http, segment
from tests.web.ui.browser import why_none

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser

MANY = 2100
#: What breaks in another way each, and then what is much like these.
HOSTILE = (
    "<img src=x onerror=window.broken=1>", "\"quotes' & ampersands;", "100%25 %2F", "a/b/../c?d=e#f",
    "<script>window.broken=1</script>", "%", "ünïcödé 队列 🐇", "  spaces  ", "`${window.broken=1}`",
    "javascript:window.broken=1",
)  # fmt: skip
PLACES = (
    "messages",
    "overview", "queues", "exchanges", "connections", "channels", "consumers", "cluster", "admin", "admin?tab=vhosts",
    "admin?tab=policies", "admin?tab=operator", "admin?tab=limits", "admin?tab=definitions", "users/guest",
    "vhosts/%2F", "exchanges/%2F/amq.direct", "exchanges/%2F/amq.default", "exchanges/%2F/amq.topic?tab=publish",
    "exchanges/%2F/amq.topic?tab=overview", "audit",
)  # fmt: skip


@pytest.fixture
def held(broker: RunningBroker) -> Iterator[Connection]:
    """A client with a channel and a consumer."""
    with Connection.open(broker.url, name="<b>client</b>") as connection:
        yield connection


def test_every_page_of_an_empty_broker(window: Browser, http: Http) -> None:
    node = segment(http.get("/overview")["node"])
    for place in (*PLACES, f"cluster/{node}"):
        window.go(place)
        window.find("main h1")
        assert window.texts("#state:not([hidden])") == [], place
        assert window.texts("main .problem:not([hidden])") == [], place
    window.go("queues")
    window.until(lambda: "No queues yet" in window.texts("main .message")[0])
    window.go("nowhere")
    assert window.texts("main .message") == ["There is no such page."]


def test_every_place_is_seen_at_the_top(window: Browser) -> None:
    window.go("overview")
    script = "const nav = document.querySelector('nav.places'); return [nav.scrollWidth, nav.clientWidth]"
    whole, seen = window.driver.execute_script(script)
    assert whole <= seen
    assert window.texts("nav.places a")[-2:] == ["Admin", "Audit"]


def test_what_is_not_there_is_said_so(window: Browser) -> None:
    window.go("queues/%2F/nothing")
    window.until(lambda: window.texts("main .message") == ["This is not here any more."])


@pytest.mark.parametrize(
    "name", ["x" * 255, *HOSTILE[:4], *(pytest.param(each, marks=pytest.mark.long) for each in HOSTILE[4:])]
)
def test_names_are_text(window: Browser, http: Http, held: Connection, name: str) -> None:
    for kind in ("queues", "exchanges"):
        assert http("PUT", f"/{kind}/%2F/{segment(name)}", {"durable": True}).status == 201
    channel = held.channel()
    channel.consume(name)
    http("POST", f"/bindings/%2F/e/{segment(name)}/q/{segment(name)}", {"routing_key": name[:200]})
    try:
        window.go("queues")
        window.until(lambda: name in window.texts("main tbody a"), "the list")
        window.go(f"queues/%2F/{segment(name)}")
        window.until(lambda: window.texts("main h1") == [name], "the heading")
        for tab in ("messages", "consumers", "bindings", "configuration", "danger"):
            window.click(f"[data-tab={tab}]")
        window.go(f"exchanges/%2F/{segment(name)}")
        window.until(lambda: window.texts("main h1") == [name], "the exchange")
        window.until(lambda: name in window.texts("main tbody a"), "the binding")
        for place in ("connections", "channels", "consumers"):
            window.go(place)
            window.find("main tbody tr")
        assert not window.driver.execute_script("return window.broken")
        assert window.driver.execute_script("return document.querySelectorAll('main script, main img').length") == 0
        # What can be typed is deleted by hand.
        if name.isascii():
            window.go(f"queues/%2F/{segment(name)}?tab=danger")
            window.click("#delete")
            window.find("dialog input").send_keys(name)
            window.click("dialog button.danger")
            window.until(lambda: http("GET", f"/queues/%2F/{segment(name)}").status == 404, "deleted")
    finally:
        http("DELETE", f"/queues/%2F/{segment(name)}")
        http("DELETE", f"/exchanges/%2F/{segment(name)}")


def test_a_client_is_seen_and_closed(window: Browser, http: Http, held: Connection) -> None:
    window.go("connections")
    window.until(lambda: "<b>client</b>" in window.texts("main td"))
    channel = held.channel()
    channel.call(m.QueueDeclare(queue="watched"))
    channel.consume("watched")
    row = next(each for each in http.get("/connections") if each["user_provided_name"] == "<b>client</b>")
    window.go(f"connections/{segment(row['name'])}")
    window.until(lambda: window.texts("main h1") == [row["name"]])
    window.go(f"channels/{segment(row['name'] + ' (1)')}")
    window.until(lambda: "watched" in window.texts("main tbody a"))
    window.go(f"connections/{segment(row['name'])}")
    window.click("#close")
    window.click("dialog button.primary")
    window.until(lambda: http("GET", f"/connections/{segment(row['name'])}").status == 404)
    http("DELETE", "/queues/%2F/watched")


def test_a_queue_from_its_declaration_to_its_end(window: Browser, http: Http) -> None:
    window.go("queues")
    window.click("#add")
    window.find("dialog input[name=name]").send_keys("by hand")
    window.click("dialog .keys button", "x-max-length=1000")
    window.click("dialog button.primary")
    window.until(lambda: "by hand" in window.texts("main tbody a"))
    assert http.get("/queues/%2F/by%20hand")["arguments"] == {"x-max-length": 1000}
    window.go("queues/%2F/by%20hand?tab=messages")
    window.find("textarea[name=payload]").send_keys("<i>hello</i>")
    window.click("form.inline button[type=submit]", "Publish")
    window.until(lambda: window.texts(".output .done"))
    window.click("form.inline button[type=submit]", "Get")
    window.until(lambda: window.texts("pre.payload") == ["<i>hello</i>"])
    window.go("queues/%2F/by%20hand?tab=danger")
    window.click("#purge")
    confirm = window.find("dialog button.danger")
    assert not confirm.is_enabled()
    window.find("dialog input").send_keys("by hand")
    window.click("dialog button.danger")
    window.until(lambda: http.get("/queues/%2F/by%20hand")["messages"] == 0)
    window.click("#delete")
    window.find("dialog input").send_keys("by hand")
    window.click("dialog button.danger")
    window.until(lambda: http("GET", "/queues/%2F/by%20hand").status == 404)


@pytest.mark.parametrize("name", HOSTILE[:8])
def test_why_a_message_is_not_there(window: Browser, http: Http, name: str) -> None:
    one = segment(name)
    http("PUT", f"/queues/%2F/{one}", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    http("POST", f"/bindings/%2F/e/amq.topic/q/{one}", {"routing_key": name[:200]})
    lost = {"routing_key": f"to nobody {name}"[:200], "properties": {}, "payload": name, "payload_encoding": "string"}
    http("POST", "/exchanges/%2F/amq.topic/publish", lost)
    window.go("messages")
    window.until(lambda: lost["routing_key"] in window.texts("main tbody code"), "what went nowhere")
    window.go("exchanges/%2F/amq.topic?tab=route")
    window.find("form.inline input[name=routing_key]").send_keys("" if not name.isascii() else name[:200])
    window.click("form.inline button[type=submit]", "Try")
    window.until(lambda: name in window.texts(".output li a"), "the binding")
    window.go(f"queues/%2F/{one}?tab=quorum")
    window.until(lambda: any("it is the only voter" in each for each in window.texts("main tbody td")), "the group")
    assert not window.driver.execute_script("return window.broken")
    http("DELETE", f"/queues/%2F/{one}")


def test_messages_are_looked_at_and_moved(window: Browser, http: Http) -> None:
    hostile = "<script>window.broken=1</script>"
    for queue in ("full", "other"):
        assert http("PUT", f"/queues/%2F/{queue}", {"durable": True}).status == 201
    for _ in range(25):
        http("POST", "/exchanges/%2F/amq.default/publish", {
            "routing_key": "full", "payload": hostile, "payload_encoding": "string", "properties": {"type": hostile},
        })  # fmt: skip
    try:
        window.go("queues/%2F/full?tab=messages")
        window.click("form:has([name=state]) button[type=submit]")
        window.until(lambda: len(window.texts("#peeked .payload")) == 20, "a page of messages")
        assert window.texts("#peeked .payload") == [hostile] * 20
        window.click("#peeked > button")
        window.until(lambda: len(window.texts("#peeked .payload")) == 25, "the rest")
        assert window.driver.execute_script("return window.broken") is None
        assert http.get("/queues/%2F/full")["messages_ready"] == 25
        window.driver.execute_script("document.querySelector('[name=way]').value = 'queue'")
        window.find("form:has([name=way]) [name=name]").send_keys("other")
        window.click("form:has([name=way]) button[type=submit]")
        window.until(lambda: "25 of 25 messages would be moved." in window.texts("#survey > p"), "what would happen")
        window.click("#move")
        window.find("dialog input").send_keys("full")
        window.click("dialog button.danger")
        window.until(lambda: any("done: 25 of 25 moved" in each for each in window.texts("#job")), "the job's end")
        assert http.get("/queues/%2F/other")["messages_ready"] == 25
    finally:
        for queue in ("full", "other"):
            http("DELETE", f"/queues/%2F/{queue}")


def test_messages_are_watched_live_and_traced(window: Browser, http: Http) -> None:
    http("PUT", "/queues/%2F/seen", {"durable": True})
    said = {"routing_key": "seen", "properties": {}, "payload": "<b>live</b>", "payload_encoding": "string"}
    window.go("messages?tab=tail")
    window.find("form.inline input[name=routing_key]").send_keys("seen")
    window.click("form.inline button[type=submit]", "Begin")
    window.until(lambda: any("newest first" in each for each in window.texts("main [role=status]")), "it begins")
    http("POST", "/exchanges/%2F/amq.default/publish", said)
    window.until(lambda: window.texts("#copies pre.payload") == ["<b>live</b>"], "the copy")
    window.click("#stop")
    window.until(lambda: not http.get("/v1/traces"), "the tail ends")
    window.go("messages?tab=trace")
    window.find("form.inline input[name=queue]").send_keys("seen")
    window.click("form.inline button[type=submit]", "Begin")
    window.until(lambda: http.get("/v1/traces"), "the trace")
    http("POST", "/exchanges/%2F/amq.default/publish", said)
    window.until(lambda: window.click("button.small", "Show") or "published" in window.texts("#events td"), "the event")
    window.click("button.small", "End")
    window.until(lambda: not http.get("/v1/traces"), "the trace ends")
    http("DELETE", "/queues/%2F/seen")


def test_keys(window: Browser) -> None:
    window.go("overview")
    window.press("ge")
    window.until(lambda: "#/exchanges" in window.driver.current_url)
    window.until(lambda: "amq.topic" in window.texts("main tbody a"))
    window.press("/")
    window.driver.switch_to.active_element.send_keys("topic")
    window.until(lambda: window.texts("main tbody a") == ["amq.topic"])
    assert "name=topic" in window.driver.current_url
    window.press("\ue015")
    window.press("\ue007")
    window.until(lambda: window.texts("main h1") == ["amq.topic"])
    window.driver.back()
    window.until(lambda: window.texts("main tbody a") == ["amq.topic"])
    window.press("?")
    window.find("dialog kbd")
    window.press("\ue00c")


def test_thousands_of_queues_are_a_page_of_rows(window: Browser, http: Http, broker: RunningBroker) -> None:
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        for number in range(MANY):
            channel.call(m.QueueDeclare(queue=f"many.{number:05}"))
    window.go("queues")
    window.until(lambda: any("2,1" in each for each in window.texts(".pager .total")))
    assert len(window.all("main tbody tr")) == 50
    window.click(".pager button", "›")
    window.until(lambda: "page=2" in window.driver.current_url and window.texts("main tbody a")[:1] == ["many.00050"])
    window.click("th button", "Name")
    window.click("th button", "Name")
    window.until(lambda: window.texts("main tbody a")[:1] == [f"many.{MANY - 1:05}"])
    window.driver.back()
    window.until(lambda: window.texts("main tbody a")[:1] == ["many.00000"])
    window.find(".filter").send_keys("many.0120")
    window.until(lambda: len(window.all("main tbody tr")) == 10)
    window.click("thead .tick input")
    window.click(".many button", "Delete")
    window.until(lambda: len(window.texts("dialog tbody tr")) == 10)
    window.find("dialog input").send_keys("10")
    window.click("dialog button.danger")
    window.until(lambda: http.get("/queues?page=1&name=many.0120")["filtered_count"] == 0)
    window.driver.execute_script("history.replaceState(null, '', '#/queues')")
    for place in PLACES:
        window.go(place)
        window.find("main h1")
        assert len(window.all("main tbody tr")) <= 200
    window.go("overview")
    window.until(lambda: any("2,09" in each for each in window.texts(".figures a")))


ROLES = ("viewer", "management", "policymaker", "monitoring")
#: What each of them is not shown on these pages.
CHANGES = {
    "queues": "#add, thead .tick",
    "exchanges": "#add",
    "connections": "thead .tick",
    "exchanges/%2F/amq.topic": ".bar button",
    "queues/%2F/shown": "[data-tab=messages], [data-tab=danger]",
    "queues/%2F/shown?tab=bindings": ".bar button, td button",
    "exchanges/%2F/amq.direct": "[data-tab=publish], [data-tab=route], [data-tab=danger]",
    "messages": "[data-tab=jobs]",
}
ADMINISTRATION = {
    "admin": "[data-tab=users], [data-tab=definitions]",
    "admin?tab=vhosts": ".bar button",
    "admin?tab=operator": ".bar button",
    "admin?tab=limits": ".bar button",
    "vhosts/%2F": "button:not(.series)",
    "consumers": "td button",
    "messages": "[data-tab=trace]",
    "cluster": "button",
    "cluster/NODE": "#drain",
}


@pytest.fixture
def by_role(http: Http) -> None:
    for role in ROLES:
        http("PUT", f"/users/{role}", {"password": role, "tags": role})
        http("PUT", f"/permissions/%2F/{role}", {"configure": "", "write": "", "read": ".*"})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("by_role")
def test_somebody_who_may_less_is_shown_less(
    newcomer: Browser, http: Http, held: Connection, role: str
) -> None:
    http("PUT", "/queues/%2F/shown", {"durable": True})
    http("POST", "/bindings/%2F/e/amq.topic/q/shown", {"routing_key": "k"})
    held.channel().consume("shown")
    newcomer.driver.set_window_size(375, 800)
    newcomer.log_in(role, role)
    may = {} if role == "viewer" else CHANGES
    if role == "policymaker":
        may = {**may, "admin?tab=policies": ".bar button"}
    may_not = [*ADMINISTRATION.items(), *(CHANGES.items() if role == "viewer" else ())]
    node = segment(http.get("/overview")["node"])
    for place, hidden in may_not:
        if role == "monitoring" or not place.startswith("cluster/"):
            newcomer.go(place.replace("NODE", node))
            newcomer.find("main h1")
            assert [each for each in newcomer.all(f"main :is({hidden})") if each.is_displayed()] == [], place
    for place, shown in may.items():
        newcomer.go(place)
        newcomer.until(lambda shown=shown: newcomer.all(f"main :is({shown})"), f"{place} {shown}")
    if role != "policymaker":
        newcomer.go("admin?tab=policies")
        newcomer.find("main .message")
        assert newcomer.all("main .bar button") == []
    width = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    whole, seen = newcomer.driver.execute_script(width)
    assert whole <= seen, "nothing is wider than a telephone"
    if role == "management":
        http("PUT", "/users/management", {"password": "other", "tags": "management"})
        newcomer.find("form.login")
    http("DELETE", "/queues/%2F/shown")


def test_a_wrong_password_and_logging_out(newcomer: Browser) -> None:
    window = newcomer
    window.find("input[name=username]").send_keys("guest")
    window.find("input[name=password]").send_keys("wrong\n")
    window.until(lambda: window.texts(".problem:not([hidden])") == ["Name or password are not right."])
    window.visit(window.url)
    window.log_in()
    assert window.driver.execute_script("return document.cookie") == ""
    window.find("#logout").click()
    window.find("form.login")
    stored = "return JSON.stringify([{...localStorage}, {...sessionStorage}])"
    assert "guest" not in window.driver.execute_script(stored)
    window.user = ""
