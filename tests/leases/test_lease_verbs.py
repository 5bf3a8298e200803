"""lease.*: what docs/leases.md promises, against a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from amqp_broker import running
from amqp_broker.protocol import methods as m
from tests.leases.lease_service import LeaseService, Owner, rows


@pytest.fixture(scope="module", params=["classic", "quorum"])
def kind(request: pytest.FixtureRequest) -> str:
    """The type of the queues."""
    return str(request.param)


@pytest.fixture(scope="module")
def url(kind: str) -> Iterator[str]:
    with running() as broker:
        yield broker.url


@pytest.fixture
def service(url: str, kind: str) -> Iterator[LeaseService]:
    with LeaseService(url, kind) as service:
        yield service


def test_messages_are_claimed_in_order_and_read_as_often_as_one_likes(service: LeaseService) -> None:
    service.declare("order")
    service.fill("order", 10)
    owner = Owner(service, "order")
    assert (owner.trimmed, owner.next) == (0, 0)
    assert owner.claim(0, most=4).fields["end"] == 4
    for _ in range(2):
        assert owner.bodies(0, 4) == [b"m0", b"m1", b"m2", b"m3"]
    assert owner.claim(4).fields["end"] == 10
    assert owner.bodies(0, 10) == [b"m%d" % number for number in range(10)]
    assert service.drain("order") == []
    assert owner.ack(10).fields["trimmed"] == 10


def test_a_claim_that_is_asked_again_has_the_same_end(service: LeaseService) -> None:
    service.declare("again")
    service.fill("again", 10)
    owner = Owner(service, "again")
    first = owner.claim(0, most=6)
    assert first.fields["end"] == 6
    assert first.fields["bytes"] > 0
    for _ in range(2):
        assert owner.claim(0, most=6).fields["end"] == 6
    assert owner.claim(6, most=6).fields["end"] == 10
    # Two claims that were never written down come back as they were asked for.
    assert owner.claim(0, most=6).fields["end"] == 6
    assert owner.claim(0, most=100).fields["end"] == 10
    assert owner.claim(3, most=100).fields["end"] == 10


def test_bytes_bound_a_claim_but_one_message_comes(service: LeaseService) -> None:
    service.declare("bytes")
    service.fill("bytes", 100)
    owner = Owner(service, "bytes")
    assert owner.claim(0, max_bytes=1).fields["end"] == 1
    end = owner.claim(1, max_bytes=1000).fields["end"]
    assert 2 <= end <= 20


def test_after_outside_of_what_is_held_is_gone(service: LeaseService) -> None:
    service.declare("outside")
    service.fill("outside", 10)
    owner = Owner(service, "outside")
    owner.claim(0)
    owner.ack(4)
    assert owner.claim(3).code == "gone"
    assert owner.claim(11).code == "gone"
    assert owner.fetch(3, 6).code == "gone"
    assert owner.fetch(5, 11).code == "gone"
    assert owner.ack(11).code == "gone"
    assert owner.ack(2).fields["trimmed"] == 4
    assert owner.bodies(4, 10) == [b"m%d" % number for number in range(4, 10)]


def test_a_newer_owner_fences_the_older(service: LeaseService, url: str) -> None:
    service.declare("fence")
    service.fill("fence", 10)
    old = Owner(service, "fence", owner="old")
    old.claim(0, most=5)
    with LeaseService(url) as other:
        new = Owner(other, "fence", owner="new")
        assert (new.incarnation, new.trimmed, new.next) == (old.incarnation, 0, 5)
        for answer in (old.claim(0), old.ack(1), old.release()):
            assert answer.code == "fenced"
        # Executors of either may read.
        assert old.bodies(0, 5) == new.bodies(0, 5)
        assert new.claim(0).fields["end"] == 5
    assert Owner(service, "fence", owner="old").claim(5).fields["end"] == 10
    assert new.incarnation == old.incarnation


def test_release_gives_everything_back_redelivered_and_in_front(service: LeaseService) -> None:
    service.declare("back")
    service.fill("back", 6)
    owner = Owner(service, "back")
    owner.claim(0, most=4)
    owner.ack(1)
    assert owner.release().fields["released"] == 3
    assert owner.release().fields["released"] == 0
    for answer in (owner.claim(1), owner.fetch(1, 4), owner.ack(2)):
        assert answer.code == "gone"
    with service.connection.channel() as channel:
        deliveries = [channel.get("back", no_ack=True) for _ in range(5)]
    assert [each.body for each in deliveries if each] == [b"m1", b"m2", b"m3", b"m4", b"m5"]
    assert [each.redelivered for each in deliveries if each] == [True, True, True, False, False]
    again = Owner(service, "back")
    assert again.incarnation != owner.incarnation
    assert owner.claim(1).code == "gone"


def test_what_was_nacked_is_leased_with_its_mark_and_count(service: LeaseService) -> None:
    service.declare("nacked", x_delivery_limit=9)
    service.fill("nacked", 2)
    with service.connection.channel() as channel:
        delivery = channel.get("nacked")
        assert delivery is not None
        channel.nack(delivery)
    owner = Owner(service, "nacked")
    owner.claim(0)
    found = rows(owner.fetch(0, 2).blob)
    assert [(row.redelivered, row.delivery_count) for row in found] == [(True, 1), (False, 0)]


def test_a_claim_waits_for_messages_and_no_longer(service: LeaseService, url: str) -> None:
    service.declare("wait")
    owner = Owner(service, "wait")
    empty = owner.claim(0, wait_ms=200)
    assert empty.fields == {"ok": True, "end": 0, "bytes": 0}
    request = {"queue": "wait", "group": "g", "incarnation": owner.incarnation, "owner": "me", "after": 0}
    waiting = service.send("lease.claim", json.dumps({**request, "wait_ms": 5000}).encode())
    # The connection is not held meanwhile.
    assert service.ask("lease.stat", queue="wait").fields["ready"] == 0
    with LeaseService(url) as other:
        other.fill("wait", 3)
    assert service.receive(waiting).fields["end"] >= 1


def test_consumers_come_before_a_claim_that_waits(service: LeaseService, url: str) -> None:
    service.declare("low")
    owner = Owner(service, "low")
    with LeaseService(url) as other, other.connection.channel() as channel:
        consumer = channel.consume("low", prefetch_count=2)
        request = {"queue": "low", "group": "g", "incarnation": owner.incarnation, "owner": "me", "after": 0}
        waiting = service.send("lease.claim", json.dumps({**request, "wait_ms": 5000}).encode())
        service.ask("lease.stat", queue="low")
        other.fill("low", 3)
        assert service.receive(waiting).fields["end"] == 1
        channel.wait_until(lambda: len(consumer.deliveries) == 2, other.connection.deadline(10), "two deliveries")
        assert [each.body for each in consumer.deliveries] == [b"m0", b"m1"]
    assert owner.bodies(0, 1) == [b"m2"]


def test_only_the_columns_that_are_asked_for_come(service: LeaseService) -> None:
    service.declare("columns")
    service.fill("columns", 1, content_type="text/plain")
    owner = Owner(service, "columns")
    owner.claim(0)
    whole = rows(owner.fetch(0, 1).blob)[0]
    assert (whole.exchange, whole.routing_key, whole.body) == ("", "columns", b"m0")
    assert b"text/plain" in whole.properties
    assert whole.enqueued_at > 1_700_000_000_000
    body = rows(owner.fetch(0, 1, columns=["body"]).blob)[0]
    assert body == whole._replace(routing_key="", properties=b"\x00\x00", enqueued_at=0)
    rest = rows(owner.fetch(0, 1, columns=["properties", "address", "enqueued_at"]).blob)[0]
    assert rest == whole._replace(body=b"")


def test_a_fetch_stops_where_it_was_told_and_after_16384_messages(service: LeaseService) -> None:
    service.declare("stops")
    service.fill("stops", 17_000)
    owner = Owner(service, "stops")
    assert owner.claim(0, most=20_000).fields["end"] == 17_000
    assert owner.fetch(0, 17_000).headers["x-end"] == 16_384
    assert owner.fetch(0, 2500, max_bytes=1).headers["x-end"] == 1
    some = owner.fetch(10, 2500, max_bytes=1000)
    assert len(some.blob) <= 1000
    assert len(rows(some.blob)) == some.headers["x-end"] - 10 > 5
    assert owner.fetch(7, 7).headers["x-end"] == 7
    assert owner.bodies(0, 2500) == [b"m%d" % number for number in range(2500)]


def test_large_messages_come_whole(service: LeaseService) -> None:
    service.declare("large")
    large = bytes(range(256)) * 80_000
    with service.connection.channel() as channel:
        channel.confirm_select()
        channel.publish("", "large", large)
        channel.publish("", "large", b"small")
        channel.wait_for_confirms()
    owner = Owner(service, "large")
    owner.claim(0)
    assert owner.bodies(0, 2) == [large, b"small"]


def test_a_queue_that_was_declared_anew_has_other_groups(service: LeaseService) -> None:
    service.declare("anew")
    service.fill("anew", 3)
    owner = Owner(service, "anew")
    owner.claim(0)
    with service.connection.channel() as channel:
        channel.call(m.QueueDelete(queue="anew"))
    assert owner.claim(3).code == "not-found"
    service.declare("anew")
    service.fill("anew", 3)
    assert owner.claim(3).code == "gone"
    assert owner.fetch(0, 3).code == "gone"


def test_statistics_tell_of_groups(service: LeaseService) -> None:
    service.declare("stat")
    service.fill("stat", 10)
    owner = Owner(service, "stat", "one")
    other = Owner(service, "stat", "two", "you")
    owner.claim(0, most=3)
    other.claim(0, most=2)
    owner.ack(1)
    found = service.ask("lease.stat", queue="stat").fields
    assert found["ready"] == 5
    one, two = found["groups"]
    assert {key: one[key] for key in ("group", "owner", "trimmed", "next")} == {
        "group": "one", "owner": "me", "trimmed": 1, "next": 3,
    }  # fmt: skip
    assert one["incarnation"] == owner.incarnation
    assert one["bytes"] > 0
    assert 0 <= one["age_ms"] < 60_000
    assert two["next"] == 2
    assert [each["group"] for each in service.ask("lease.stat", queue="stat", group="two").fields["groups"]] == ["two"]


def test_browsing_takes_nothing(service: LeaseService) -> None:
    service.declare("browse")
    service.fill("browse", 2100)
    first = service.ask("lease.browse", queue="browse", max_bytes=80_000)
    assert first.headers["x-more"] is True
    second = service.ask("lease.browse", queue="browse", from_sequence=first.headers["x-end"])
    assert second.headers["x-more"] is False
    assert [row.body for row in rows(first.blob) + rows(second.blob)] == [b"m%d" % number for number in range(2100)]
    assert first.headers["x-next-sequence"] == 2101
    bounded = service.ask("lease.browse", queue="browse", from_sequence=5, below=8, columns=["body"])
    assert [row.body for row in rows(bounded.blob)] == [b"m4", b"m5", b"m6"]
    assert bounded.headers["x-more"] is False
    assert not any(row.redelivered for row in rows(first.blob))
    assert len(service.drain("browse")) == 2100
    empty = service.ask("lease.browse", queue="browse")
    assert (rows(empty.blob), empty.headers["x-more"]) == ([], False)


def test_browsing_a_priority_queue_goes_by_age(service: LeaseService) -> None:
    service.declare("levels", x_max_priority=5)
    for number in range(9):
        service.fill("levels", 1, number, priority=number % 3)
    found = [row.body for row in rows(service.ask("lease.browse", queue="levels").blob)]
    assert found == [b"m%d" % number for number in range(9)]
    assert service.drain("levels") == [b"m2", b"m5", b"m8", b"m1", b"m4", b"m7", b"m0", b"m3", b"m6"]


def test_a_group_that_nobody_calls_for_goes_back(service: LeaseService) -> None:
    service.declare("expires", x_lease_expires=300)
    service.fill("expires", 3)
    owner = Owner(service, "expires")
    owner.claim(0)
    with service.connection.channel() as channel:
        consumer = channel.consume("expires", no_ack=True)
        channel.wait_until(lambda: len(consumer.deliveries) == 3, service.connection.deadline(15), "what was leased")
        assert [each.redelivered for each in consumer.deliveries] == [True] * 3
    assert owner.claim(3).code == "gone"


def test_an_exclusive_consumer_is_left_alone(service: LeaseService) -> None:
    service.declare("alone")
    owner = Owner(service, "alone")
    with service.connection.channel() as channel:
        consumer = channel.consume("alone", exclusive=True, prefetch_count=1)
        service.fill("alone", 2)
        assert owner.claim(0).code == "access-refused"
        channel.wait_until(lambda: len(consumer.deliveries) == 1, service.connection.deadline(10), "a delivery")
    deadline = time.monotonic() + 10
    while (answer := owner.claim(0, wait_ms=2000)).code == "access-refused":
        assert time.monotonic() < deadline
    assert answer.fields["end"] >= 1


def test_a_claim_that_waits_hears_of_the_end_of_the_queue(service: LeaseService, url: str) -> None:
    service.declare("short-lived")
    owner = Owner(service, "short-lived")
    request = {"queue": "short-lived", "group": "g", "incarnation": owner.incarnation, "owner": "me", "after": 0}
    waiting = service.send("lease.claim", json.dumps({**request, "wait_ms": 5000}).encode())
    service.ask("lease.stat", queue="short-lived")
    with service.connection.channel() as channel:
        channel.call(m.QueueDelete(queue="short-lived"))
    assert service.receive(waiting).code in ("not-found", "gone", "busy")


def test_queues_and_the_node_count_what_is_leased(service: LeaseService) -> None:
    service.declare("counted")
    service.fill("counted", 5)
    owner = Owner(service, "counted")
    before = service.ask("statistics").fields["statistics"]["messages_leased"]
    owner.claim(0, most=3)
    (queue,) = [each for each in service.ask("queue.list", vhost="/").fields["queues"] if each["name"] == "counted"]
    assert (queue["messages_ready"], queue["leased"]) == (2, 3)
    assert [(group["group"], group["next"]) for group in queue["lease_groups"]] == [("g", 3)]
    figures = service.ask("statistics").fields["statistics"]
    assert figures["messages_leased"] == before + 3
    assert figures["lease_requests"] > 0
    assert figures["lease_claims_waiting"] == 0


def test_a_policy_says_how_long_a_group_waits_for_its_owner(service: LeaseService) -> None:
    service.declare("policed")
    service.fill("policed", 2)
    owner = Owner(service, "policed")
    owner.claim(0)
    policy = {"pattern": "^policed$", "definition": {"lease-expires": 300}, "apply_to": "queues"}
    assert service.ask("policy.put", vhost="/", name="lease", **policy).code == "ok"
    with service.connection.channel() as channel:
        consumer = channel.consume("policed", no_ack=True)
        channel.wait_until(lambda: len(consumer.deliveries) == 2, service.connection.deadline(15), "what was leased")
    assert service.ask("policy.delete", vhost="/", name="lease").code == "ok"
    wrong = {**policy, "definition": {"lease-expires": 0}}
    assert "lease-expires" in service.ask("policy.put", vhost="/", name="lease", **wrong).fields["error"]
