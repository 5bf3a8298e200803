"""Who is asked what its log says, and leaves the log's group meanwhile, does not take what it has forgotten for the
answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.metadata import commands
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import declare
from tests.node.system_service import SystemService
from tests.queue_types.test_guests import GROUP, group, listed, settle
from tests.queue_types.test_quorum_cluster import CONFIRM, answer, publish

MOMENTS_MS = [0, 10, 20, 30, 50, 100, 200, 300, 500]


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3)
    made.run_until_ready()
    settle(made)
    return made


def asked_while_leaving(cluster: NodeCluster, moment_ms: int, verb: str, **fields: object) -> dict[str, Any]:
    """What a member says that is cut off and asked, while the others go on without it: when it hears from them, it has
    left. moment_ms: until it hears."""
    leader = cluster.leader(GROUP)
    leaving = next(name for name in listed(cluster) if name not in (leader, cluster.leader()))
    service = SystemService(cluster.nodes[leaving])
    rest = [name for name in cluster.names if name != leaving]
    cluster.isolate(leaving)
    service.send(verb, json.dumps(fields).encode())
    cluster.nodes[cluster.leader()].node.replication.propose(commands.put_group_members(GROUP, rest, listed(cluster)))
    while leaving in group(cluster.nodes[leader]).raft.members:
        cluster.run(10)
    cluster.run(moment_ms)
    cluster.heal()
    for _ in range(400):
        cluster.run(10)
        if answers := service.answers():
            assert group(cluster.nodes[leaving]).guest is not None
            return answers[0]
    raise AssertionError(f"{verb} was not answered")


def fill(cluster: NodeCluster, queue_type: str) -> None:
    client = cluster.nodes[cluster.leader(GROUP)].client(1)
    answer(cluster, client, declare("q", x_queue_type=queue_type))
    answer(cluster, client, CONFIRM)
    for number in range(5):
        publish(client, b"%d" % number, headers={"x-producer-id": "p", "x-producer-sequence": number})
    cluster.run(200)


def is_true(said: dict[str, Any], expected: dict[str, object]) -> bool:
    """Or it is said that nobody knows."""
    if said["ok"]:
        return {key: said[key] for key in expected} == expected
    return said["code"] == "busy"


@pytest.mark.parametrize("moment_ms", MOMENTS_MS)
def test_a_stream_is_not_empty(cluster: NodeCluster, moment_ms: int) -> None:
    fill(cluster, "stream")
    said = asked_while_leaving(cluster, moment_ms, "stream.offsets", stream="q", group="g")
    assert is_true(said, {"first": 0, "next": 5}), said


@pytest.mark.parametrize("moment_ms", MOMENTS_MS)
def test_a_producer_is_not_unknown(cluster: NodeCluster, moment_ms: int) -> None:
    fill(cluster, "stream")
    said = asked_while_leaving(cluster, moment_ms, "stream.producer", stream="q", producer="p", sequence=1)
    assert is_true(said, {"sequence": 4, "is_published": True}), said


@pytest.mark.parametrize("moment_ms", MOMENTS_MS)
def test_a_group_that_leases_is_not_gone(cluster: NodeCluster, moment_ms: int) -> None:
    fill(cluster, "quorum")
    service = SystemService(cluster.nodes[cluster.leader(GROUP)])
    service.send("lease.open", json.dumps({"queue": "q", "group": "g", "owner": "me"}).encode())
    cluster.run(100)
    (opened,) = service.answers()
    said = asked_while_leaving(
        cluster, moment_ms, "lease.claim", queue="q", group="g", owner="me", incarnation=opened["incarnation"], after=0,
        max_messages=2,
    )  # fmt: skip
    assert is_true(said, {}), said
