"""Where the leader of a new quorum queue is: with who declares it, or wherever the fewest are."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import declare

GROUPS = 6


@pytest.fixture
def cluster() -> NodeCluster:
    """Three nodes that lead two groups each."""
    made = NodeCluster(queue_groups=GROUPS)
    made.run_until_ready()
    for group_id in range(1, GROUPS + 1):
        wanted = f"n{group_id % 3 + 1}"
        if made.leader(group_id) != wanted:
            made.nodes[made.leader(group_id)].node.groups.all[group_id].raft.transfer_leadership(wanted)
            made.run(500)
        assert made.leader(group_id) == wanted
    return made


def declared(cluster: NodeCluster, node: str, name: str, kind: str = "quorum", **arguments: Any) -> int:
    """Declare a queue on a node. Returns its group."""
    client = cluster.nodes[node].client(1)
    client.send(1, declare(name, x_queue_type=kind, **arguments))
    cluster.run(100)
    assert [event.method.name for event in client.take()] == ["queue.declare-ok"]
    queue = cluster.nodes[node].queue(name)
    return int(cluster.nodes[node].node.groups.of(queue.queue_id).group_id)


def test_a_queue_is_led_where_it_is_declared_and_spread_over_the_groups(cluster: NodeCluster) -> None:
    for node in ("n1", "n2", "n3"):
        groups = [declared(cluster, node, f"{node}-{number}") for number in range(4)]
        assert {cluster.leader(group_id) for group_id in groups} == {node}
        assert sorted(groups.count(group_id) for group_id in set(groups)) == [2, 2]


def test_balanced_queues_go_where_the_fewest_are(cluster: NodeCluster) -> None:
    arguments = {"x_queue_leader_locator": "balanced"}
    groups = [declared(cluster, "n1", f"q{number}", **arguments) for number in range(GROUPS)]
    assert sorted(groups) == list(range(1, GROUPS + 1))


def test_a_policy_says_so_too(cluster: NodeCluster) -> None:
    leader = cluster.nodes[cluster.leader()]
    definition = {"queue-leader-locator": "balanced"}
    leader.node.broker.propose(
        commands.set_policy("/", "spread", pattern=".*", definition=definition, apply_to="queues", priority=0)
    )
    cluster.run(200)
    groups = [declared(cluster, "n2", f"q{number}") for number in range(GROUPS)]
    assert sorted(groups) == list(range(1, GROUPS + 1))


def test_a_policy_wins_over_the_argument_of_a_stream_and_of_no_other_queue(cluster: NodeCluster) -> None:
    leader = cluster.nodes[cluster.leader()]
    definition = {"queue-leader-locator": "balanced"}
    leader.node.broker.propose(commands.set_policy("/", "spread", pattern=".*", definition=definition))
    cluster.run(200)
    local = {"x_queue_leader_locator": "client-local"}
    streams = [declared(cluster, "n2", f"s{number}", "stream", **local) for number in range(GROUPS)]
    assert sorted(streams) == list(range(1, GROUPS + 1))
    others = [declared(cluster, "n2", f"q{number}", **local) for number in range(GROUPS)]
    assert {cluster.leader(group_id) for group_id in others} == {"n2"}


@pytest.mark.parametrize("locator", ["client-local", "balanced"])
def test_a_node_that_leads_nothing_asks_to_lead_the_group_of_its_first_queue(locator: str) -> None:
    cluster = NodeCluster(queue_groups=2)
    cluster.run_until_ready()
    leads = {cluster.leader(1), cluster.leader(2)}
    other = next(name for name in cluster.nodes if name not in leads)
    group_id = declared(cluster, other, "first", x_queue_leader_locator=locator)
    cluster.run(500)
    assert (cluster.leader(group_id) == other) == (locator == "client-local")


def test_a_group_that_has_queues_keeps_its_leader() -> None:
    cluster = NodeCluster(queue_groups=1)
    cluster.run_until_ready()
    leader = cluster.leader(1)
    assert declared(cluster, leader, "first") == 1
    other = next(name for name in cluster.nodes if name != leader)
    assert declared(cluster, other, "second") == 1
    cluster.run(500)
    assert cluster.leader(1) == leader
