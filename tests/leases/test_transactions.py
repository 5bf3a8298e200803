"""txn.*: what docs/leases.md promises, against a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from amqp_broker import running
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from tests.leases.lease_service import LeaseService, Owner, blob_of


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(txn_expires="1s", max_lease_groups=3) as broker:
        yield broker.url


@pytest.fixture
def service(url: str) -> Iterator[LeaseService]:
    with LeaseService(url) as service:
        yield service


def stage(
    service: LeaseService, app: str, bodies: list[bytes], epoch: int = 0, partition: int = 0, **more: object
) -> None:
    """Stage one blob for the queue with the app's name."""
    named = {"attempt": 1, "sequence": 0} | more
    answer = service.stage(blob_of(bodies, routing_key=app), app=app, epoch=epoch, partition=partition, **named)
    assert answer.code == "ok", answer
    assert answer.fields["staged"] == len(bodies)


def test_what_is_staged_appears_when_it_is_committed(service: LeaseService) -> None:
    service.declare("simple")
    stage(service, "simple", [b"a", b"b"], partition=1)
    stage(service, "simple", [b"d"], partition=2)
    stage(service, "simple", [b"c"], partition=1, sequence=1)
    assert service.ask("txn.stat", app="simple").fields["apps"] == [
        {"app": "simple", "last_epoch": None, "staged_messages": 4}
    ]
    assert service.drain("simple") == []
    answer = service.ask("txn.commit", app="simple", epoch=0, attempts={"1": 1, "2": 1})
    assert answer.fields == {"ok": True, "done": True, "published": 4, "unroutable": 0}
    assert service.drain("simple") == [b"a", b"b", b"c", b"d"]
    assert service.ask("txn.stat", app="simple").fields["apps"] == [
        {"app": "simple", "last_epoch": 0, "staged_messages": 0}
    ]


def test_a_transaction_may_go_to_a_stream(service: LeaseService) -> None:
    service.declare("log", x_queue_type="stream")
    stage(service, "log", [b"a", b"b"])
    assert service.ask("txn.commit", app="log", epoch=0, attempts={"0": 1}).fields["published"] == 2
    stage(service, "log", [b"c"], epoch=1)
    assert service.ask("txn.commit", app="log", epoch=1, attempts={"0": 1}).fields["published"] == 1
    with service.connection.channel() as channel:
        consumer = channel.consume("log", prefetch_count=10, arguments={"x-stream-offset": "first"})
        found = [consumer.next(20) for _ in range(3)]
        assert [each.body for each in found if each is not None] == [b"a", b"b", b"c"]


def test_blind_copies_of_what_waits_before_an_exchange(service: LeaseService) -> None:
    """They count when it is due, and are not seen then."""
    names = ("kept", "blind")
    for name in names:
        service.declare(name)
    with service.connection.channel() as channel:
        kind = Table({"x-delayed-type": "direct"})
        channel.call(m.ExchangeDeclare(exchange="later", type="x-delayed-message", durable=True, arguments=kind))
        for name in names:
            channel.call(m.QueueBind(queue=name, exchange="later", routing_key=name))
    headers = Table({"x-delay": 20, "BCC": ["blind"]})
    properties = encode_properties({"delivery_mode": 2, "headers": headers})
    blob = blob_of([b"a"], exchange="later", routing_key="kept", properties=properties)
    service.stage(blob, app="held", epoch=0, partition=0, attempt=1, sequence=0)
    assert service.ask("txn.commit", app="held", epoch=0, attempts={"0": 1}).fields["published"] == 1
    with service.connection.channel() as channel:
        for name in names:
            deadline = time.monotonic() + 10
            while (delivery := channel.get(name, no_ack=True)) is None:
                assert time.monotonic() < deadline, f"{name} does not get it"
            assert dict(delivery.properties.headers or {}) == {"x-delay": -20}


def test_an_epoch_is_committed_once(service: LeaseService) -> None:
    service.declare("once")
    stage(service, "once", [b"a"], epoch=7)
    assert "again" not in service.ask("txn.commit", app="once", epoch=7, attempts={"0": 1}).fields
    for epoch in (7, 3):
        answer = service.stage(
            blob_of([b"a"], routing_key="once"), app="once", epoch=epoch, partition=0, attempt=2, sequence=0
        )
        assert answer.fields == {"ok": True, "staged": 1, "again": True}
        again = service.ask("txn.commit", app="once", epoch=epoch, attempts={"0": 2})
        assert again.fields == {"ok": True, "done": True, "again": True}
    assert service.drain("once") == [b"a"]


