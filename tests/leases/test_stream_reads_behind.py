"""Ranges of a stream, asked of a node that has not heard yet of what was published."""

from __future__ import annotations

from tests.leases.lease_service import rows
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_cluster import NodeCluster


def test_a_node_that_is_behind_waits_for_what_its_range_has() -> None:
    cluster = NodeCluster(3, queue_groups=1)
    cluster.run_until_ready()
    leader = cluster.leader()
    behind = next(name for name in cluster.names if name != leader)
    desks = {name: ServiceOnNode(cluster.nodes[name], lambda: cluster.run(100)) for name in (leader, behind)}
    desks[leader].declare("s", x_queue_type="stream")
    desks[leader].fill("s", 5)
    assert desks[behind].ask("stream.fetch", stream="s", from_=0, to=5).headers["x-end"] == 5
    cluster.isolate(behind)
    desks[leader].fill("s", 5, 5)
    assert desks[leader].ask("stream.offsets", stream="s").fields["next"] == 10

    sent = desks[behind].send("stream.fetch", b'{"stream": "s", "from": 5, "to": 10}')
    cluster.run(300)
    assert desks[behind].answer(sent) is None
    cluster.heal()
    cluster.run(3000)
    answer = desks[behind].answer(sent)
    assert answer is not None
    assert answer.headers["x-end"] == 10
    assert [row.body for row in rows(answer.blob)] == [b"m%d" % number for number in range(5, 10)]
