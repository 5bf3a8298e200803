"""A dead letter counts once, when it is done, however often it was tried."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from tests.management.counters import totals
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService

RETRIES_MS = 4000


def test_a_letter_that_finds_a_full_queue_counts_when_there_is_room(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("full", x_queue_type="quorum", x_max_length=1, x_overflow="reject-publish"))
    client.send(1, declare(
        "source", x_queue_type="quorum", x_overflow="reject-publish", x_dead_letter_exchange="",
        x_dead_letter_routing_key="full", x_dead_letter_strategy="at-least-once",
    ))  # fmt: skip
    driver.settle()
    client.publish(1, "full", b"first")
    client.publish(1, "source", b"letter")
    driver.settle()
    client.send(1, methods.BasicGet(0, "source", False))
    driver.settle()
    client.send(1, methods.BasicReject(1, False))
    driver.settle()
    driver.wait(RETRIES_MS)
    quorum = totals(driver, service)["by_type"]["quorum"]
    assert (driver.queue("full").message_count(), quorum.get("dead_lettered_rejected", 0)) == (1, 0)
    client.send(1, methods.BasicGet(0, "full", True))
    driver.settle()
    driver.wait(RETRIES_MS)
    quorum = totals(driver, service)["by_type"]["quorum"]
    assert (driver.queue("full").message_count(), quorum["dead_lettered_rejected"]) == (1, 1)


def test_a_letter_whose_way_is_cut_counts_when_it_is_there() -> None:
    """From a classic queue to one that another node has."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    first, other = cluster.nodes["n1"], cluster.nodes["n2"]
    client, far = first.client(1), other.client(1)
    far.send(1, declare("target"))
    cluster.run(500)
    client.send(1, declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="target"))
    cluster.run(500)
    published = first.node.broker.dead_letters.published
    client.publish(1, "source", b"letter")
    client.send(1, methods.BasicGet(0, "source", False))
    cluster.run(100)
    cluster.isolate("n2")
    client.send(1, methods.BasicReject(1, False))
    cluster.run(RETRIES_MS)
    assert not any(published.get("classic", []))
    cluster.heal()
    cluster.run(2 * RETRIES_MS)
    assert other.queue("target").message_count() >= 1
    assert sum(published["classic"]) == 1


@pytest.mark.parametrize("target", [{}, {"x_queue_type": "quorum"}])
def test_a_letter_that_two_leaders_publish_counts_once(target: dict[str, object]) -> None:
    """The first is cut off before its log has what it says: where the letter went, the next does not know."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    some = cluster.nodes["n1"].client(1)
    some.send(1, declare(
        "source", x_queue_type="quorum", x_dead_letter_exchange="", x_dead_letter_routing_key="target",
        x_overflow="reject-publish", x_dead_letter_strategy="at-least-once",
    ))  # fmt: skip
    cluster.run(500)
    group = cluster.nodes["n1"].queue("source").group.group_id
    leader = cluster.leader(group)
    first = cluster.nodes[leader]
    client = first.client(1)
    client.send(1, declare("target", **target))
    cluster.run(500)
    client.publish(1, "source", b"letter")
    cluster.run(100)
    client.send(1, methods.BasicGet(0, "source", False))
    cluster.run(100)
    client.send(1, methods.BasicReject(1, False))
    for _ in range(100):
        if first.queue("target").message_count():
            break
        cluster.step()
    assert first.queue("source").statistics().dead_letters == 1
    cluster.isolate(leader)
    cluster.run(3 * RETRIES_MS)
    cluster.heal()
    cluster.run(3 * RETRIES_MS)
    for node in cluster.nodes.values():
        assert node.queue("source").statistics().dead_letters == 0
    published = [node.node.broker.dead_letters.published for node in cluster.nodes.values()]
    assert sum(sum(each.get("quorum", ())) for each in published) == 1