def test_only_the_attempts_that_are_named_are_published(service: LeaseService) -> None:
    service.declare("attempts")
    stage(service, "attempts", [b"old"], epoch=1)
    stage(service, "attempts", [b"loser"], epoch=2, attempt=1)
    stage(service, "attempts", [b"winner"], epoch=2, attempt=2)
    stage(service, "attempts", [b"later"], epoch=3)
    service.ask("txn.commit", app="attempts", epoch=2, attempts={"0": 2})
    assert service.drain("attempts") == [b"winner"]
    assert service.ask("txn.stat", app="attempts").fields["apps"][0]["staged_messages"] == 1
    assert service.ask("txn.commit", app="attempts", epoch=3, attempts={"0": 1}).fields["published"] == 1


def test_a_blob_that_is_staged_again_is_there_once(service: LeaseService) -> None:
    service.declare("again")
    for _ in range(2):
        stage(service, "again", [b"a"])
        stage(service, "again", [b"b"], sequence=1)
    blob = blob_of([b"x"], routing_key="again")
    other = service.stage(blob, app="again", epoch=0, partition=0, attempt=1, sequence=0)
    assert other.code == "fenced"
    gap = service.stage(blob, app="again", epoch=0, partition=0, attempt=1, sequence=3)
    assert gap.code == "gone"
    assert service.ask("txn.commit", app="again", epoch=0, attempts={"0": 1}, blobs={"0": 1}).code == "gone"
    assert service.ask("txn.commit", app="again", epoch=0, attempts={"0": 1}, blobs={"0": 2}).fields["published"] == 2
    assert service.drain("again") == [b"a", b"b"]


def test_a_commit_without_what_was_staged_publishes_nothing(service: LeaseService) -> None:
    service.declare("lacking")
    stage(service, "lacking", [b"a"])
    answer = service.ask("txn.commit", app="lacking", epoch=0, attempts={"0": 1, "1": 1})
    assert answer.code == "gone"
    assert service.drain("lacking") == []
    assert service.ask("txn.commit", app="lacking", epoch=0, attempts={"0": 1}).fields["published"] == 1


def test_an_empty_epoch_can_be_committed(service: LeaseService) -> None:
    assert service.ask("txn.commit", app="empty", epoch=4, attempts={}).fields["published"] == 0
    assert service.ask("txn.commit", app="empty", epoch=4, attempts={}).fields["again"] is True


def test_an_aborted_epoch_is_gone_and_may_be_staged_anew(service: LeaseService) -> None:
    service.declare("abort")
    stage(service, "abort", [b"a", b"b"])
    assert service.ask("txn.abort", app="abort", epoch=0).fields == {"ok": True}
    assert service.ask("txn.commit", app="abort", epoch=0, attempts={"0": 1}).code == "gone"
    stage(service, "abort", [b"c"])
    assert service.ask("txn.commit", app="abort", epoch=0, attempts={"0": 1}).fields["published"] == 1
    assert service.drain("abort") == [b"c"]
    assert service.ask("txn.abort", app="unheard of", epoch=0).fields == {"ok": True}


def test_what_is_not_committed_expires(service: LeaseService) -> None:
    service.declare("expiring")
    stage(service, "expiring", [b"a"])

    deadline = time.monotonic() + 10
    while service.ask("txn.stat", app="expiring").fields["apps"][0]["staged_messages"]:
        assert time.monotonic() < deadline, "what was staged does not expire"
    assert service.ask("txn.commit", app="expiring", epoch=0, attempts={"0": 1}).code == "gone"


