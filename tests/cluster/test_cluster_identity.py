"""The id of a cluster: all nodes have the same, it outlives them, and a cluster without one is given one."""

from __future__ import annotations

import pytest

from amqp_broker.cluster.membership import LOOK_MS
from amqp_broker.links.levels import FIRST_ONE_STAYS, LEVEL
from amqp_broker.metadata import commands
from amqp_broker.metadata.cluster_identity import CLUSTER_ID, CLUSTER_NAME, cluster_id, cluster_name
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.settings.config import Config
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver


def test_it_outlives_a_restart() -> None:
    driver = NodeDriver()
    before = cluster_id(driver.node.broker.metadata)
    assert before
    driver._seed += 1
    driver.crash()
    driver.wait(2 * LOOK_MS)
    assert cluster_id(driver.node.broker.metadata) == before


def test_two_clusters_have_two() -> None:
    assert len({cluster_id(NodeDriver(seed=seed).node.broker.metadata) for seed in (1, 2)}) == 2


def test_all_nodes_of_a_cluster_have_the_same() -> None:
    cluster = NodeCluster(3)
    cluster.run_until_ready()
    cluster.run(2 * LOOK_MS)
    (known,) = {cluster_id(driver.node.broker.metadata) for driver in cluster.nodes.values()}
    assert known


def test_whoever_leads_gives_one_to_a_cluster_that_has_none() -> None:
    """As of a version that gave none."""
    cluster = NodeCluster(3)
    cluster.run_until_ready()
    cluster.nodes[cluster.leader()].node.broker.propose(commands.clear_global_parameter(CLUSTER_ID))
    cluster.run(4 * LOOK_MS)
    (known,) = {cluster_id(driver.node.broker.metadata) for driver in cluster.nodes.values()}
    assert known
    cluster.run(4 * LOOK_MS)
    assert {cluster_id(driver.node.broker.metadata) for driver in cluster.nodes.values()} == {known}


def test_of_several_that_are_proposed_at_once_the_first_stays() -> None:
    """Who leads changes while the first is on its way: each has found that there is none."""
    cluster = NodeCluster(3)
    cluster.run_until_ready()
    cluster.run(2 * LOOK_MS)
    brokers = [driver.node.broker for driver in cluster.nodes.values()]
    brokers[0].propose(commands.clear_global_parameter(CLUSTER_ID))
    while any(cluster_id(broker.metadata) for broker in brokers):
        cluster.step()
    for broker in brokers:
        broker.give_cluster_id()
    seen = set()
    for _ in range(4 * LOOK_MS):
        cluster.step()
        seen |= {cluster_id(broker.metadata) for broker in brokers}
    assert len(seen - {""}) == 1


def test_there_is_none_while_a_member_might_not_know_which_stays() -> None:
    """One of the version before lets the last one stay."""
    cluster = NodeCluster(3)
    levels = set()
    for _ in range(200):
        cluster.run(10)
        for driver in cluster.nodes.values():
            metadata = driver.node.broker.metadata
            assert metadata.level >= FIRST_ONE_STAYS or not cluster_id(metadata)
            levels |= {(metadata.level, bool(cluster_id(metadata)))}
    assert levels >= {(FIRST_ONE_STAYS - 1, False), (LEVEL, True)}


@pytest.mark.parametrize("name", ["n" * 256, "\ud800", "", 5])
def test_a_name_that_clients_cannot_be_told_is_none(name: object) -> None:
    """As a version stored it that took whatever came."""
    metadata = Metadata()
    metadata.apply(commands.set_global_parameter(CLUSTER_NAME, "warren"))
    assert cluster_name(metadata, Config()) == "warren"
    metadata.apply(commands.set_global_parameter(CLUSTER_NAME, name))
    assert cluster_name(metadata, Config()) == Config().cluster_name
