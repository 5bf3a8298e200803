"""What is leased and staged outlives a broker that is killed between any two requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from amqp_broker import running
from amqp_broker.cli.inspect import inspect
from amqp_broker.protocol import methods as m
from tests.leases.lease_service import LeaseService, Owner, blob_of

MESSAGES = 40
BATCH = 10


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_driver_goes_on_where_it_was_whatever_is_killed(tmp_path: Path, kind: str) -> None:
    """A batch is claimed, fetched, staged, committed and acknowledged; after each of these the broker is killed."""
    with running(tmp_path / "data") as broker:
        with LeaseService(broker.url, kind) as service:
            service.declare("source")
            service.declare("sink")
            service.fill("source", MESSAGES)
        start = 0
        batch = 0
        while start < MESSAGES:
            step = batch % 6
            with LeaseService(broker.url, kind) as service:
                owner = Owner(service, "source")
                end = owner.claim(start, most=BATCH).fields["end"]
            if step == 0:
                broker.restart(kill=True)
            with LeaseService(broker.url, kind) as service:
                owner = Owner(service, "source", owner="again")
                assert owner.claim(start, most=BATCH).fields["end"] == end
                bodies = owner.bodies(start, end)
                for sequence in range(2):
                    blob = blob_of(bodies[sequence * 5 : sequence * 5 + 5], routing_key="sink")
                    answer = service.stage(blob, app="a", epoch=start, partition=0, attempt=batch, sequence=sequence)
                    assert answer.code == "ok", answer
            if step == 1:
                broker.restart(kill=True)
            with LeaseService(broker.url, kind) as service:
                request = {"app": "a", "epoch": start, "attempts": {"0": batch}}
                if step == 2:
                    service.send("txn.commit", b"%s" % str(request).replace("'", '"').encode())
                    service.connection.flush(service.connection.deadline(5))
                else:
                    assert service.ask("txn.commit", **request).fields["done"] is True
            if step in (2, 3):
                broker.restart(kill=True)
            with LeaseService(broker.url, kind) as service:
                assert service.ask("txn.commit", **request).fields["done"] is True
                assert Owner(service, "source").ack(end).fields["trimmed"] == end
            if step == 4:
                broker.restart(kill=True)
            start = end
            batch += 1
        broker.restart(kill=True)
        with LeaseService(broker.url, kind) as service:
            assert service.drain("sink") == [b"m%d" % number for number in range(MESSAGES)]
            found = service.ask("lease.stat", queue="source").fields
            assert found["ready"] == 0
            assert found["groups"][0]["trimmed"] == found["groups"][0]["next"] == MESSAGES
            assert service.ask("txn.stat", app="a").fields["apps"][0]["staged_messages"] == 0


def test_a_queue_that_is_not_durable_takes_its_leases_along(tmp_path: Path) -> None:
    with running(tmp_path / "data") as broker:
        for _ in range(2):
            with LeaseService(broker.url) as service:
                with service.connection.channel() as channel:
                    channel.call(m.QueueDeclare(queue="passing"))
                service.fill("passing", 3)
                owner = Owner(service, "passing")
                assert owner.claim(0).fields["end"] == 3
                assert owner.bodies(0, 3) == [b"m0", b"m1", b"m2"]
            broker.restart(kill=True)
        with LeaseService(broker.url) as service:
            assert service.ask("lease.open", queue="passing", group="g", owner="me").code == "not-found"


def test_inspect_tells_of_groups_and_of_what_is_staged(tmp_path: Path) -> None:
    with running(tmp_path / "data") as broker, LeaseService(broker.url) as service:
        service.declare("q")
        service.fill("q", 5)
        Owner(service, "q").claim(0, most=3)
        for sequence in range(2):
            blob = blob_of([b"a", b"b"], routing_key="q")
            assert service.stage(blob, app="a", epoch=3, partition=0, attempt=1, sequence=sequence).code == "ok"
        service.ask("txn.commit", app="done", epoch=7, attempts={})
    shown = CliRunner().invoke(inspect, [str(tmp_path / "data"), "--json"], standalone_mode=False)
    report = json.loads(shown.output)
    assert [(each["app"], each["last_epoch"], each["parts"], each["blobs"]) for each in report["apps"]] == [
        ("a", -1, 1, 2),
        ("done", 7, 0, 0),
    ]
    assert [(each["group"], each["messages"]) for each in report["leases"]] == [("g", 3)]
    words = CliRunner().invoke(inspect, [str(tmp_path / "data")], standalone_mode=False).output
    assert "/  done  epoch 7 committed; 0 parts staged" in words
    assert "notes of apps" in words
