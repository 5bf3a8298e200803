"""txn.*: what docs/leases.md promises, against a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from amqp_broker import running
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from tests.leases.lease_desk import LeaseDesk, Owner, blob_of


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(txn_expires="1s", max_lease_groups=3) as broker:
        yield broker.url


@pytest.fixture
def desk(url: str) -> Iterator[LeaseDesk]:
    with LeaseDesk(url) as desk:
        yield desk


def stage(desk: LeaseDesk, app: str, bodies: list[bytes], epoch: int = 0, partition: int = 0, **more: object) -> None:
    """Stage one blob for the queue with the app's name."""
    named = {"attempt": 1, "sequence": 0} | more
    answer = desk.stage(blob_of(bodies, routing_key=app), app=app, epoch=epoch, partition=partition, **named)
    assert answer.code == "ok", answer
    assert answer.fields["staged"] == len(bodies)


def test_what_is_staged_appears_when_it_is_committed(desk: LeaseDesk) -> None:
    desk.declare("simple")
    stage(desk, "simple", [b"a", b"b"], partition=1)
    stage(desk, "simple", [b"d"], partition=2)
    stage(desk, "simple", [b"c"], partition=1, sequence=1)
    assert desk.ask("txn.stat", app="simple").fields["apps"] == [
        {"app": "simple", "last_epoch": None, "staged_messages": 4}
    ]
    assert desk.drain("simple") == []
    answer = desk.ask("txn.commit", app="simple", epoch=0, attempts={"1": 1, "2": 1})
    assert answer.fields == {"ok": True, "done": True, "published": 4, "unroutable": 0}
    assert desk.drain("simple") == [b"a", b"b", b"c", b"d"]
    assert desk.ask("txn.stat", app="simple").fields["apps"] == [
        {"app": "simple", "last_epoch": 0, "staged_messages": 0}
    ]


def test_an_epoch_is_committed_once(desk: LeaseDesk) -> None:
    desk.declare("once")
    stage(desk, "once", [b"a"], epoch=7)
    assert "again" not in desk.ask("txn.commit", app="once", epoch=7, attempts={"0": 1}).fields
    for epoch in (7, 3):
        answer = desk.stage(
            blob_of([b"a"], routing_key="once"), app="once", epoch=epoch, partition=0, attempt=2, sequence=0
        )
        assert answer.fields == {"ok": True, "staged": 1, "again": True}
        again = desk.ask("txn.commit", app="once", epoch=epoch, attempts={"0": 2})
        assert again.fields == {"ok": True, "done": True, "again": True}
    assert desk.drain("once") == [b"a"]


def test_only_the_attempts_that_are_named_are_published(desk: LeaseDesk) -> None:
    desk.declare("attempts")
    stage(desk, "attempts", [b"old"], epoch=1)
    stage(desk, "attempts", [b"loser"], epoch=2, attempt=1)
    stage(desk, "attempts", [b"winner"], epoch=2, attempt=2)
    stage(desk, "attempts", [b"later"], epoch=3)
    desk.ask("txn.commit", app="attempts", epoch=2, attempts={"0": 2})
    assert desk.drain("attempts") == [b"winner"]
    assert desk.ask("txn.stat", app="attempts").fields["apps"][0]["staged_messages"] == 1
    assert desk.ask("txn.commit", app="attempts", epoch=3, attempts={"0": 1}).fields["published"] == 1


def test_a_blob_that_is_staged_again_is_there_once(desk: LeaseDesk) -> None:
    desk.declare("again")
    for _ in range(2):
        stage(desk, "again", [b"a"])
        stage(desk, "again", [b"b"], sequence=1)
    other = desk.stage(blob_of([b"x"], routing_key="again"), app="again", epoch=0, partition=0, attempt=1, sequence=0)
    assert other.code == "fenced"
    gap = desk.stage(blob_of([b"x"], routing_key="again"), app="again", epoch=0, partition=0, attempt=1, sequence=3)
    assert gap.code == "gone"
    assert desk.ask("txn.commit", app="again", epoch=0, attempts={"0": 1}, blobs={"0": 1}).code == "gone"
    assert desk.ask("txn.commit", app="again", epoch=0, attempts={"0": 1}, blobs={"0": 2}).fields["published"] == 2
    assert desk.drain("again") == [b"a", b"b"]


def test_a_commit_without_what_was_staged_publishes_nothing(desk: LeaseDesk) -> None:
    desk.declare("lacking")
    stage(desk, "lacking", [b"a"])
    answer = desk.ask("txn.commit", app="lacking", epoch=0, attempts={"0": 1, "1": 1})
    assert answer.code == "gone"
    assert desk.drain("lacking") == []
    assert desk.ask("txn.commit", app="lacking", epoch=0, attempts={"0": 1}).fields["published"] == 1


def test_an_empty_epoch_can_be_committed(desk: LeaseDesk) -> None:
    assert desk.ask("txn.commit", app="empty", epoch=4, attempts={}).fields["published"] == 0
    assert desk.ask("txn.commit", app="empty", epoch=4, attempts={}).fields["again"] is True


def test_an_aborted_epoch_is_gone_and_may_be_staged_anew(desk: LeaseDesk) -> None:
    desk.declare("abort")
    stage(desk, "abort", [b"a", b"b"])
    assert desk.ask("txn.abort", app="abort", epoch=0).fields == {"ok": True}
    assert desk.ask("txn.commit", app="abort", epoch=0, attempts={"0": 1}).code == "gone"
    stage(desk, "abort", [b"c"])
    assert desk.ask("txn.commit", app="abort", epoch=0, attempts={"0": 1}).fields["published"] == 1
    assert desk.drain("abort") == [b"c"]
    assert desk.ask("txn.abort", app="unheard of", epoch=0).fields == {"ok": True}