def test_messages_go_where_bindings_say_with_their_properties(service: LeaseService) -> None:
    for queue in ("one", "two", "copy"):
        service.declare(queue)
    with service.connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="topics", type="topic", durable=True))
        for queue, key in (("one", "a.*"), ("two", "#")):
            channel.call(m.QueueBind(queue=queue, exchange="topics", routing_key=key))
        headers = Table({"BCC": ["copy"], "n": 5})
        properties = encode_properties({"headers": headers, "content_type": "text/x", "priority": 3})
        blob = blob_of([b"m"], "topics", "a.b", properties)
        # The blind copy goes by the exchange's own bindings, too.
        channel.call(m.QueueBind(queue="copy", exchange="topics", routing_key="copy"))
        assert service.stage(blob, app="routes", epoch=0, partition=0, attempt=0, sequence=0).code == "ok"
        assert service.ask("txn.commit", app="routes", epoch=0, attempts={"0": 0}).fields["published"] == 1
        for queue in ("one", "two", "copy"):
            delivery = channel.get(queue, no_ack=True)
            assert delivery is not None, queue
            assert (delivery.exchange, delivery.routing_key, delivery.body) == ("topics", "a.b", b"m")
            said = delivery.properties
            assert (said.content_type, said.priority, dict(said.headers or {})) == ("text/x", 3, {"n": 5})


def test_what_nobody_would_get_is_refused_when_it_is_staged(service: LeaseService) -> None:
    fields = {"app": "nowhere", "epoch": 0, "partition": 0, "attempt": 0, "sequence": 0}
    assert service.stage(blob_of([b"m"], "", "no such queue"), **fields).code == "not-found"
    assert service.stage(blob_of([b"m"], "no such exchange", "x"), **fields).code == "not-found"
    assert service.stage(blob_of([b"m"], "", "no such queue"), **fields, mandatory=False).code == "ok"
    answer = service.ask("txn.commit", app="nowhere", epoch=0, attempts={"0": 0})
    assert answer.fields == {"ok": True, "done": True, "published": 0, "unroutable": 1}


def test_a_full_queue_takes_what_was_committed(service: LeaseService) -> None:
    service.declare("full", x_max_length=2, x_overflow="reject-publish")
    stage(service, "full", [b"a", b"b", b"c", b"d"])
    assert service.ask("txn.commit", app="full", epoch=0, attempts={"0": 1}).fields["published"] == 4
    assert service.drain("full") == [b"a", b"b", b"c", b"d"]


def test_a_quorum_queue_has_each_message_once(service: LeaseService) -> None:
    service.declare("many", x_queue_type="quorum")
    service.declare("beside")
    with service.connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="both", type="fanout", durable=True))
        for queue in ("many", "beside"):
            channel.call(m.QueueBind(queue=queue, exchange="both", routing_key=""))
    for epoch in range(3):
        for sequence in range(2):
            blob = blob_of([b"%d" % (epoch * 200 + sequence * 100 + number) for number in range(100)], "both")
            service.stage(blob, app="q", epoch=epoch, partition=0, attempt=0, sequence=sequence)
        assert service.ask("txn.commit", app="q", epoch=epoch, attempts={"0": 0}).fields["published"] == 200
    expected = [b"%d" % number for number in range(600)]
    assert service.drain("beside") == expected
    assert service.drain("many") == expected


def test_leases_and_transactions_meet(service: LeaseService) -> None:
    """Read from one queue, written to another, exactly once: what a connector does."""
    service.declare("source")
    service.declare("sink")
    service.fill("source", 300)
    owner = Owner(service, "source")
    start = 0
    while (end := owner.claim(start, most=100).fields["end"]) > start:
        bodies = owner.bodies(start, end)
        for partition in range(2):
            blob = blob_of(bodies[partition::2], routing_key="sink")
            service.stage(blob, app="etl", epoch=start, partition=partition, attempt=1, sequence=0)
        for _ in range(2):
            assert service.ask("txn.commit", app="etl", epoch=start, attempts={"0": 1, "1": 1}).fields["done"] is True
        owner.ack(end)
        start = end
    assert sorted(service.drain("sink")) == sorted(b"m%d" % number for number in range(300))
    assert service.ask("lease.stat", queue="source").fields["ready"] == 0


def test_an_app_that_is_idle_for_long_is_forgotten() -> None:
    with running(txn_app_expires="500ms") as broker, LeaseService(broker.url) as service:
        assert service.ask("txn.commit", app="idle", epoch=1, attempts={}).code == "ok"
        deadline = time.monotonic() + 10
        while service.ask("txn.stat").fields["apps"]:
            assert time.monotonic() < deadline, "an idle app is not forgotten"
        broker.restart()
        with LeaseService(broker.url) as again:
            assert again.ask("txn.stat").fields["apps"] == []
            assert again.ask("txn.commit", app="idle", epoch=1, attempts={}).fields["published"] == 0
