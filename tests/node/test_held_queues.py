"""A queue that nobody uses for a moment, because its home changes: what its consumers refuse meanwhile."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import NodeDriver, consume


def test_what_is_rejected_of_a_held_queue_becomes_a_dead_letter() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    letters = Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client.send(
        1, methods.QueueDeclare(queue="dead"), methods.QueueDeclare(queue="q", arguments=letters), consume("q")
    )
    client.publish(1, "q", b"bad", persistent=False)
    driver.settle()
    vhost = driver.node.broker.vhosts["/"]
    driver.node.broker.held.hold(vhost, vhost.queues["q"], driver.node.broker.own_node)
    client.send(1, methods.BasicReject(delivery_tag=1, requeue=False))
    driver.settle()
    assert vhost.queues["dead"].message_count() == 1


@pytest.mark.parametrize("how", ["cancelled", "closed", "lost"])
def test_who_leaves_before_it_follows_its_queue_has_left(how: str) -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, methods.QueueDeclare(queue="q"), consume("q"))
    driver.settle()
    client.take()
    assert len(driver.queue("q").part_with_all()) == 1
    if how == "lost":
        driver.lose(client)
    else:
        client.send(1, methods.BasicCancel("tag", False) if how == "cancelled" else methods.ChannelClose(200, "", 0, 0))
    driver.settle()
    assert client.names() == {"cancelled": ["basic.cancel-ok"], "closed": ["channel.close-ok"], "lost": []}[how]
