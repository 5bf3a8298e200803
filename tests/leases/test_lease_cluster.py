"""Leases and transactions in a cluster: any node is asked, whoever has the messages answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.links.frame_kinds import FrameKind
from raft.errors import PeerProtocolError
from tests.leases.lease_service import blob_of, rows
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_cluster import NodeCluster


@pytest.fixture
def cluster() -> NodeCluster:
    cluster = NodeCluster(3)
    cluster.run_until_ready()
    return cluster


def desk_on(cluster: NodeCluster, name: str) -> ServiceOnNode:
    return ServiceOnNode(cluster.nodes[name], lambda: cluster.run(100))


def opened(service: ServiceOnNode, queue: str, owner: str = "me") -> dict[str, Any]:
    answer = service.ask("lease.open", queue=queue, group="g", owner=owner)
    assert answer.code == "ok", answer
    return {"queue": queue, "group": "g", "owner": owner, "incarnation": answer.fields["incarnation"]}


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_every_node_serves_the_leases_of_a_queue(cluster: NodeCluster, kind: str) -> None:
    desks = {name: desk_on(cluster, name) for name in cluster.names}
    one, two, three = desks.values()
    one.declare("q", x_queue_type=kind)
    one.fill("q", 10)
    caller = opened(two, "q")
    assert two.ask("lease.claim", **caller, after=0, max_messages=6).fields["end"] == 6
    for service in desks.values():
        answer = service.ask("lease.fetch", **caller, from_=0, to=6)
        assert answer.headers["x-end"] == 6
        assert [row.body for row in rows(answer.blob)] == [b"m%d" % number for number in range(6)]
    assert three.ask("lease.claim", **caller, after=0, max_messages=6).fields["end"] == 6
    assert three.ask("lease.ack", **caller, upto=4).fields["trimmed"] == 4
    assert one.ask("lease.fetch", **caller, from_=0, to=6).code == "gone"
    other = opened(three, "q", "you")
    assert two.ask("lease.claim", **caller, after=4).code == "fenced"
    assert [row.body for row in rows(two.ask("lease.browse", queue="q").blob)] == [b"m6", b"m7", b"m8", b"m9"]
    assert one.ask("lease.stat", queue="q").fields["groups"][0]["owner"] == "you"
    assert two.ask("lease.release", **other).fields["released"] == 2
    assert one.bodies("q") == [b"m%d" % number for number in range(4, 10)]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_every_node_shows_what_is_leased(cluster: NodeCluster, kind: str) -> None:
    desks = {name: desk_on(cluster, name) for name in cluster.names}
    one, two, _ = desks.values()
    one.declare("q", x_queue_type=kind)
    one.fill("q", 10)
    two.ask("lease.claim", **opened(two, "q"), after=0, max_messages=6)
    for service in desks.values():
        (queue,) = service.ask("queue.list", vhost="/").fields["queues"]
        assert (queue["name"], queue["messages_ready"], queue["leased"]) == ("q", 4, 6)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_claim_waits_on_another_node(cluster: NodeCluster, kind: str) -> None:
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    one.declare("q", x_queue_type=kind)
    caller = opened(two, "q")
    waiting = two.send("lease.claim", json.dumps({**caller, "after": 0, "wait_ms": 3000}).encode())
    cluster.run(500)
    assert two.answer(waiting) is None
    one.fill("q", 2)
    assert two.receive(waiting).fields["end"] == 2
    waiting = two.send("lease.claim", json.dumps({**caller, "after": 2, "wait_ms": 1000}).encode())
    cluster.run(1500)
    answer = two.answer(waiting)
    assert answer is not None
    assert answer.fields["end"] == 2


def test_while_the_home_is_away_requests_are_told_to_come_again(cluster: NodeCluster) -> None:
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    one.declare("q")
    one.fill("q", 3)
    caller = opened(two, "q")
    assert two.ask("lease.claim", **caller, after=0).fields["end"] == 3
    waiting = two.send("lease.claim", json.dumps({**caller, "after": 3, "wait_ms": 5000}).encode())
    cluster.run(100)
    cluster.cut("n1", "n2")
    cluster.run(50)
    lost = two.answer(waiting)
    assert lost is not None
    assert lost.code == "busy"
    assert two.ask("lease.fetch", **caller, from_=0, to=3).code == "busy"
    cluster.heal()
    cluster.run(100)
    assert two.ask("lease.fetch", **caller, from_=0, to=3).headers["x-end"] == 3
    assert two.ask("lease.claim", **caller, after=0).fields["end"] == 3


def test_groups_are_there_after_the_home_was_down(cluster: NodeCluster) -> None:
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    one.declare("q")
    one.fill("q", 5)
    caller = opened(two, "q")
    assert two.ask("lease.claim", **caller, after=0, max_messages=3).fields["end"] == 3
    cluster.revive("n1", cluster.kill("n1"))
    cluster.run(3000)
    found = two.ask("lease.fetch", **caller, from_=0, to=3)
    assert [row.body for row in rows(found.blob)] == [b"m0", b"m1", b"m2"]
    assert two.ask("lease.claim", **caller, after=3).fields["end"] == 5


def test_without_a_majority_a_quorum_queue_is_busy(cluster: NodeCluster) -> None:
    one = desk_on(cluster, "n1")
    one.declare("q", x_queue_type="quorum")
    one.fill("q", 3)
    caller = opened(one, "q")
    cluster.isolate("n1")
    name = one.send("lease.claim", json.dumps({**caller, "after": 0}).encode())
    timeout_ms = cluster.nodes["n1"].config.command_timeout_ms
    cluster.run(timeout_ms + 1000)
    answer = one.answer(name)
    assert answer is not None
    assert answer.code == "busy"
    cluster.heal()
    cluster.run(3000)
    assert one.ask("lease.claim", **caller, after=0).fields["end"] == 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_transactions_are_staged_and_committed_on_any_node(cluster: NodeCluster, kind: str) -> None:
    desks = [desk_on(cluster, name) for name in cluster.names]
    desks[0].declare("q", x_queue_type=kind)
    for epoch in range(2):
        for partition, service in enumerate(desks):
            blob = blob_of([b"%d.%d.%d" % (epoch, partition, number) for number in range(5)])
            fields = {"epoch": epoch, "partition": partition, "attempt": 1, "sequence": 0}
            assert service.stage(blob, app="a", **fields).code == "ok"
        answer = desks[2 - epoch].ask("txn.commit", app="a", epoch=epoch, attempts={"0": 1, "1": 1, "2": 1})
        assert answer.fields == {"ok": True, "done": True, "published": 15, "unroutable": 0}
        assert desks[0].ask("txn.commit", app="a", epoch=epoch, attempts={}).fields["again"] is True
    expected = [b"%d.%d.%d" % (e, p, n) for e in range(2) for p in range(3) for n in range(5)]
    assert desks[1].bodies("q") == expected
    listed = desks[2].ask("txn.stat").fields["apps"]
    assert [(each["app"], each["last_epoch"], each["staged_messages"]) for each in listed] == [("a", 1, 0)]
    assert listed[0]["home"] in cluster.names


def test_the_first_node_becomes_the_home_whoever_asks_at_once(cluster: NodeCluster) -> None:
    desks = [desk_on(cluster, name) for name in cluster.names]
    desks[0].declare("q")
    names = []
    for partition, service in enumerate(desks):
        headers = {"app": "a", "epoch": 0, "partition": partition, "attempt": 1, "sequence": 0}
        names.append(service.send("txn.stage", blob_of([b"m%d" % partition]), headers))
    cluster.run(200)
    answers = [service.answer(name) for service, name in zip(desks, names, strict=True)]
    assert [answer.code for answer in answers if answer] == ["ok"] * 3
    records = [driver.node.broker.metadata.app("/", "a") for driver in cluster.nodes.values()]
    assert records[0] is not None
    assert records == [records[0]] * 3
    answer = desks[1].ask("txn.commit", app="a", epoch=0, attempts={"0": 1, "1": 1, "2": 1})
    assert answer.fields["published"] == 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_an_app_whose_home_was_down_goes_on(cluster: NodeCluster, kind: str) -> None:
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    two.declare("q", x_queue_type=kind)
    blob = blob_of([b"m%d" % number for number in range(5)])
    assert one.stage(blob, app="a", epoch=0, partition=0, attempt=1, sequence=0).code == "ok"
    driver = cluster.kill("n1")
    cluster.run(1000)
    assert two.ask("txn.commit", app="a", epoch=0, attempts={"0": 1}).code == "busy"
    assert two.ask("txn.stat").fields["apps"] == [
        {"home": "n1", "app": "a", "last_epoch": None, "staged_messages": None}
    ]
    cluster.revive("n1", driver)
    cluster.run(3000)
    assert two.ask("txn.commit", app="a", epoch=0, attempts={"0": 1}).fields["published"] == 5
    assert two.bodies("q") == [b"m%d" % number for number in range(5)]


def test_a_crash_between_a_quorum_queue_and_the_journal_publishes_once(cluster: NodeCluster) -> None:
    """The messages of a blob are in the queue, and the blob is still there."""
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    two.declare("q", x_queue_type="quorum")
    for sequence in range(2):
        blob = blob_of([b"%d.%d" % (sequence, number) for number in range(5)])
        assert one.stage(blob, app="a", epoch=0, partition=0, attempt=1, sequence=sequence).code == "ok"
    one.send("txn.commit", json.dumps({"app": "a", "epoch": 0, "attempts": {"0": 1}}).encode())
    for _ in range(40):
        cluster.step()
        if cluster.nodes["n2"].queue("q").message_count():
            break
    app: Any = cluster.nodes["n1"].node.leases.apps.find("/", "a")
    part = app.all_parts()[0]
    assert part.queue.message_count() == 2, "the blobs were gone before the crash"
    cluster.revive("n1", cluster.kill("n1"))
    cluster.run(4000)
    assert two.bodies("q") == [b"%d.%d" % (sequence, number) for sequence in range(2) for number in range(5)]
    assert two.ask("txn.commit", app="a", epoch=0, attempts={"0": 1}).fields["again"] is True


def test_a_crash_repeats_one_blob_at_most_where_nobody_recognises_it(cluster: NodeCluster) -> None:
    """A classic queue of another node: found by seed 171 of `--weather leases`, which had two blobs again."""
    one, two = desk_on(cluster, "n1"), desk_on(cluster, "n2")
    two.declare("q")
    for sequence in range(3):
        assert one.stage(blob_of([b"%d" % sequence]), app="a", epoch=0, partition=0, attempt=1, sequence=sequence)
    cluster.run(1000)
    one.send("txn.commit", json.dumps({"app": "a", "epoch": 0, "attempts": {"0": 1}}).encode())
    app: Any = cluster.nodes["n1"].node.leases.apps.find("/", "a")
    part = app.all_parts()[0]
    while not cluster.nodes["n2"].queue("q").message_count():
        cluster.step()
    cluster.stall("n1")
    for _ in range(40):
        cluster.step()
    assert part.queue.message_count() == 2, "the first blob has not left its part"
    assert cluster.nodes["n2"].queue("q").message_count() == 1, "the next blob has not waited for the sync"
    cluster.revive("n1", cluster.kill("n1"))
    cluster.run(4000)
    assert two.bodies("q") in ([b"0", b"1", b"2"], [b"0", b"0", b"1", b"2"])


@pytest.mark.parametrize("kind", [FrameKind.LEASE_REQUEST, FrameKind.LEASE_ANSWER])
def test_a_malformed_frame_ends_the_link_and_nothing_else(cluster: NodeCluster, kind: FrameKind) -> None:
    node = cluster.nodes["n1"].node
    for payload in (b"", b"\x02", b"\x01", b"\x01" + bytes(8), b"\x01" + bytes(30), b"\x01" + b"\xff" * 60):
        with pytest.raises(PeerProtocolError):
            node.tenants.receivers[kind]("n2", payload, node.clock.now)


def test_a_request_is_answered_once(cluster: NodeCluster) -> None:
    """A refusal was followed by `busy` when the time was up."""
    one = desk_on(cluster, "n1")
    one.declare("q", x_queue_type="quorum")
    names = [
        one.send("lease.fetch", json.dumps({"queue": "q", "group": "g"}).encode()),
        one.send("lease.claim", json.dumps({"queue": "q", "group": "g", "after": -1}).encode()),
        one.send("lease.open", json.dumps({"queue": "q", "group": "g", "owner": "me"}).encode()),
    ]
    cluster.run(cluster.nodes["n1"].config.command_timeout_ms + 10_000)
    delivered = [event for event in one.client.take() if event.method.name == "basic.deliver"]
    assert len(delivered) == len(names)
