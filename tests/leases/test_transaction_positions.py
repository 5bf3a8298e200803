"""Offsets in txn.commit: groups of readers go along with what is published, once; and streams in transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from amqp_broker import running
from amqp_broker.leases.app_note import AppNote, PartNote, Position, decode_note, encode_note
from tests.leases.lease_service import Answer, LeaseService, blob_of, rows
from tests.leases.service_on_node import ServiceOnNode
from tests.leases.test_transaction_crashes import desk_on, tiny
from tests.simulation.simulated_disk import SimulatedCrash


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as broker:
        yield broker.url


@pytest.fixture
def service(url: str) -> Iterator[LeaseService]:
    with LeaseService(url) as service:
        yield service


def position(service: LeaseService | ServiceOnNode, stream: str, group: str = "g") -> int | None:
    answer = service.ask("stream.offsets", stream=stream, group=group)
    assert answer.code == "ok", answer
    found: int | None = answer.fields["position"]
    return found


def stream_bodies(service: LeaseService | ServiceOnNode, stream: str) -> list[bytes]:
    """All of a stream."""
    found: list[bytes] = []
    while True:
        answer = service.ask("stream.fetch", stream=stream, from_=len(found), columns=["body"])
        assert answer.code == "ok", answer
        if not (taken := rows(answer.blob)):
            return found
        found += [row.body for row in taken]


def commit(service: LeaseService, app: str, epoch: int, offsets: object, **attempts: int) -> Answer:
    return service.ask("txn.commit", app=app, epoch=epoch, attempts=attempts, offsets=offsets)


def test_a_group_goes_along(service: LeaseService) -> None:
    service.declare("in", x_queue_type="stream")
    service.declare("out", x_queue_type="stream")
    service.fill("in", 5)
    assert position(service, "in") is None
    answer = service.stage(blob_of([b"a"], routing_key="out"), app="along", epoch=0, partition=0, attempt=1, sequence=0)
    assert answer.code == "ok"
    assert position(service, "in") is None
    assert commit(service, "along", 0, {"in": {"g": {"0": 3}}}, **{"0": 1}).fields["published"] == 1
    assert (position(service, "in"), stream_bodies(service, "out")) == (3, [b"a"])
    assert commit(service, "along", 0, {"in": {"g": {"0": 5}}}).fields["again"] is True
    assert position(service, "in") == 3
    with service.connection.channel() as channel:
        consumer = channel.consume("in", prefetch_count=10, arguments={"x-stream-group": "g"})
        first = consumer.next(20)
        assert first is not None
        assert first.body == b"m3"


def test_without_messages_and_never_back_and_not_beyond_the_end(service: LeaseService) -> None:
    service.declare("alone", x_queue_type="stream")
    service.fill("alone", 5)
    for epoch, (asked, found) in enumerate(((4, 4), (2, 4), (1_000, 5))):
        assert commit(service, "alone", epoch, {"alone": {"g": {"0": asked}}}).code == "ok"
        assert position(service, "alone") == found


def test_of_many_groups_some_follow_at_a_time(service: LeaseService) -> None:
    service.declare("popular", x_queue_type="stream")
    service.fill("popular", 3)
    groups = [f"g{number}" for number in range(700)]
    assert commit(service, "many", 0, {"popular": {group: {"0": 2} for group in groups}}).code == "ok"
    assert {position(service, "popular", group) for group in groups} == {2}


def test_partitions(service: LeaseService) -> None:
    service.declare("parts", x_queue_type="stream", x_stream_partitions=2)
    for part in ("parts-0", "parts-1"):
        service.fill(part, 3)
    assert commit(service, "parts", 0, {"parts": {"g": {"0": 1, "1": 2}, "h": {"1": 3}}}).code == "ok"
    found = [position(service, part, group) for part in ("parts-0", "parts-1") for group in "gh"]
    assert found == [1, None, 2, 3]


@pytest.mark.parametrize(
    ("offsets", "code"),
    [
        ({"nothing": {"g": {"0": 1}}}, "not-found"),
        ({"queue": {"g": {"0": 1}}}, "not-found"),
        ({"stream": {"g": {"1": 1}}}, "invalid"),
        ({"stream": {"g": {"x": 1}}}, "invalid"),
        ({"stream": {"g": {"0": -1}}}, "invalid"),
        ({"stream": {"": {"0": 1}}}, "invalid"),
        ({"stream": {"g": 1}}, "invalid"),
        ({"stream": 1}, "invalid"),
        (1, "invalid"),
        ([], "invalid"),
        (0, "invalid"),
        ("", "invalid"),
        (False, "invalid"),
        ({"stream": {"\ud800": {"0": 1}}}, "invalid"),
        ({"stream": {"x" * 256: {"0": 1}}}, "invalid"),
        ({"stream": {f"g{number}": {"0": 1} for number in range(10_001)}}, "invalid"),
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_what_is_wrong_is_refused_before_anything_is_done(service: LeaseService, offsets: object, code: str) -> None:
    service.declare("queue")
    service.declare("stream", x_queue_type="stream")
    assert commit(service, "wrong", 0, offsets).code == code
    assert service.ask("txn.stat", app="wrong").fields["apps"] in ([], [
        {"app": "wrong", "last_epoch": None, "staged_messages": 0}
    ])  # fmt: skip


def test_a_stream_and_a_queue_over_it_store_a_message_once(service: LeaseService) -> None:
    service.declare("both", x_queue_type="stream")
    service.declare("over", x_queue_type="quorum", x_stream_source="both", x_stream_offset="first")
    with service.connection.channel() as channel:
        from amqp_broker.protocol import methods as m

        channel.call(m.ExchangeDeclare(exchange="to both", type="fanout", durable=True))
        for queue in ("both", "over"):
            channel.call(m.QueueBind(queue=queue, exchange="to both"))
        channel.confirm_select()
        channel.publish("to both", "", b"published")
        assert channel.wait_for_confirms() == []
    blob = blob_of([b"a", b"b"], exchange="to both")
    assert service.stage(blob, app="both", epoch=0, partition=0, attempt=1, sequence=0).code == "ok"
    assert service.ask("txn.commit", app="both", epoch=0, attempts={"0": 1}).fields["published"] == 2
    assert stream_bodies(service, "both") == [b"published", b"a", b"b"]
    assert service.drain("over") == [b"published", b"a", b"b"]


def test_a_note_with_positions_has_a_version_of_its_own() -> None:
    part = PartNote(3, 0, 7, 1, 5, -1)
    plain = AppNote(b"i" * 16, "/", "app", 2, 2, 1, 9, (part,))
    assert encode_note(plain)[0] == 1
    note = plain._replace(positions=(Position(17, "group", 4), Position(18, "other", 0)))
    assert encode_note(note)[0] == 2
    for each in (plain, note):
        assert decode_note(encode_note(each)) == each


# -- crashes -----------------------------------------------------------------------------------------------------------

MESSAGES = 12
AT_ONCE = 3


def begin(service: ServiceOnNode) -> None:
    """Make the streams, and fill the first."""
    for stream in ("in", "out"):
        service.declare(stream, x_queue_type="stream")
    for _ in range(5):
        answer = service.ask("stream.offsets", stream="in")
        if answer.fields["next"] < MESSAGES:
            service.fill("in", MESSAGES - answer.fields["next"], answer.fields["next"])


def copy(service: ServiceOnNode) -> int:
    """What docs/leases.md says: ask for the last epoch, read from where the group is, stage, commit. Returns how many
    epochs it has committed."""
    apps = service.ask("txn.stat", app="copy").fields["apps"]
    last = apps[0]["last_epoch"] if apps else None
    epoch = 0 if last is None else last + 1
    if epoch:
        assert service.ask("txn.commit", app="copy", epoch=epoch - 1, attempts={}).fields["again"] is True
    done = 0
    while (start := position(service, "in") or 0) < MESSAGES:
        answer = service.ask("stream.fetch", stream="in", from_=start, to=start + AT_ONCE, columns=["body"])
        bodies = [b"copy of " + row.body for row in rows(answer.blob)]
        said = {"app": "copy", "epoch": epoch, "partition": 0, "attempt": 1, "sequence": 0}
        assert service.stage(blob_of(bodies, routing_key="out"), **said).code == "ok"
        end = answer.headers["x-end"]
        answer = service.ask(
            "txn.commit", app="copy", epoch=epoch, attempts={"0": 1}, offsets={"in": {"g": {"0": end}}}
        )
        assert (answer.code, answer.fields.get("again")) == ("ok", None), answer
        epoch, done = epoch + 1, done + 1
    return done


def test_a_crash_at_every_write_copies_a_stream_once() -> None:
    wanted = [b"copy of m%d" % number for number in range(MESSAGES)]
    crashes = 0
    for at in range(1, 400):
        driver = tiny()
        service = desk_on(driver)
        begin(service)
        driver.disk.crash_at = at
        try:
            copy(service)
        except SimulatedCrash:
            crashes += 1
        else:
            driver.disk.crash_at = None
            assert stream_bodies(service, "out") == wanted
            break
        driver.disk.crash_at = None
        driver.crash()
        driver.wait(10)
        service = desk_on(driver)
        # What was committed went on by itself: all of it, and no more.
        assert len(stream_bodies(service, "out")) == (position(service, "in") or 0)
        copy(service)
        assert (stream_bodies(service, "out"), position(service, "in")) == (wanted, MESSAGES)
    else:
        pytest.fail("the work has more writes than this test crashes in")
    assert crashes > 20


def test_many_crashes_copy_a_stream_once() -> None:
    chance = random.Random(7)
    wanted = [b"copy of m%d" % number for number in range(MESSAGES)]
    for _ in range(10):
        driver = tiny()
        service = desk_on(driver)
        begin(service)
        while True:
            driver.disk.crash_at = chance.randint(1, 40)
            try:
                copy(service)
                break
            except SimulatedCrash:
                driver.disk.crash_at = None
                driver.crash()
                driver.wait(10)
                service = desk_on(driver)
        driver.disk.crash_at = None
        assert (stream_bodies(service, "out"), position(service, "in")) == (wanted, MESSAGES)
