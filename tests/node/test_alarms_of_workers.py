"""An alarm of one worker: who publishes to its queues waits, at whichever worker he is, and nobody else."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from tests.node.worker_world import WorkerWorld

TOLD = ["connection.blocked"]
MESSAGES = 400
BODY = b"x" * 3000
#: Octets that may be under way to another worker.
BACKLOG = 64 * 1024


@pytest.mark.parametrize("is_new", [False, True], ids=["has published", "begins"])
def test_a_publisher_at_another_worker_does_not_fill_the_one_that_is_short(is_new: bool) -> None:
    world = WorkerWorld(2, steering="off", publish_backlog_bytes=BACKLOG)
    world.declare("n1/1", "there")
    world.declare("n1", "here")
    short = world.nodes["n1/1"].node
    client, other = (world.client("n1", 1, capabilities=TOLD) for _ in range(2))
    client.send(1, methods.ConfirmSelect(False))
    if not is_new:
        client.publish(1, "there", b"first")
        world.run(100)
    short.alarms.disk_full(True)
    world.run(50)
    for _ in range(MESSAGES):
        client.publish(1, "there", BODY)
        world.step()
    world.run(500)
    come = world.nodes["n1/1"].queue("there").ready.count
    assert come <= 2 + BACKLOG // len(BODY), "what was under way before it was heard of"
    assert client.connection.is_paused
    [blocked] = [each.method for each in client.events if each.method.name == "connection.blocked"]
    assert blocked.reason == "low on disk or memory: node n1/1"
    other.publish(1, "here", b"x")
    world.settle()
    assert world.nodes["n1"].queue("here").ready.count == 1
    short.alarms.disk_full(False)
    world.run(3000)
    assert world.nodes["n1/1"].queue("there").ready.count == MESSAGES + (not is_new)
    assert "connection.unblocked" in client.names()
