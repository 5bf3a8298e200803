"""Groups of hosts of several workers: whichever worker is asked knows those that nobody leads, and those in danger."""

from __future__ import annotations

import pytest

from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_driver import declare
from tests.node.test_groups_of_hosts import ALIKE, SpreadCluster

pytestmark = pytest.mark.once


@pytest.mark.parametrize("asked", ["n1", "n1/1"])
def test_whoever_is_asked_knows_of_all_groups_of_the_host(asked: str) -> None:
    cluster = SpreadCluster(ALIKE)
    desk = ClusterDesk(cluster)
    client = cluster.client("n1", 1)
    for number in range(4):
        client.send(1, declare(f"q{number}", x_queue_type="quorum"))
        cluster.run(500)
    assert client.names() == ["queue.declare-ok"] * 4
    health = desk.ask(asked, "health")
    assert (health["quorum_critical"], health["leaderless_groups"], health["is_alone"]) == ([], [], False)
    cluster.kill_host("n3")
    cluster.run(3000)
    health = desk.ask(asked, "health")
    assert sorted(each["name"] for each in health["quorum_critical"]) == ["q0", "q1", "q2", "q3"]
    assert health["leaderless_groups"] == []
    cluster.kill_host("n2")
    cluster.run(3000)
    assert desk.ask(asked, "health")["leaderless_groups"] == [0, 1, 2, 3, 4]
