"""Names that are meant to break pages, on the pages of administration, of connections and channels, and on the audit
log: they are text in lists, headings, links, forms and questions. The console says nothing is wrong (conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator

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

NAMES = [*HOSTILE[:3], *(pytest.param(each, marks=pytest.mark.long) for each in HOSTILE[3:])]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest, http: Http) -> Iterator[str]:
    """What a user, a virtual host and all that can be named in it are called."""
    said: str = request.param
    own = segment(said)
    made = {
        f"/vhosts/{own}": {"description": said, "tags": [said]},
        f"/users/{own}": {"password": said, "tags": ""},
        f"/permissions/{own}/{own}": dict.fromkeys(("configure", "write", "read"), "^<u>x</u>$"),
        f"/permissions/{own}/guest": dict.fromkeys(("configure", "write", "read"), ".*"),
        f"/exchanges/{own}/{own}": {"type": "topic"},
        f"/topic-permissions/{own}/{own}": {"exchange": said, "write": "<u>", "read": "&amp;"},
        f"/policies/{own}/{own}": {"pattern": "<u>|&lt;", "definition": {"dead-letter-exchange": said}},
        f"/operator-policies/{own}/{own}": {
            "pattern": "<u>|&lt;", "apply-to": "queues", "definition": {"max-length": 5},
        },
        f"/vhost-limits/{own}/max-queues": {"value": 9},
        f"/user-limits/{own}/max-channels": {"value": 9},
        f"/queues/{own}/{own}": {"durable": True, "arguments": {"x-dead-letter-exchange": said}},
    }  # fmt: skip
    for path, body in made.items():
        assert http("PUT", path, body).status in (201, 204), path
    yield said
    http("DELETE", f"/vhosts/{own}")
    http("DELETE", f"/users/{own}")


def check(window: Browser, place: str) -> None:
    """Nothing of a name was taken for more than text."""
    assert not window.driver.execute_script("return window.broken"), place
    assert window.driver.execute_script("return document.querySelectorAll('script:not([src]), img, u').length") == 0
    assert window.texts("#state:not([hidden]), .problem:not([hidden])") == [], place


def cells(window: Browser) -> list[str]:
    return window.texts("main td, main td a, main td code, main td .badge")


#: Where it is seen in a list.
LISTS = (
    "admin?tab=users", "admin?tab=vhosts", "admin?tab=policies", "admin?tab=operator", "admin?tab=limits", "users/NAME",
    "vhosts/NAME", "queues?vhost=NAME", "exchanges?vhost=NAME",
)  # fmt: skip
#: Those that are filtered by name.
FILTERED = LISTS[:4]


def test_lists_and_headings_show_it(window: Browser, name: str) -> None:
    for place in LISTS:
        window.go(place.replace("NAME", segment(name)))
        window.until(lambda: name in cells(window), place)
        check(window, place)
    for place in ("users", "vhosts"):
        window.go(f"{place}/{segment(name)}")
        window.until(lambda: any(name in each for each in window.texts("main h1")), place)
        check(window, place)


def test_links_lead_there(window: Browser, name: str) -> None:
    for place in ("admin?tab=users", "admin?tab=vhosts"):
        window.go(place)
        window.until(lambda: name in cells(window), place)
        script = "[...document.querySelectorAll('main td a')].find(each => each.textContent === arguments[0]).click()"
        window.driver.execute_script(script, name)
        window.until(lambda: any(name in each for each in window.texts("main h1")), f"the link of {place}")
        check(window, place)


def test_filters_find_it(window: Browser, name: str) -> None:
    for place in FILTERED:
        window.go("overview")
        window.go(place)
        window.until(lambda: name in cells(window), place)
        field = window.find("main input[type=search]")
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', { bubbles: true }))"
        window.driver.execute_script(script, field, name)
        window.until(lambda: len(window.all("main tbody tr")) == 1 and name in cells(window), f"the filter of {place}")
        check(window, place)


@pytest.mark.parametrize("place", ["admin?tab=policies", "admin?tab=operator", "vhosts/NAME", "users/NAME"])
def test_forms_and_questions_show_it(window: Browser, http: Http, name: str, place: str) -> None:
    """A row is edited as it is, and taken away after a question."""
    window.go("overview")
    window.go(place.replace("NAME", segment(name)))
    window.until(lambda: name in cells(window), place)

    def press(title: str) -> None:
        script = (
            "const [name, title] = arguments, all = (node, what) => [...node.querySelectorAll(what)];"
            "const row = all(document, 'main tbody tr').find(each => each.textContent.includes(name));"
            "all(row, 'button').find(each => each.textContent === title).click()"
        )
        window.driver.execute_script(script, name, title)
        window.find("dialog")
        check(window, f"{place}: {title}")

    press("Edit")
    window.click("dialog button[type=submit]")
    if "admin" in place:  # what it would match is shown first
        window.find("dialog .preview p")
        window.click("dialog button[type=submit]", "Save")
    window.until(lambda: not window.all("dialog[open]"), f"{place}: saved as it was")
    press("Remove" if "admin" in place else "Take away")
    assert name in " ".join(window.texts("dialog"))
    window.press("\ue00c")
    window.until(lambda: not window.all("dialog[open]"), "nothing is done")
    own = segment(name)
    kept = http.get(f"/permissions/{own}/{own}")
    assert kept["configure"] == "^<u>x</u>$"


def test_what_is_chosen_and_written_down_is_text(window: Browser, broker: RunningBroker, name: str) -> None:
    """The choice of the virtual host, and the audit log."""
    window.go("audit")
    window.until(lambda: name in cells(window), "the audit log")
    check(window, "audit")
    window.go("overview")
    script = "return [...document.querySelectorAll('#top select option')].map(each => each.textContent)"
    window.until(lambda: name in window.driver.execute_script(script), "the choice")
    check(window, "overview")


def test_clients_are_text(window: Browser, http: Http, broker: RunningBroker, name: str) -> None:
    """Of a user of that name, in a virtual host of that name, who calls himself so."""
    own = segment(name)
    http("PUT", f"/permissions/{own}/{own}", dict.fromkeys(("configure", "write", "read"), ".*"))
    host, port = broker.url.rpartition("@")[2].rstrip("/").split("/")[0].split(":")
    url = f"amqp://{own}:{own}@{host}:{port}/{own}"
    with Connection.open(url, name=name) as client:
        client.channel().consume(name)
        (row,) = [row for row in http.get("/channels") if row["user"] == name]
        for place in ("connections", "channels", "consumers"):
            window.go(place)
            window.until(lambda: name in cells(window), place)
            check(window, place)
        for place in (
            f"connections/{segment(row['connection_details']['name'])}", f"channels/{segment(row['name'])}",
            f"queues/{own}/{own}?tab=consumers", f"queues/{own}/{own}?tab=configuration", f"exchanges/{own}/{own}",
        ):  # fmt: skip
            window.go(place)
            window.until(lambda: any(name in each for each in window.texts("main")), place)
            check(window, place)