def test_what_is_not_committed_expires(desk: LeaseDesk) -> None:
    desk.declare("expiring")
    stage(desk, "expiring", [b"a"])

    deadline = time.monotonic() + 10
    while desk.ask("txn.stat", app="expiring").fields["apps"][0]["staged_messages"]:
        assert time.monotonic() < deadline, "what was staged does not expire"
    assert desk.ask("txn.commit", app="expiring", epoch=0, attempts={"0": 1}).code == "gone"


def test_messages_go_where_bindings_say_with_their_properties(desk: LeaseDesk) -> None:
    for queue in ("one", "two", "copy"):
        desk.declare(queue)
    with desk.connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="topics", type="topic", durable=True))
        for queue, key in (("one", "a.*"), ("two", "#")):
            channel.call(m.QueueBind(queue=queue, exchange="topics", routing_key=key))
        headers = Table({"BCC": ["copy"], "n": 5})
        properties = encode_properties({"headers": headers, "content_type": "text/x", "priority": 3})
        blob = blob_of([b"m"], "topics", "a.b", properties)
        # The blind copy goes by the exchange's own bindings, too.
        channel.call(m.QueueBind(queue="copy", exchange="topics", routing_key="copy"))
        assert desk.stage(blob, app="routes", epoch=0, partition=0, attempt=0, sequence=0).code == "ok"
        assert desk.ask("txn.commit", app="routes", epoch=0, attempts={"0": 0}).fields["published"] == 1
        for queue in ("one", "two", "copy"):
            delivery = channel.get(queue, no_ack=True)
            assert delivery is not None, queue
            assert (delivery.exchange, delivery.routing_key, delivery.body) == ("topics", "a.b", b"m")
            said = delivery.properties
            assert (said.content_type, said.priority, dict(said.headers or {})) == ("text/x", 3, {"n": 5})


def test_what_nobody_would_get_is_refused_when_it_is_staged(desk: LeaseDesk) -> None:
    fields = {"app": "nowhere", "epoch": 0, "partition": 0, "attempt": 0, "sequence": 0}
    assert desk.stage(blob_of([b"m"], "", "no such queue"), **fields).code == "not-found"
    assert desk.stage(blob_of([b"m"], "no such exchange", "x"), **fields).code == "not-found"
    assert desk.stage(blob_of([b"m"], "", "no such queue"), **fields, mandatory=False).code == "ok"
    answer = desk.ask("txn.commit", app="nowhere", epoch=0, attempts={"0": 0})
    assert answer.fields == {"ok": True, "done": True, "published": 0, "unroutable": 1}


def test_a_full_queue_takes_what_was_committed(desk: LeaseDesk) -> None:
    desk.declare("full", x_max_length=2, x_overflow="reject-publish")
    stage(desk, "full", [b"a", b"b", b"c", b"d"])
    assert desk.ask("txn.commit", app="full", epoch=0, attempts={"0": 1}).fields["published"] == 4
    assert desk.drain("full") == [b"a", b"b", b"c", b"d"]


def test_a_quorum_queue_has_each_message_once(desk: LeaseDesk) -> None:
    desk.declare("many", x_queue_type="quorum")
    desk.declare("beside")
    with desk.connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="both", type="fanout", durable=True))
        for queue in ("many", "beside"):
            channel.call(m.QueueBind(queue=queue, exchange="both", routing_key=""))
    for epoch in range(3):
        for sequence in range(2):
            blob = blob_of([b"%d" % (epoch * 200 + sequence * 100 + number) for number in range(100)], "both")
            desk.stage(blob, app="q", epoch=epoch, partition=0, attempt=0, sequence=sequence)
        assert desk.ask("txn.commit", app="q", epoch=epoch, attempts={"0": 0}).fields["published"] == 200
    expected = [b"%d" % number for number in range(600)]
    assert desk.drain("beside") == expected
    assert desk.drain("many") == expected


def test_leases_and_transactions_meet(desk: LeaseDesk) -> None:
    """Read from one queue, written to another, exactly once: what a connector does."""
    desk.declare("source")
    desk.declare("sink")
    desk.fill("source", 300)
    owner = Owner(desk, "source")
    start = 0
    while (end := owner.claim(start, most=100).fields["end"]) > start:
        bodies = owner.bodies(start, end)
        for partition in range(2):
            blob = blob_of(bodies[partition::2], routing_key="sink")
            desk.stage(blob, app="etl", epoch=start, partition=partition, attempt=1, sequence=0)
        for _ in range(2):
            assert desk.ask("txn.commit", app="etl", epoch=start, attempts={"0": 1, "1": 1}).fields["done"] is True
        owner.ack(end)
        start = end
    assert sorted(desk.drain("sink")) == sorted(b"m%d" % number for number in range(300))
    assert desk.ask("lease.stat", queue="source").fields["ready"] == 0


def test_an_app_that_is_idle_for_long_is_forgotten() -> None:
    with running(txn_app_expires="500ms") as broker, LeaseDesk(broker.url) as desk:
        assert desk.ask("txn.commit", app="idle", epoch=1, attempts={}).code == "ok"
        deadline = time.monotonic() + 10
        while desk.ask("txn.stat").fields["apps"]:
            assert time.monotonic() < deadline, "an idle app is not forgotten"
        broker.restart()
        with LeaseDesk(broker.url) as again:
            assert again.ask("txn.stat").fields["apps"] == []
            assert again.ask("txn.commit", app="idle", epoch=1, attempts={}).fields["published"] == 0
