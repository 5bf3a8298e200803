"""Ranges of a stream by `stream.offsets` and `stream.fetch`: what a blob has, where it ends, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.leases.stream_reads import MOST_UNDER_WAY
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from tests.leases.lease_service import Answer, Row, rows
from tests.leases.service_on_node import ServiceOnNode
from tests.management.users import add_user, log_in
from tests.node.node_driver import Client, NodeDriver, frame_octets
from tests.node.system_service import SystemService

MINUTE = 60_000


def publish(service: ServiceOnNode, *bodies: bytes, **properties: Any) -> None:
    """All in one turn, so in one chunk."""
    client: Client = service.client
    for body in bodies:
        octets = encode_method_frame(2, methods.BasicPublish(0, "", "s", False, False))
        section = encode_properties(properties)
        octets += frame_octets(2, 2, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        for start in range(0, len(body), 4088):
            octets += frame_octets(3, 2, body[start : start + 4088])
        client.send_octets(octets)
    service.run()


def a_stream(**arguments: object) -> ServiceOnNode:
    service = ServiceOnNode(NodeDriver())
    service.declare("s", x_queue_type="stream", **arguments)
    return service


def found(answer: Answer) -> list[Row]:
    assert answer.code == "ok", answer.fields
    return list(rows(answer.blob))


def test_a_range_has_what_was_published() -> None:
    service = a_stream()
    service.wait(1000)
    now = service.driver.node.clock.now
    publish(service, b"", b"one", b"x" * 20_000, content_type="t", headers={"a": 1})
    publish(service, b"two")
    answer = service.ask("stream.fetch", stream="s", from_=0, to=10)
    assert (answer.headers["x-end"], answer.headers["x-first"], answer.headers["x-next"]) == (4, 0, 4)
    messages = found(answer)
    assert [row.offset for row in messages] == [0, 1, 2, 3]
    assert [row.body for row in messages] == [b"", b"one", b"x" * 20_000, b"two"]
    assert {(row.exchange, row.routing_key, row.redelivered, row.delivery_count) for row in messages} == {
        ("", "s", False, 0)
    }
    properties = decode_properties(messages[1].properties)
    assert (properties.content_type, properties.headers) == ("t", {"a": 1})  # nothing is added to what was published
    assert abs(messages[0].enqueued_at - now) < 1000
    assert [row.offset for row in found(service.ask("stream.fetch", stream="s", from_=1, to=3))] == [1, 2]


def test_only_the_columns_that_are_asked_for() -> None:
    service = a_stream()
    publish(service, b"one", content_type="t")
    row = found(service.ask("stream.fetch", stream="s", from_=0, columns=["body"]))[0]
    assert (row.body, row.routing_key, row.properties, row.enqueued_at) == (b"one", "", b"\0\0", 0)


def test_a_blob_ends_at_its_octets_and_is_gone_on_from_there() -> None:
    service = a_stream()
    publish(service, *[b"%03d" % number + b"x" * 500 for number in range(50)])
    at, bodies, blobs = 0, [], 0
    while at < 50:
        answer = service.ask("stream.fetch", stream="s", from_=at, to=50, max_bytes=3000)
        bodies += [row.body[:3] for row in found(answer)]
        at, blobs = answer.headers["x-end"], blobs + 1
    assert bodies == [b"%03d" % number for number in range(50)]
    assert blobs > 5


@settings(max_examples=30, deadline=None)
@given(
    chunks=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=6), min_size=1, max_size=6),
    low=st.integers(0, 20), length=st.integers(0, 20), most=st.integers(1, 2000),
)  # fmt: skip
def test_any_range_in_any_pieces_is_what_lies_there(
    chunks: list[list[int]], low: int, length: int, most: int
) -> None:
    service = a_stream()
    published = []
    for sizes in chunks:
        bodies = [b"%d:" % (len(published) + number) + b"x" * size for number, size in enumerate(sizes)]
        publish(service, *bodies)
        published += bodies
    at, bodies, end = low, [], min(low + length, len(published))
    while at < end:
        answer = service.ask("stream.fetch", stream="s", from_=at, to=low + length, max_bytes=most)
        bodies += [row.body for row in found(answer)]
        assert answer.headers["x-end"] > at
        at = answer.headers["x-end"]
    assert bodies == published[low:end]


def test_a_filter_brings_its_values_only_and_says_how_far_it_looked() -> None:
    service = a_stream()
    publish(service, b"1", b"2", headers={"x-stream-filter-value": "red"})
    publish(service, b"3", headers={"x-stream-filter-value": "blue"})
    publish(service, b"4")
    for values, unfiltered, wanted in (
        (["red"], False, [b"1", b"2"]), (["blue"], True, [b"3", b"4"]), (["green"], False, []),
        (["red", "blue"], False, [b"1", b"2", b"3"]),
    ):  # fmt: skip
        answer = service.ask("stream.fetch", stream="s", from_=0, filter=values, match_unfiltered=unfiltered)
        assert [row.body for row in found(answer)] == wanted
        assert answer.headers["x-end"] == 4
    assert service.ask("stream.fetch", stream="s", from_=0, filter=[]).code == "invalid"
    assert service.ask("stream.fetch", stream="s", from_=0, filter="red").code == "invalid"


def test_what_is_behind_the_end_is_nothing_and_what_went_is_gone() -> None:
    service = a_stream()
    empty = service.ask("stream.fetch", stream="s", from_=3)
    assert (found(empty), empty.headers["x-end"]) == ([], 3)
    publish(service, b"1")
    publish(service, b"2")
    assert service.ask("stream.trim", vhost="/", name="s", before=1).code == "ok"
    gone = service.ask("stream.fetch", stream="s", from_=0)
    assert gone.code == "gone"
    assert "begins at offset 1: 0 is gone" in gone.fields["error"]
    assert [row.body for row in found(service.ask("stream.fetch", stream="s", from_=1))] == [b"2"]


def test_nothing_of_a_range_is_there_if_nothing_was_committed() -> None:
    """Also where its end is named, as those do who ask for so many messages at most."""
    service = a_stream()
    empty = service.ask("stream.fetch", stream="s", from_=0, to=3)
    assert (found(empty), empty.headers) == ([], {"x-end": 0, "x-first": 0, "x-next": 0})
    publish(service, b"1")
    for to in (1, 3):
        empty = service.ask("stream.fetch", stream="s", from_=1, to=to)
        assert (found(empty), empty.headers) == ([], {"x-end": 1, "x-first": 0, "x-next": 1})


def test_another_stream_of_the_name_is_another_one() -> None:
    service = a_stream()
    before = service.ask("stream.offsets", stream="s").fields["incarnation"]
    assert service.ask("stream.fetch", stream="s", from_=0, incarnation=before).code == "ok"
    service.client.send(2, methods.QueueDelete(0, "s", False, False, False))
    service.run()
    service.declare("s", x_queue_type="stream")
    assert service.ask("stream.offsets", stream="s").fields["incarnation"] != before
    assert service.ask("stream.fetch", stream="s", from_=0, incarnation=before).code == "gone"


def test_offsets_say_where_it_ends_and_where_a_time_begins() -> None:
    service = a_stream()
    assert service.ask("stream.offsets", stream="s").fields["next"] == 0
    publish(service, b"1", b"2")
    service.wait(MINUTE)
    time = service.driver.node.clock.now
    publish(service, b"3")
    said = service.ask("stream.offsets", stream="s", time=time).fields
    assert (said["first"], said["next"], said["at"]) == (0, 3, 2)
    assert said["bytes"] > 3
    assert service.ask("stream.offsets", stream="s", time=time + MINUTE).fields["at"] == 3
    said = service.ask("stream.offsets", stream="s", from_=1, max_messages=1).fields
    assert (said["start"], said["end"], said["cuts"]) == (1, 2, [])
    assert service.ask("stream.offsets", stream="s", from_=7).fields["end"] == 3


def test_octets_bound_a_range_by_pages_and_cut_it() -> None:
    service = a_stream()
    page = service.driver.node.store.pager.page_bytes
    for _ in range(20):
        publish(service, b"x" * page)
    said = service.ask("stream.offsets", stream="s", from_=0, max_bytes=5 * page, cut_bytes=2 * page).fields
    assert 2 <= said["end"] <= 5
    assert said["cuts"] == sorted(set(said["cuts"]))
    assert all(0 < cut < said["end"] for cut in said["cuts"])
    whole = service.ask("stream.offsets", stream="s", from_=0, cut_bytes=4 * page).fields
    assert whole["end"] == 20
    assert len(whole["cuts"]) >= 4
    assert service.ask("stream.offsets", stream="s", from_=0, max_bytes=1).fields["end"] == 1  # one page at least


def test_pages_that_are_cold_are_read_again() -> None:
    service = a_stream()
    page = service.driver.node.store.pager.page_bytes
    for number in range(40):
        publish(service, b"%02d" % number + b"x" * page)
    bodies, at = [], 0
    while at < 40:
        answer = service.ask("stream.fetch", stream="s", from_=at, max_bytes=4 * page)
        bodies += [row.body[:2] for row in found(answer)]
        at = answer.headers["x-end"]
    assert bodies == [b"%02d" % number for number in range(40)]


def test_a_connection_has_a_few_under_way() -> None:
    service = a_stream()
    publish(service, b"1")
    names = [service.send("stream.fetch", b'{"stream": "s", "from": 0}') for _ in range(MOST_UNDER_WAY + 2)]
    service.run()
    codes = [service.receive(name).code for name in names]
    assert set(codes) <= {"ok", "busy"}
    assert codes.count("ok") >= MOST_UNDER_WAY
    assert service.ask("stream.fetch", stream="s", from_=0).code == "ok"


@pytest.mark.parametrize("verb", ["stream.fetch", "stream.offsets"])
def test_other_queues_have_no_offsets(verb: str) -> None:
    service = a_stream()
    service.declare("q")
    assert service.ask(verb, stream="q", from_=0).code == "invalid"
    assert service.ask(verb, stream="none", from_=0).code == "not-found"
    assert service.ask(verb, from_=0).code == "invalid"
    assert service.ask(verb, stream="s", from_=-1).code == "invalid"


# -- holds and producers


def stat(service: ServiceOnNode) -> dict[str, Any]:
    return service.ask("stream.stat", vhost="/", name="s").fields


def test_a_hold_keeps_what_would_go_until_it_ends() -> None:
    service = a_stream(x_max_age="1m", x_stream_max_segment_size_bytes=1)
    publish(service, b"1")
    held = service.ask("stream.hold", stream="s", name="spark", offset=0, for_ms=90_000)
    assert held.fields["until"] == service.driver.node.clock.now + 90_000
    assert stat(service)["holds"] == [{"name": "spark", "offset": 0, "until": held.fields["until"]}]
    for _ in range(2):
        publish(service, b"2")
    service.wait(80_000)
    publish(service, b"3")
    assert stat(service)["first_offset"] == 0
    assert service.ask("stream.hold", stream="s", name="spark", until=0).code == "ok"
    publish(service, b"4")
    assert stat(service)["holds"] == []
    assert stat(service)["first_offset"] > 0


def test_a_hold_that_says_nothing_of_where_is_refused() -> None:
    service = a_stream()
    assert service.ask("stream.hold", stream="s", name="h", for_ms=1).code == "invalid"
    assert service.ask("stream.hold", stream="s", offset=0, for_ms=1).code == "invalid"
    assert service.ask("stream.hold", stream="s", name="h").code == "ok"  # there is none to be ended


def test_too_many_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("amqp_broker.queue_types.stream.operations", "queues.stream.stream"):
        monkeypatch.setattr(f"{module}.MOST_HOLDS", 2)
    service = a_stream()
    publish(service, b"1")
    for name in ("a", "b", "a"):
        assert service.ask("stream.hold", stream="s", name=name, offset=0, for_ms=MINUTE).code == "ok"
    refused = service.ask("stream.hold", stream="s", name="c", offset=0, for_ms=MINUTE)
    assert refused.code == "invalid"
    assert "has 2 holds already" in refused.fields["error"]


def test_what_became_of_a_send_whose_confirm_was_lost() -> None:
    service = a_stream()
    nobody = service.ask("stream.producer", stream="s", producer="p", sequence=0)
    assert (nobody.fields["sequence"], nobody.fields["is_published"]) == (None, False)
    for sequence in (1, 2, 5):
        publish(service, b"x", headers={"x-producer-id": "p", "x-producer-sequence": sequence})
    publish(service, b"x", headers={"x-producer-id": "q", "x-producer-sequence": 9})
    said = service.ask("stream.producer", stream="s", producer="p", sequence=5).fields
    assert (said["sequence"], said["offset"], said["is_published"]) == (5, 2, True)
    assert service.ask("stream.producer", stream="s", producer="p", sequence=6).fields["is_published"] is False
    assert "is_published" not in service.ask("stream.producer", stream="s", producer="q").fields


def test_who_may_not_read_it_is_refused_and_who_may_publish_asks_for_producers() -> None:
    service = a_stream()
    driver = service.driver
    for user, write, read in (("reader", "", "^s$"), ("writer", "^s$", ""), ("nobody", "", "")):
        add_user(driver, user)
        driver.node.broker.propose(commands.set_permission(user, "/", "", write, read))
    driver.settle()
    verbs = {
        "stream.fetch": {"from": 0}, "stream.offsets": {}, "stream.hold": {"name": "h", "offset": 0, "for_ms": 1},
        "stream.producer": {"producer": "p"},
    }  # fmt: skip
    for user, allowed in (("reader", set(verbs)), ("writer", {"stream.producer"}), ("nobody", set())):
        client = log_in(driver, user)
        desk = SystemService(driver, client)
        for verb, fields in verbs.items():
            if verb == "stream.fetch" and verb in allowed:
                continue  # its answer is no JSON
            answer = desk.ask(verb, stream="s", **fields)
            assert answer["ok"] is (verb in allowed), (user, verb, answer)
            if verb not in allowed:
                assert answer["code"] == "access-refused"


def test_all_partitions_are_held_and_asked_for_a_producer_at_once() -> None:
    service = a_stream(x_stream_partitions=3)
    for number, key in enumerate(("a", "b", "c", "d", "e")):
        publish(service, b"x", headers={"x-stream-key": key, "x-producer-id": "p", "x-producer-sequence": number})
    held = service.ask("stream.hold", stream="s", name="h", offset=0, for_ms=MINUTE)
    assert [row["name"] for row in held.fields["partitions"]] == ["s-0", "s-1", "s-2"]
    said = service.ask("stream.producer", stream="s", producer="p", sequence=3).fields["partitions"]
    for row in said:
        alone = service.ask("stream.producer", stream=row["name"], producer="p", sequence=3).fields
        assert row == {"name": row["name"], **{key: alone[key] for key in ("sequence", "offset", "is_published")}}
    assert {row["sequence"] for row in said} > {4}
    stat = service.ask("stream.stat", vhost="/", name="s").fields
    assert [(each["partition"], each["name"], each["offset"]) for each in stat["holds"]] == [
        (0, "h", 0), (1, "h", 0), (2, "h", 0),
    ]  # fmt: skip
    assert sum(row["producers"] for row in stat["partitions"]) == sum(row["sequence"] is not None for row in said)
    assert service.ask("stream.hold", stream="s", name="h", until=0).code == "ok"
    assert service.ask("stream.stat", vhost="/", name="s").fields["holds"] == []
    wrong = service.ask("stream.hold", stream="s", name="h", until=5)
    assert wrong.code == "invalid"
    assert wrong.fields["error"].startswith("partition 's-0': ")
    assert service.ask("stream.fetch", stream="s", from_=0).code == "invalid"


def test_lag_does_not_count_what_retention_has_taken() -> None:
    service = a_stream()
    for _ in range(5):
        publish(service, b"x")
    assert service.ask("stream.seek", vhost="/", name="s", group="g", offset=1).code == "ok"

    def lag() -> int:
        return int(service.ask("stream.stat", vhost="/", name="s").fields["groups"][0]["lag"])

    assert lag() == 4
    service.ask("stream.trim", vhost="/", name="s", before=3)
    assert lag() == 2
