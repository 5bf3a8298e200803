"""Leaders of groups that are on some of the nodes: whoever is asked, and spread by themselves."""

from __future__ import annotations

from collections import Counter

import pytest

from amqp_broker.cluster import membership
from amqp_broker.metadata import commands
from raft.membership import TransferResult
from tests.node.node_cluster import NodeCluster

LISTS = {1: ("n1", "n2"), 2: ("n1", "n2"), 3: ("n1", "n3"), 4: ("n1", "n4")}
CALM_MS = 3000


def leaders(cluster: NodeCluster) -> dict[int, str]:
    return {group_id: cluster.leader(group_id) for group_id in LISTS}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NodeCluster:
    """All groups are where LISTS say, and nobody has spread leaders since."""
    monkeypatch.setattr(membership, "CALM_MS", CALM_MS)
    made = NodeCluster(4, queue_groups=4)
    made.run_until_ready()
    replication = made.nodes[made.leader()].node.replication
    for group_id, nodes in LISTS.items():
        replication.propose(commands.put_group_members(group_id, nodes))
    for _ in range(60):
        made.run(100)
        found = {group_id: made.nodes["n1"].node.transfers.look(group_id)[1] for group_id in LISTS}
        if {group_id: tuple(members) for group_id, members in found.items()} == LISTS:
            return made
    raise AssertionError(found)


def test_any_node_is_asked_and_leaders_are_spread_after_a_calm(cluster: NodeCluster) -> None:
    transfers = {name: driver.node.transfers for name, driver in cluster.nodes.items()}
    assert transfers["n4"].request(1, "n3") is TransferResult.NOT_A_VOTER
    for group_id, nodes in LISTS.items():
        guest = next(name for name in cluster.names if name not in nodes)
        assert transfers[guest].request(group_id, "n1") in (TransferResult.STARTED, TransferResult.LEADER_ALREADY)
    cluster.run(1000)
    assert set(leaders(cluster).values()) == {"n1"}
    assert transfers["n3"].request(1, "n1") is TransferResult.LEADER_ALREADY
    cluster.cut("n2", "n3")
    cluster.run(600)
    cluster.heal()
    cluster.run(CALM_MS + 2000)
    counts = Counter([*leaders(cluster).values(), cluster.leader()])
    assert max(counts.values()) - min(counts[name] for name in cluster.names) <= 1, counts


def test_lists_that_change_are_looked_at_anew(cluster: NodeCluster) -> None:
    cluster.run(CALM_MS + 2000)
    for group_id in LISTS:
        cluster.nodes["n1"].node.transfers.request(group_id, "n1")
    cluster.run(1000 + CALM_MS)
    assert set(leaders(cluster).values()) == {"n1"}, "what somebody has asked for stays"
    replication = cluster.nodes[cluster.leader()].node.replication
    replication.propose(commands.put_group_members(4, ["n1", "n3", "n4"], LISTS[4]))
    cluster.run(CALM_MS + 3000)
    assert max(Counter([*leaders(cluster).values(), cluster.leader()]).values()) <= 2
