"""Requests that are wrong, or not allowed: each has an answer with a code, and the connection goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from amqp_broker import running
from amqp_broker.leases.errors import CODES
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from tests.leases.lease_service import LeaseService, Owner, blob_of

LEASE_VERBS = ["open", "claim", "fetch", "ack", "release", "stat", "browse"]
#: What a field may hold that it should not.
STRANGE: list[object] = [
    None, True, False, -1, 0, 1, 2**63 - 1, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308, "", "x", "x" * 300, "\ud800", "\0",
    "é" * 128, [], [[]], ["body"], ["nothing"], {}, {"0": 1}, {"x": 1}, {"-1": 1}, {"0": -1}, {"0": 2**70}, {"²": 1},
    [1] * 1000, "q", "g",
]  # fmt: skip


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as broker:
        yield broker.url
        with LeaseService(broker.url) as service:
            assert service.ask("lease.stat", queue="q").code == "ok"
        assert "defect" not in broker.logs


@pytest.fixture
def service(url: str) -> Iterator[LeaseService]:
    with LeaseService(url) as service:
        service.declare("q")
        service.declare("many", x_queue_type="quorum")
        yield service
        # Nothing of all that has closed the channel.
        assert service.ask("lease.stat", queue="q").code == "ok"


def test_bodies_that_are_no_json_objects(service: LeaseService) -> None:
    for body in (
        b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000,
        b"NaN", b'{"queue": "q"', b'{"queue": NaN}', bytes(range(256)), b" " * (5 << 20),
    ):  # fmt: skip
        for verb in ("lease.open", "lease.claim", "txn.commit"):
            answer = service.receive(service.send(verb, body))
            assert answer.code == "invalid", (verb, body[:20], answer)


def test_unknown_verbs(service: LeaseService) -> None:
    for verb in ("lease.", "lease.nothing", "txn.", "txn.x", "lease.OPEN", "lease.open "):
        assert service.ask(verb, queue="q").code == "not-found"


def test_what_is_lacking_is_named(service: LeaseService) -> None:
    answer = service.ask("lease.claim", queue="q", group="g", owner="me", incarnation="x")
    assert answer.code == "invalid"
    assert "'after'" in answer.fields["error"]
    answer = service.ask("lease.fetch", queue="q", group="g", incarnation="x", from_=5, to=4)
    assert "'to'" in answer.fields["error"]
    assert service.ask("lease.open", queue="no such", group="g", owner="me").code == "not-found"
    assert service.ask("lease.claim", queue="q", group="none", owner="me", incarnation="x", after=0).code == "gone"


@pytest.mark.parametrize("queue", ["q", "many"])
def test_strange_values_in_every_field(service: LeaseService, queue: str) -> None:
    chance = random.Random(5)
    service.fill(queue, 3)
    owner = Owner(service, queue)
    good: dict[str, Any] = {
        "queue": queue, "group": "g", "owner": "me", "incarnation": owner.incarnation, "after": 0, "from": 0, "to": 0,
        "upto": 0, "max_messages": 1, "max_bytes": 100, "wait_ms": 0, "columns": ["body"], "from_sequence": 0,
        "below": 5, "start": "earliest",
    }  # fmt: skip
    names = []
    for verb in LEASE_VERBS:
        for field in good:
            for value in STRANGE:
                names.append(service.send(f"lease.{verb}", json.dumps({**good, field: value}).encode()))
        for _ in range(100):
            fields = {field: chance.choice(STRANGE) for field in good if chance.random() < 0.4}
            names.append(service.send(f"lease.{verb}", json.dumps({**good, **fields}).encode()))
        for name in names:
            answer = service.receive(name)
            assert answer.code in ("ok", *CODES), answer
        names.clear()


def test_strange_values_in_transactions(service: LeaseService) -> None:
    chance = random.Random(6)
    good: dict[str, Any] = {"app": "a", "epoch": 0, "attempts": {}, "blobs": {}}
    for verb in ("commit", "abort", "stat"):
        for field in good:
            for value in STRANGE:
                answer = service.receive(service.send(f"txn.{verb}", json.dumps({**good, field: value}).encode()))
                assert answer.code in ("ok", *CODES), answer
    wire = [each for each in STRANGE if each not in ("\ud800", 2**64, 10**400, 2**63)]
    wire = [each for each in wire if not isinstance(each, dict | list)]
    fields = {"app": "s", "epoch": 1, "partition": 0, "attempt": 0, "sequence": 0}
    for field in (*fields, "mandatory"):
        for value in wire:
            answer = service.stage(blob_of([b"x"]), **{**fields, field: value})
            assert answer.code in ("ok", "gone", "invalid"), answer
    for field in fields:
        others = {name: fields[name] for name in fields if name != field}
        assert service.stage(blob_of([b"x"]), **others).code == "invalid"
    for _ in range(200):
        some = {field: chance.choice(wire) for field in fields}
        assert service.stage(blob_of([b"x"]), **some).code in ("ok", *CODES)


def test_malformed_blobs(service: LeaseService) -> None:
    chance = random.Random(7)
    fields: dict[str, Any] = {"app": "blobs", "epoch": 0, "partition": 0, "attempt": 0, "sequence": 0}
    section = encode_properties({"headers": Table({"n": 1, "deep": {"a": [1, {"b": 2}]}}), "content_type": "x"})
    good = blob_of([b"one", b"two" * 100], properties=section)
    for end in range(0, len(good), 3):
        assert service.stage(good[:end], **fields).code == "invalid"
    assert service.stage(good + b"x", **fields).code == "invalid"
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(len(bad))] = chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])
        fields["attempt"] += 1
        answer = service.stage(bytes(bad), **fields)
        assert answer.code in ("ok", "invalid", "not-found"), answer
    service.ask("txn.commit", app="blobs", epoch=0, attempts={})


def test_messages_that_could_not_be_published_cannot_be_staged(service: LeaseService) -> None:
    fields = {"app": "special", "epoch": 0, "partition": 0, "attempt": 0, "sequence": 0}
    for said in (
        {"expiration": "soon"},
        {"user_id": "somebody else"},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"headers": Table({"CC": "no list"})},
    ):
        answer = service.stage(blob_of([b"x"], properties=encode_properties(said)), **fields)
        assert answer.code == "invalid", said
    assert service.stage(blob_of([b"x"], "amq.system", "lease.stat"), **fields).code == "invalid"
    with service.connection.channel() as channel:
        channel.call(m.ExchangeDeclare(exchange="inner", type="fanout", internal=True, durable=True))
    assert service.stage(blob_of([b"x"], "inner", ""), **fields).code == "access-refused"


def test_permissions(url: str, service: LeaseService) -> None:
    """Reading a queue is all that its leases take, writing to an exchange all that staging takes."""

    def ask(verb: str, **fields: object) -> None:
        assert service.ask(verb, **fields).code == "ok"

    for name, write, read in (("reader", "^$", "^q$"), ("writer", "^amq.default$", "^$"), ("other", ".*", ".*")):
        ask("user.put", name=name, password="secret", tags=[])
        ask("permission.put", user=name, vhost="/", configure="^$", write=write, read=read)

    def url_of(user: str) -> str:
        return url.replace("guest:guest", f"{user}:secret")

    fields = {"app": "mine", "epoch": 0, "partition": 0, "attempt": 0, "sequence": 0}
    service.fill("q", 2)
    with LeaseService(url_of("reader")) as reader:
        owner = Owner(reader, "q", "permitted")
        end = owner.claim(0).fields["end"]
        assert owner.fetch(0, end).code == "ok"
        assert owner.release().code == "ok"
        assert reader.ask("lease.browse", queue="q").code == "ok"
        for verb in LEASE_VERBS:
            assert reader.ask(f"lease.{verb}", queue="many", group="g", owner="me").code == "access-refused"
        assert reader.stage(blob_of([b"x"]), **fields).code == "access-refused"
        assert "lacks the tag administrator" in reader.ask("statistics").fields["error"]
    with LeaseService(url_of("writer")) as writer:
        assert writer.ask("lease.open", queue="q", group="g", owner="me").code == "access-refused"
        assert writer.stage(blob_of([b"x"]), **fields).code == "ok"
        assert writer.stage(blob_of([b"x"], "amq.topic", "q"), **fields).code == "access-refused"
    with LeaseService(url_of("other")) as other:
        # The app is the writer's.
        for verb in ("commit", "abort", "stat"):
            assert other.ask(f"txn.{verb}", app="mine", epoch=0, attempts={"0": 0}).code == "access-refused"
        assert other.stage(blob_of([b"x"]), **fields).code == "access-refused"
        assert other.ask("txn.stat").fields["apps"] == []
    with LeaseService(url_of("writer")) as writer:
        assert [each["app"] for each in writer.ask("txn.stat").fields["apps"]] == ["mine"]
        assert writer.ask("txn.commit", app="mine", epoch=0, attempts={"0": 0}).fields["published"] == 1


def test_an_exclusive_queue_of_another_connection(service: LeaseService, url: str) -> None:
    with LeaseService(url) as other, other.connection.channel() as channel:
        channel.call(m.QueueDeclare(queue="own", exclusive=True))
        assert service.ask("lease.open", queue="own", group="g", owner="me").code == "access-refused"
        other.fill("own", 1)
        assert Owner(other, "own").claim(0).fields["end"] == 1


def test_an_answer_goes_to_a_queue_too_if_the_user_may_write_there(service: LeaseService) -> None:
    service.declare("answers")
    properties = encode_properties({"reply_to": "answers", "correlation_id": "7"})
    service.channel.publish("amq.system", "lease.stat", b'{"queue": "q"}', properties)
    service.channel.publish("amq.system", "lease.stat", b"nobody hears of this")
    assert service.ask("lease.stat", queue="q").code == "ok"
    (body,) = service.drain("answers")
    assert json.loads(body)["ok"] is True


def test_there_is_a_limit_to_groups(service: LeaseService) -> None:
    for number in range(100):
        service.ask("lease.open", queue="q", group=f"limited {number}", owner="me")
    answer = service.ask("lease.open", queue="q", group="one too many", owner="me")
    assert answer.code == "invalid"
    assert "max_lease_groups" in answer.fields["error"]
