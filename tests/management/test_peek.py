"""queue.peek: what is in a queue is shown as it is, wherever it lies, and stays as it is."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.management.users import add_user
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, small_config
from tests.node.system_service import SystemService
from tests.queue_types.last_value import LastValueType
from tests.queue_types.memory_queue import MemoryQueue
from tests.queue_types.registering import register

TYPES = ("classic", "quorum")
#: RAM in abundance; a head of two messages and tiny pages; and so little RAM that pages are on the disk.
PLACES: dict[str, dict[str, Any]] = {
    "head": {},
    "pages": {"queue_head_messages": 2, "queue_head_size_bytes": 500, "page_size_bytes": 1000},
    "disk": {
        "queue_head_messages": 2, "queue_head_size_bytes": 500, "page_size_bytes": 1000, "memory_budget_bytes": 3000,
    },
}  # fmt: skip


class Looked:
    """A node with a queue `q`, a client on channel 1, and somebody who looks."""

    def __init__(self, queue_type: str, place: str = "head", **arguments: object) -> None:
        self.driver = NodeDriver(small_config(**PLACES[place]))
        self.service = SystemService(self.driver)
        self.client: Client = self.driver.client(1)
        self.say(declare("q", x_queue_type=queue_type, **arguments))

    def say(self, *methods_said: Any) -> list[str]:
        self.client.send(1, *methods_said)
        self.run()
        return self.client.names()

    def run(self) -> None:
        self.driver.settle()
        self.driver.wait(100)

    def publish(self, *bodies: bytes, **properties: object) -> None:
        section = encode_properties({"delivery_mode": 2, **properties})
        for body in bodies:
            octets = encode_method_frame(1, methods.BasicPublish(0, "", "q", False, False))
            octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
            for start in range(0, len(body), 4088):
                octets += frame_octets(3, 1, body[start : start + 4088])
            self.client.send_octets(octets)
        self.run()

    def peek(self, **fields: object) -> dict[str, Any]:
        answer = self.service.ask("queue.peek", vhost="/", name="q", **fields)
        assert answer["ok"], answer
        return answer

    def bodies(self, **fields: object) -> list[bytes]:
        """Those of all pages."""
        found, begin = [], fields.pop("from", "oldest")
        while begin is not None:
            answer = self.peek(**{"from": begin}, **fields)
            found += [body_of(message) for message in answer["messages"]]
            begin, fields["backwards"] = answer["next"], answer["backwards"]
        return found


def body_of(message: dict[str, Any]) -> bytes:
    return base64.b64decode(message["payload"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("queue_type", TYPES)
def test_all_is_seen_from_both_ends(queue_type: str, place: str) -> None:
    looked = Looked(queue_type, place)
    bodies = [b"%d" % number * 20 for number in range(60)]
    looked.publish(*bodies)
    if place == "disk":
        assert looked.driver.node.store.pager.pages_stored or queue_type == "quorum"
    for limit in (1, 7, 100):
        assert looked.bodies(limit=limit) == bodies
        assert looked.bodies(limit=limit, **{"from": "newest"}) == bodies[::-1]
    assert looked.bodies(**{"from": 41}) == bodies[40:]
    assert looked.bodies(**{"from": 41, "backwards": True}) == bodies[40::-1]
    assert looked.driver.queue("q").message_count() == 60


def test_pages_are_seen_on_the_disk_and_stay_there() -> None:
    looked = Looked("classic", "disk")
    looked.publish(*[b"x" * 100] * 60)
    pager = looked.driver.node.store.pager
    queue = looked.driver.queue("q")
    stored, used = [page.location for page in queue.ready.pages], pager.used
    assert any(page.data is None for page in queue.ready.pages)
    loaded = pager.pages_loaded
    assert len(looked.bodies(limit=9)) == 60
    assert ([page.location for page in queue.ready.pages], pager.used, pager.pages_loaded) == (stored, used, loaded)


@pytest.mark.parametrize("queue_type", TYPES)
def test_what_came_back_stands_where_it_stood(queue_type: str) -> None:
    looked = Looked(queue_type, "pages", x_max_priority=5) if queue_type == "classic" else Looked(queue_type, "pages")
    for number in range(30):
        looked.publish(b"%d" % number, priority=number % 3)
    looked.say(methods.BasicQos(0, 12, False), consume("q"))
    looked.say(methods.BasicNack(3, False, True), methods.BasicNack(7, False, True))
    looked.say(methods.BasicCancel("tag", False), methods.BasicNack(0, True, True))
    answer = looked.peek(limit=100)
    assert [body_of(message) for message in answer["messages"]] == [b"%d" % number for number in range(30)]
    counts = [message["delivery_count"] for message in answer["messages"]]
    assert sorted(set(counts)) == [0, 1, 2]
    assert [message["redelivered"] for message in answer["messages"]] == [count > 0 for count in counts]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("queue_type", TYPES)
def test_a_message_is_shown_with_all_that_is_known(queue_type: str, place: str) -> None:
    looked = Looked(queue_type, place)
    looked.publish(*[b"before"] * 5)
    large = bytes(range(256)) * 200
    looked.publish(large, headers={"a": [1, "x"]}, message_id="m", expiration="60000", priority=3)
    looked.publish(*[b"behind"] * 5)
    (found,) = looked.peek(limit=1, max_body_bytes=100, **{"from": 6})["messages"]
    assert body_of(found) == large[:100]
    assert (found["position"], found["state"], found["payload_bytes"]) == (6, "ready", len(large))
    assert (found["exchange"], found["routing_key"]) == ("", "q")
    assert found["properties"] == {
        "delivery_mode": 2, "headers": {"a": [1, "x"]}, "message_id": "m", "expiration": "60000", "priority": 3,
    }  # fmt: skip
    assert 0 < found["age_ms"] < 1000
    assert 59_000 < found["expires_in_ms"] < 60_000
    # The whole of it, in parts.
    whole = b""
    while len(whole) < len(large):
        (part,) = looked.peek(limit=1, max_body_bytes=20_001, body_from=len(whole), **{"from": 6})["messages"]
        whole += body_of(part)
    assert whole == large


@pytest.mark.parametrize("queue_type", TYPES)
def test_who_holds_a_message_is_seen(queue_type: str) -> None:
    looked = Looked(queue_type)
    looked.publish(*[b"%d" % number for number in range(6)])
    looked.say(methods.BasicGet(0, "q", False))
    looked.say(methods.BasicQos(0, 2, False), consume("q", "mine"))
    assert looked.bodies() == [b"3", b"4", b"5"]
    answer = looked.peek(state="unacked")
    assert [body_of(message) for message in answer["messages"]] == [b"0", b"1", b"2"]
    holders = [message["holder"] for message in answer["messages"]]
    assert [holder["consumer_tag"] for holder in holders] == ["", "mine", "mine"]
    assert {(holder["channel"], holder["user"]) for holder in holders} == {(1, "guest")}
    assert {holder["connection"] for holder in holders} == {str(looked.client.connection.peer)}
    assert (answer["messages_ready"], answer["messages_unacknowledged"]) == (3, 3)
    assert all(message["held_ms"] >= 100 for message in answer["messages"])
    # Page by page, from either end.
    assert looked.bodies(state="unacked", limit=1) == [b"0", b"1", b"2"]
    assert looked.bodies(state="unacked", limit=2, **{"from": "newest"}) == [b"2", b"1", b"0"]
    looked.say(methods.BasicAck(2, False))
    assert looked.bodies(state="unacked") == [b"0", b"2", b"3"]


@pytest.mark.parametrize("state", ["ready", "unacked"])
def test_a_filter_finds_what_fits(state: str) -> None:
    looked = Looked("classic", "pages")
    for number in range(40):
        looked.publish(b"about %d" % (number % 8), headers={"n": number % 4}, type="even" if number % 2 == 0 else "odd")
    if state == "unacked":
        looked.say(consume("q"))
    for text, count in {
        "": 40, "type=even": 20, "type!=even": 20, "header.n=3": 10, "header.n=3 type=even": 0, '"about 7"': 5,
        "routing_key=q exchange=": 40, "type=e*n": 20, "header.m=": 40, "header.m=*": 40, "header.m=1": 0,
    }.items():  # fmt: skip
        assert len(looked.bodies(state=state, limit=3, filter=text)) == count, text


@pytest.mark.parametrize("text", ["color=red", '"open', "header=1"])
def test_a_filter_that_is_none_is_refused(text: str) -> None:
    looked = Looked("classic")
    answer = looked.service.ask("queue.peek", vhost="/", name="q", filter=text)
    assert answer["code"] == "bad_request"
    assert "filter: " in answer["error"]


def test_an_answer_is_bounded_by_octets_and_by_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked("classic")
    looked.publish(*[b"x" * 60_000] * 8)
    answer = looked.peek(limit=8)
    assert (len(answer["messages"]), answer["next"]) == (5, 6)
    monkeypatch.setattr("amqp_broker.management.verbs.peek._MOST_LOOKED_AT", 3)
    answer = looked.peek(limit=8, filter="type=x")
    assert (answer["messages"], answer["looked_at"], answer["next"]) == ([], 3, 4)


def test_a_page_that_is_damaged_is_told_of_and_ends_nothing() -> None:
    looked = Looked("classic", "disk")
    looked.publish(*[b"x" * 100] * 60)
    page = next(page for page in looked.driver.queue("q").ready.pages if page.data is None)
    page.location = page.location._replace(offset=page.location.offset + 1)
    answer = looked.service.ask("queue.peek", vhost="/", name="q", limit=100)
    assert answer["code"] == "failed"
    assert "damaged" in answer["error"]
    page.location = page.location._replace(offset=page.location.offset - 1)
    assert len(looked.bodies(limit=100)) == 60


def test_who_may_not_read_a_queue_does_not_see_it() -> None:
    looked = Looked("classic")
    for name, read in (("reader", "^q$"), ("other", "^other$")):
        add_user(looked.driver, name, "management", vhosts=())
        looked.driver.node.broker.propose(commands.set_permission(name, "/", "", "", read))
    add_user(looked.driver, "stranger", "administrator", vhosts=())
    looked.run()
    ask = looked.service.ask
    assert ask("queue.peek", vhost="/", name="q", as_user="reader")["ok"]
    for name in ("other", "stranger"):
        answer = ask("queue.peek", vhost="/", name="q", as_user=name)
        assert (answer["code"], answer["reason"]) == ("not_authorised", "Not_Authorized")
    assert ask("queue.peek", vhost="/", name="nothing")["code"] == "not_found"
    assert ask("queue.peek", vhost="nothing", name="q")["code"] == "not_found"


def test_a_type_that_shows_its_messages_is_peeked() -> None:
    with register(LastValueType):
        looked = Looked("last-value")
        looked.publish(b"1", b"2")
        assert looked.bodies() == looked.bodies(**{"from": "newest"}) == [b"2"]
        looked.say(methods.BasicGet(0, "q", False))
        assert (looked.bodies(), looked.bodies(state="unacked")) == ([], [b"2"])


def test_a_type_that_does_not_show_them_says_so() -> None:
    looked = Looked("classic")
    MemoryQueue("toy", is_late=False).enter(looked.driver)
    answer = looked.service.ask("queue.peek", vhost="/", name="toy")
    assert answer["code"] == "precondition"
    assert "cannot be peeked: use basic.get" in answer["error"]
