"""A queue that is gone counts once, over all nodes, wherever and for whatever reason it went."""

from __future__ import annotations

from typing import Any

from amqp_broker.management.totals import FRESH_MS
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from tests.management.counters import totals
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare
from tests.node.one_slice import OneSlice
from tests.node.system_service import SystemService

KINDS: tuple[dict[str, Any], ...] = ({}, {"durable": False}, {"x_queue_type": "quorum"})


def test_queues_that_go_with_their_virtual_host_count(driver: NodeDriver) -> None:
    client = driver.client(1)
    client.send(1, *[declare(f"q{number}", **kind) for number, kind in enumerate(KINDS)])
    driver.settle()
    broker = driver.node.broker
    broker.propose(commands.delete_vhost("/"))
    driver.settle()
    assert (broker.queues_created, broker.queues_deleted, broker.fleeting_queues) == (3, 3, 0)


def test_each_queue_of_a_cluster_counts_once() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)

    def deleted() -> int:
        cluster.run(2 * FRESH_MS)
        return sum(desk.ask(name, "totals")["queue_deleted"] for name in cluster.nodes)

    first, other = cluster.nodes["n1"].client(1), cluster.nodes["n2"].client(1)
    first.send(1, *[declare(f"q{number}", **kind) for number, kind in enumerate(KINDS)])
    cluster.run(500)
    other.send(1, *[methods.QueueDelete(0, f"q{number}", False, False, False) for number in range(len(KINDS))])
    cluster.run(500)
    assert deleted() == len(KINDS)
    first.send(1, declare("fleeting", durable=False), declare("lasting"))
    cluster.run(500)
    assert (deleted(), cluster.nodes["n1"].node.broker.fleeting_queues) == (len(KINDS), 1)
    stopped = cluster.kill("n1")
    cluster.run(500)
    cluster.revive("n1", stopped)
    cluster.run(5000)
    desk.desks["n1"] = SystemService(cluster.nodes["n1"])
    assert deleted() == len(KINDS) + 1


def test_what_comes_and_goes_during_the_walk_is_counted_of_one_moment(
    driver: NodeDriver, service: SystemService
) -> None:
    client = driver.client(1)
    for start in range(0, 200, 100):
        client.send(1, *[declare(f"q{number:03}", durable=False) for number in range(start, start + 100)])
    driver.settle()
    driver.wait(FRESH_MS)
    pace = driver.node.background
    pace.set_pace(OneSlice())
    service.send("totals", b"{}")
    for number in range(100):
        client.send(1, methods.QueueDelete(0, f"q{number:03}", False, False, False))
        driver.turn()
        if service.answers():
            break
    assert number > 3
    driver.start()
    found = totals(driver, SystemService(driver))
    assert (found["queue_created"], found["queue_deleted"], found["queues"]) == (200, 200, 0)
