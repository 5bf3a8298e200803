"""Ranges of a stream, asked of a node that has no copy: a member answers."""

from __future__ import annotations

import pytest

from tests.leases.lease_service import rows
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_cluster import NodeCluster
from tests.queue_types.test_guests import guest_of, listed, settle


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3)
    made.run_until_ready()
    settle(made)
    return made


def desk_on(cluster: NodeCluster, name: str) -> ServiceOnNode:
    return ServiceOnNode(cluster.nodes[name], lambda: cluster.run(100))


def test_ranges_holds_and_producers_are_asked_for_at_a_guest(cluster: NodeCluster) -> None:
    guest = desk_on(cluster, guest_of(cluster))
    guest.declare("s", x_queue_type="stream")
    guest.fill("s", 20)
    bounds = guest.ask("stream.offsets", stream="s", from_=5, group="g")
    assert (bounds.fields["first"], bounds.fields["next"], bounds.fields["position"]) == (0, 20, None)
    incarnation = bounds.fields["incarnation"]
    answer = guest.ask("stream.fetch", stream="s", from_=5, to=15, incarnation=incarnation)
    assert (answer.headers["x-end"], answer.headers["x-next"]) == (15, 20)
    assert [row.body for row in rows(answer.blob)] == [b"m%d" % number for number in range(5, 15)]
    assert guest.ask("stream.fetch", stream="s", from_=0, incarnation="0").code == "gone"
    assert guest.ask("stream.hold", stream="s", name="h", offset=3, for_ms=60_000).code == "ok"
    assert guest.ask("stream.producer", stream="s", producer="p").code == "ok"
    member = cluster.nodes[listed(cluster)[0]]
    assert dict(member.node.broker.vhosts["/"].queues["s"].stream().holds)["h"].offset == 3


def test_without_a_link_to_a_member_it_is_busy(cluster: NodeCluster) -> None:
    name = guest_of(cluster)
    guest = desk_on(cluster, name)
    guest.declare("s", x_queue_type="stream")
    guest.fill("s", 3)
    cluster.isolate(name)
    assert guest.ask("stream.fetch", stream="s", from_=0).code == "busy"
    cluster.heal()
    cluster.run(3000)
    assert guest.ask("stream.fetch", stream="s", from_=0).headers["x-end"] == 3


def test_partitions_are_named_at_a_guest_and_each_is_read(cluster: NodeCluster) -> None:
    guest = desk_on(cluster, guest_of(cluster))
    guest.declare("s", x_queue_type="stream", x_stream_partitions=2)
    guest.fill("s", 10)
    names = guest.ask("stream.offsets", stream="s").fields["partitions"]
    assert names == ["s-0", "s-1"]
    found = [guest.ask("stream.fetch", stream=name, from_=0) for name in names]
    bodies = sorted(row.body for answer in found for row in rows(answer.blob))
    assert bodies == [b"m%d" % number for number in range(10)]
    held = guest.ask("stream.hold", stream="s", name="h", offset=1, for_ms=60_000)
    assert [(row["name"], row["first"]) for row in held.fields["partitions"]] == [("s-0", 0), ("s-1", 0)]
    assert [row["sequence"] for row in guest.ask("stream.producer", stream="s", producer="p").fields["partitions"]] == [
        None, None,
    ]  # fmt: skip
