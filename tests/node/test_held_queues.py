"""A queue that nobody uses for a moment, because its home changes: what its consumers refuse meanwhile."""

from __future__ import annotations

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
