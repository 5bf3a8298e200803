"""The page of a stream: its messages from anywhere on, its segments, and what is done to it by hand. With names that
are meant to break it, without a mouse, in the dark, and on a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

import pytest

from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http, segment
from tests.web.ui.browser import why_none
from tests.web.ui.test_pages import HOSTILE

pytest.importorskip("selenium")
#: One broker and one browser for all of them.
pytestmark = [pytest.mark.xdist_group("web pages"), pytest.mark.skipif(bool(why_none()), reason=why_none())]

if not why_none():
    from tests.web.ui.browser import Browser

TAB, ENTER = "\ue004", "\ue007"
STREAM = {"x-queue-type": "stream"}
PAGE = "queues/%2F/log?tab=stream"
PRODUCER = "<b>shop</b>"


def publish(broker: RunningBroker, queue: str, *bodies: bytes, producer: str = "") -> None:
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        for number, body in enumerate(bodies):
            headers = {"x-producer-id": producer, "x-producer-sequence": number} if producer else {}
            channel.publish("", queue, body, {"headers": headers})
            channel.wait_for_confirms()


@pytest.fixture
def log(http: Http, broker: RunningBroker) -> Iterator[str]:
    """A stream of five messages."""
    assert http("PUT", "/queues/%2F/log", {"durable": True, "arguments": STREAM}).status == 201
    publish(broker, "log", *[b"message %d" % number for number in range(5)], producer=PRODUCER)
    yield "/v1/streams/%2F/log"
    for name in ("log", "to"):
        http("DELETE", f"/queues/%2F/{name}")


def choose(window: Browser, selector: str, value: str) -> None:
    """An option of a list, as somebody does it."""
    window.driver.execute_script(
        "const [selector, value] = arguments;"
        "const list = [...document.querySelectorAll(selector)].find(each => each.checkVisibility());"
        "list.value = value; list.dispatchEvent(new Event('input', { bubbles: true }))", selector, value,
    )  # fmt: skip


def look(window: Browser, place: str = PAGE) -> None:
    """Anew, whatever was shown before."""
    window.go("overview")
    window.go(place)


def put(window: Browser, selector: str, value: str) -> None:
    window.driver.execute_script("arguments[0].value = arguments[1]", window.find(selector), value)


def local(window: Browser, milliseconds: int) -> str:
    """A time as a field of the page has it."""
    script = (
        "const [at] = arguments, behind = new Date(at).getTimezoneOffset() * 60000;"
        "return new Date(at - behind).toISOString()"
    )
    return str(window.driver.execute_script(script, milliseconds))[:19]


def says(window: Browser, selector: str, text: str) -> None:
    window.until(lambda: text in window.texts(selector), text)


def shows(window: Browser, *bodies: str) -> None:
    window.until(lambda: window.texts("#peeked .payload") == list(bodies), f"{bodies}")


def test_a_stream_has_its_offsets_groups_and_messages(window: Browser, http: Http, log: str) -> None:
    http("PUT", f"{log}/groups/<b>billing", {"offset": 2})
    http("PUT", f"{log}/holds/audit", {"offset": 1})
    look(window)
    window.until(lambda: "<b>billing" in window.texts("main td"), "the group")
    assert {"2", "3", "audit", "1"} <= set(window.texts("main td"))
    window.find("main input[name=from]").send_keys("3")
    window.click("main form button")
    shows(window, "message 3", "message 4")
    assert window.texts("main .problem:not([hidden])") == []


def test_messages_are_read_from_anywhere(window: Browser, http: Http, broker: RunningBroker, log: str) -> None:
    every = [f"message {number}" for number in range(5)]
    for at, expected in (
        ("first", every), ("last", every[4:]), ("newest", every[::-1]), ("next", []), ("offset", every),
    ):  # fmt: skip
        look(window, f"{PAGE}&at={at}")
        window.find("#peeked .end")
        assert window.texts("#peeked .payload") == expected, at
    look(window, f"{PAGE}&at=next")
    window.find("#peeked .end")
    publish(broker, "log", b"new")
    window.click("#peeked button", "Look on")
    shows(window, "new")
    publish(broker, "log", b"newer")
    window.click("#peeked button", "Look on")
    shows(window, "new", "newer")
    last = http.get("/v1/queues/%2F/log/messages?from=newest&limit=1")["messages"][0]["arrived"]
    choose(window, "main [name=at]", "time")
    assert not [each for each in window.all("main [name=from]") if each.is_displayed()]
    put(window, "main [name=at_time]", local(window, last + 60_000))
    window.click("main form button")
    window.until(lambda: window.texts("#peeked .payload") == [] and window.texts("#peeked .end"), "none so late")
    put(window, "main [name=at_time]", local(window, last - 3_600_000))
    window.click("main form button")
    shows(window, *every, "new", "newer")
    assert "at=time" in window.driver.current_url
    choose(window, "main [name=at]", "age")
    window.find("main [name=at_age]").send_keys("soon")
    window.click("main form button")
    window.until(lambda: any("A number and one of" in each for each in window.texts("main .problem")), "no age")
    put(window, "main [name=at_age]", "1h")
    window.click("main form button")
    shows(window, *every, "new", "newer")


@pytest.mark.usefixtures("log")
def test_a_button_does_one_thing_at_a_time(window: Browser, broker: RunningBroker) -> None:
    """However often it is pressed until that is done; and what comes next has the focus."""
    publish(broker, "log", *[b"%d" % number for number in range(40)])
    look(window, f"{PAGE}&at=first")
    window.until(lambda: len(window.texts("#peeked .payload")) == 20, "a page")
    script = (
        "const button = document.querySelector('#peeked > button'); button.focus();"
        "button.click(); button.click(); return button.disabled"
    )
    assert window.driver.execute_script(script) is True
    window.until(lambda: len(window.texts("#peeked .payload")) > 20, "more")
    assert len(window.texts("#peeked .payload")) == 40
    focused = "return document.activeElement.textContent"
    window.until(lambda: window.driver.execute_script(focused) == "More", "the focus")
    window.press(ENTER)
    window.until(lambda: len(window.texts("#peeked .payload")) == 45, "the rest")
    window.until(lambda: window.driver.execute_script(focused) == "Look on", "the focus")


def test_a_compacted_stream_is_compacted_by_hand(window: Browser, http: Http, broker: RunningBroker) -> None:
    arguments = {**STREAM, "x-stream-compact": True}
    assert http("PUT", "/queues/%2F/keys", {"durable": True, "arguments": arguments}).status == 201
    try:
        publish(broker, "keys", b"1", b"2", b"3")
        look(window, "queues/%2F/keys?tab=stream")
        says(window, "main dd", "routing-key")
        window.click("#compact")
        window.until(lambda: http.get("/v1/streams/%2F/keys")["compaction"]["below"] == 3, "compacted")
        says(window, "main dd", "0 %")
        window.driver.execute_script("scrollTo(0, 0)")
        window.click("#segment-list")
        says(window, "#segments .badge", "compacted")
    finally:
        http("DELETE", "/queues/%2F/keys")


def test_segments_are_shown(window: Browser, http: Http, broker: RunningBroker, log: str) -> None:
    look(window)
    window.click("#segment-list")
    window.until(lambda: "in no file yet" in window.texts("#segments .badge"), "what is in RAM")
    assert "0 to 5" in window.texts("#segments td")
    publish(broker, "log", bytes(300_000), b"x", bytes(300_000), b"x")  # large ones have places in a file at once
    found = http.get(f"{log}/segments")
    window.click("#segment-list")
    window.until(lambda: len(window.all("#segments tbody tr")) == len(found["segments"]) > 1, "files")
    script = "return [...document.querySelectorAll('#segments tbody tr')].map(row => Number(row.cells[1].textContent))"
    assert sum(window.driver.execute_script(script)) == 9
    # However they are cut into pages, it is the same list.
    rows = window.texts("#segments tbody tr")
    page = (
        "const { fetch } = window; window.fetch = (url, ...more) => fetch(url.replace('limit=50', 'limit=1'), ...more);"
        "window.wholePages = () => { window.fetch = fetch; }"
    )
    window.driver.execute_script(page)
    try:
        window.click("#segment-list")
        window.until(lambda: len(window.all("#segments tbody tr")) == 1, "one of them")
        more = "document.querySelector('#segments p > button:enabled')?.click()"
        window.until(lambda: window.texts("#segments tbody tr") == rows or window.driver.execute_script(more), "all")
    finally:
        window.driver.execute_script("window.wholePages()")


def test_limits_of_nothing_are_not_those_of_all(window: Browser, http: Http) -> None:
    for name, more, expected in (
        ("none", {"x-max-length-bytes": 0, "x-stream-max-segment-size-bytes": 0}, "0 B: only what was published last"),
        ("all", {}, "all"), ("some", {"x-max-length-bytes": 2048}, "2 KiB"),
    ):  # fmt: skip
        assert http("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": {**STREAM, **more}}).status == 201
        http("PUT", f"/v1/streams/%2F/{name}/groups/g", {"offset": 0})  # somebody has used it
        look(window, f"queues/%2F/{name}?tab=stream")
        says(window, "main dd", expected)
        script = "return [...document.querySelectorAll('main dt')].find(each => each.textContent.startsWith('Dropped'))"
        steps = window.driver.execute_script(f"{script}.nextSibling.textContent")
        assert steps == ("0 B" if name == "none" else "476.8 MiB"), name
        http("DELETE", f"/queues/%2F/{name}")


def test_a_range_is_published_again(window: Browser, http: Http, log: str) -> None:
    http("PUT", "/queues/%2F/to", {"durable": True})
    look(window)
    form = "main form:has([name=below])"
    window.find(f"{form} [name=name]").send_keys("to")
    choose(window, f"{form} [name=first]", "offset")
    window.find(f"{form} [name=first_offset]").send_keys("1")
    choose(window, f"{form} [name=below]", "offset")
    window.find(f"{form} [name=below_offset]").send_keys("4")
    window.find(f"{form} [name=limit]").send_keys("2")
    window.click(f"{form} button[type=submit]")
    window.until(lambda: window.texts("#range p") == [
        "Offsets 1 to 4: up to 2 messages would be published again.",
    ], "what would happen")  # fmt: skip
    assert http.get("/queues/%2F/to")["messages"] == 0
    window.click("#replay")
    window.until(lambda: any("done: 2 of 3 published again" in each for each in window.texts("#job")), "the job's end")
    found = http.get("/v1/queues/%2F/to/messages")["messages"]
    assert [each["payload"] for each in found] == ["message 1", "message 2"]
    assert http.get(log)["messages"] == 5
    put(window, f"{form} [name=name]", "no such")
    window.click(f"{form} button[type=submit]")
    window.click("#replay")
    window.until(lambda: any("no queue 'no such'" in each for each in window.texts("#notes p")), "why not")


def test_a_group_goes_on_elsewhere_and_is_forgotten(window: Browser, http: Http, log: str) -> None:
    http("PUT", f"{log}/groups/{segment(PRODUCER)}", {"offset": 4})

    def position(name: str) -> int | None:
        return {each["name"]: each["position"] for each in http.get(log)["groups"]}.get(name)

    def is_at(offset: int) -> bool:
        return position(PRODUCER) == offset

    look(window)
    window.until(lambda: PRODUCER in window.texts("main td"), "the group")
    window.click("#seek")
    window.find("dialog [name=to_offset]").send_keys("1")
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: "Up to 3 messages come again." in window.texts("dialog .preview p"), "what would happen")
    assert position(PRODUCER) == 4
    choose(window, "dialog [name=to]", "next")
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: "Up to 1 messages are passed over." in window.texts("dialog .preview p"), "it is asked anew")
    window.click("dialog button.danger", "Seek")
    window.until(lambda: position(PRODUCER) == 5, "it is there")
    window.until(lambda: not window.all("dialog"))
    for way, expected in (("first", 0), ("last", 4), ("age", 0), ("time", 0)):
        window.click("#seek")
        choose(window, "dialog [name=to]", way)
        if way == "age":
            window.find("dialog [name=to_age]").send_keys("1h")
        if way == "time":
            put(window, "dialog [name=to_time]", "2001-01-01T00:00:00")
        window.click("dialog button.danger", "What would happen?")
        window.click("dialog button.danger", "Seek")
        window.until(partial(is_at, expected), way)
        window.until(lambda: not window.all("dialog"))
    window.click("#seek")
    choose(window, "dialog [name=group]", "")
    window.find("dialog [name=name]").send_keys("new one")
    choose(window, "dialog [name=to]", "first")
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: "It is new." in window.texts("dialog .preview p"))
    window.click("dialog button.danger", "Seek")
    window.until(lambda: position("new one") == 0, "the new one")
    window.until(lambda: not window.all("dialog") and "new one" in window.texts("main td"))
    window.click("#forget")
    choose(window, "dialog [name=group]", "new one")
    window.click("dialog button.danger", "Forget …")
    confirm = window.find("dialog input[name=confirm]")
    assert not window.find("dialog button.danger").is_enabled()
    confirm.send_keys("new one")
    window.click("dialog button.danger")
    window.until(lambda: position("new one") is None, "forgotten")


def test_the_oldest_messages_are_dropped_when_the_name_is_typed(window: Browser, http: Http, log: str) -> None:
    look(window)
    form = "main .danger-zone form"
    window.find(f"{form} [name=before_offset]").send_keys("2")
    window.click(f"{form} button[type=submit]")
    window.until(lambda: "Up to 2 messages would go." in window.texts("#trimmed p"), "what would happen")
    window.click("#trim")
    field = window.find("dialog input[name=confirm]")
    field.send_keys("lo")
    assert not window.find("dialog button.danger").is_enabled()
    assert http.get(log)["first_offset"] == 0
    field.send_keys("g")
    window.click("dialog button.danger")
    window.until(lambda: http.get(log)["first_offset"] == 2, "dropped")
    window.until(lambda: "2 to 5" in window.texts("main dd"), "it is shown")


def test_messages_are_held_and_let_go(window: Browser, http: Http, log: str) -> None:
    look(window)
    window.click("#hold")
    window.find("dialog [name=name]").send_keys("<i>audit")
    choose(window, "dialog [name=at]", "offset")
    window.find("dialog [name=at_offset]").send_keys("3")
    put(window, "dialog [name=age]", "soon")
    window.click("dialog button.primary")
    window.until(lambda: any("A number and one of" in each for each in window.texts("dialog .problem")), "no age")
    put(window, "dialog [name=age]", "2h")
    window.click("dialog button.primary")
    window.until(lambda: "<i>audit" in window.texts("main td"), "it is listed")
    (hold,) = http.get(log)["holds"]
    assert (hold["name"], hold["offset"]) == ("<i>audit", 3)
    assert 7_000 < hold["until"] / 1000 - datetime.now().timestamp() <= 7_200
    window.click("#unhold")
    window.click("dialog button.danger")
    window.until(lambda: http.get(log)["holds"] == [], "let go")
    window.until(lambda: not window.find("#unhold").is_enabled(), "there is none any more")


@pytest.mark.usefixtures("log")
def test_what_became_of_a_sequence(window: Browser) -> None:
    look(window)
    form = "main form:has([name=producer])"
    window.find(f"{form} [name=producer]").send_keys(PRODUCER)
    for sequence, expected in (("4", "Sequence 4 has arrived."), ("7", "Sequence 7 has not arrived: send it again.")):
        put(window, f"{form} [name=sequence]", sequence)
        window.click(f"{form} button[type=submit]")
        says(window, f"{form} .output p", expected)
    assert "Sequence 4 came last, at offset 4." in window.texts(f"{form} .output p")
    put(window, f"{form} [name=producer]", "nobody")
    put(window, f"{form} [name=sequence]", "")
    window.click(f"{form} button[type=submit]")
    window.until(lambda: window.texts(f"{form} .output p") == ["The stream remembers nothing of it."])


def test_one_with_partitions(window: Browser, http: Http, broker: RunningBroker) -> None:
    arguments = {**STREAM, "x-stream-partitions": 2}
    assert http("PUT", "/queues/%2F/parts", {"durable": True, "arguments": arguments}).status == 201
    publish(broker, "parts-0", b"1", b"2")
    publish(broker, "parts-1", b"3")
    http("PUT", "/v1/streams/%2F/parts/groups/g", {"offset": 0})
    look(window, "queues/%2F/parts?tab=stream")
    window.until(lambda: "parts-1" in window.texts("main td"), "the partitions")
    assert not window.all("main :is(#hold, #replay, #segment-list, [name=producer])")
    window.click("#seek")
    choose(window, "dialog [name=to]", "next")
    window.click("dialog button.danger", "What would happen?")
    window.until(lambda: window.texts("dialog .preview td")[:3] == ["parts-0", "0", "2"], "where it is in each")
    window.click("dialog button.danger", "Seek")
    window.until(lambda: http.get("/v1/streams/%2F/parts")["groups"][0]["lag"] == 0, "at the end of each")
    window.until(lambda: not window.all("dialog"))
    form = "main .danger-zone form"
    choose(window, f"{form} [name=before]", "next")
    window.click(f"{form} button[type=submit]")
    window.until(lambda: "Up to 3 messages would go." in window.texts("#trimmed p"), "what would happen")
    publish(broker, "parts", b"not looked at")
    window.click("#trim")
    window.find("dialog input").send_keys("parts")
    window.click("dialog button.danger")
    window.until(lambda: http.get("/v1/streams/%2F/parts")["messages"] == 1, "what was looked at is dropped")
    http("DELETE", "/queues/%2F/parts")


@pytest.mark.parametrize("name", [*HOSTILE[:3], *(pytest.param(each, marks=pytest.mark.long) for each in HOSTILE[3:])])
def test_names_are_text(window: Browser, http: Http, broker: RunningBroker, name: str) -> None:
    own = segment(name)
    assert http("PUT", f"/queues/%2F/{own}", {"durable": True, "arguments": STREAM}).status == 201
    publish(broker, name, name.encode(), producer=name)
    for what in ("groups", "holds"):
        assert http("PUT", f"/v1/streams/%2F/{own}/{what}/{own}", {"offset": 0}).status == 200
    try:
        look(window, f"queues/%2F/{own}?tab=stream&at=first")
        window.until(lambda: window.texts("#peeked .payload") == [name], "its message")
        assert window.texts("main td").count(name) == 2
        window.click("#segment-list")
        window.find("#segments td")
        for button in ("#seek", "#forget", "#unhold"):
            window.click(button)
            window.until(lambda: name in window.texts("dialog option"), button)
            window.click("dialog button", "Cancel")
        choose(window, "main [name=before]", "next")
        window.click("main .danger-zone form button[type=submit]")
        window.click("#trim")
        assert name in window.texts("dialog code")
        window.click("dialog button", "Cancel")
        assert not window.driver.execute_script("return window.broken")
        script = "return document.querySelectorAll('main script, main img, main b b').length"
        assert window.driver.execute_script(script) == 0
        assert window.texts("main .problem:not([hidden])") == []
    finally:
        http("DELETE", f"/queues/%2F/{own}")


def test_it_is_done_with_keys_alone(window: Browser, http: Http, log: str) -> None:
    """And what has the focus keeps it when the page is refreshed."""
    http("PUT", f"{log}/groups/g", {"offset": 1})
    look(window)
    window.find("#seek")
    window.driver.execute_script("document.querySelector('main .tabs [data-tab=stream]').focus()")
    focused = "return document.activeElement.id || document.activeElement.name || document.activeElement.textContent"
    for _ in range(5):
        window.press(TAB)
        if window.driver.execute_script(focused) == "seek":
            break
    assert window.driver.execute_script(focused) == "seek"
    http("PUT", f"{log}/groups/g", {"offset": 2})
    window.driver.execute_script("document.dispatchEvent(new CustomEvent('refresh'))")
    window.until(lambda: "2" in window.texts("main td"), "the page is newer")
    assert window.driver.execute_script(focused) == "seek"
    window.press(ENTER)
    window.find("dialog select")
    assert window.driver.execute_script(focused) == "group"
    window.press(TAB)
    window.press("t")  # the first that begins so: the first message
    window.press(TAB)
    assert window.driver.execute_script("return document.querySelector('dialog [name=to]').value") == "first"
    window.press(TAB)
    window.press(ENTER)
    window.until(lambda: "Up to 2 messages come again." in window.texts("dialog .preview p"), "what would happen")
    window.press(ENTER)
    window.until(lambda: http.get(log)["groups"][0]["position"] == 0, "it is there")
    window.until(lambda: not window.all("dialog"))


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_telephone_in_the_light_and_in_the_dark(window: Browser, http: Http, log: str, scheme: str) -> None:
    """Nothing is wider than it, and what is written can be read."""
    http("PUT", f"{log}/groups/{'g' * 200}", {"offset": 1})
    http("PUT", f"{log}/holds/{'h' * 200}", {"offset": 1})
    driver = window.driver
    driver.set_window_size(375, 800)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        look(window, f"{PAGE}&at=first")
        window.until(lambda: window.texts("#peeked .payload"), "its messages")
        window.click("#segment-list")
        window.find("#segments td")
        width = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        whole, seen = driver.execute_script(width)
        assert whole <= seen
        window.click("#seek")
        whole, seen = driver.execute_script(
            "const dialog = document.querySelector('dialog'); return [dialog.scrollWidth, dialog.clientWidth]"
        )
        assert whole <= seen
        # Light is more than the half of what there is.
        light = (
            "const numbers = getComputedStyle(arguments[0]).color.match(/[0-9.]+/g);"
            "return numbers.slice(0, 3).reduce((sum, each) => sum + Number(each), 0)"
        )
        for selector in ("dialog", "main input[name=from], main [name=at]", "#segments td"):
            element = window.all(selector)[0]
            ink = driver.execute_script(light, element)
            assert (ink > 382) is (scheme == "dark"), (selector, ink)
        window.click("dialog button", "Cancel")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        driver.set_window_size(1280, 900)
