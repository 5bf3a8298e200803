"""Where parts meet: dead letters and the gate of publishers, dead letters and virtual hosts of the same name."""

from __future__ import annotations

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from queues.letters import MOST_NOTED, MOST_PUBLISHED
from tests.node.node_driver import Client, NodeDriver, consume, declare
from tests.node.one_slice import OneSlice
from tests.simulation.settings import USER

TO_DEAD = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}


def source_and_others(**arguments: object) -> tuple[NodeDriver, Client]:
    """The queue `source`, whose letters go to `dead`, and the queue `other`; one slice of work a turn."""
    driver = NodeDriver()
    driver.node.background.set_pace(OneSlice())
    client = driver.client(1)
    client.send(1, *[declare(name, durable=False) for name in ("dead", "other")])
    client.send(1, declare("source", durable=False, **TO_DEAD, **arguments))
    driver.settle()
    return driver, client


def test_who_waits_for_dead_letters_waits_until_they_are_fewer() -> None:
    """Each turn looks at the gate twice, and both times publishes have made too many."""
    driver, client = source_and_others(x_max_length=0)
    for _ in range(MOST_PUBLISHED + 1000):
        client.publish(1, "source", b"x", persistent=False)
    driver.turn()
    publisher = driver.client(1)
    publisher.publish(1, "other", b"late", persistent=False)
    letters = driver.node.broker.dead_letters
    assert letters.backlog >= MOST_PUBLISHED
    while letters.backlog >= MOST_PUBLISHED:
        assert driver.queue("other").message_count() == 0
        driver.turn()
    while driver.node.background.jobs:
        driver.turn()
    assert driver.queue("other").message_count() == 1
    assert not publisher.connection.is_paused
    assert letters.backlog == 0


def test_letters_that_no_publish_has_made_hold_back_no_publisher() -> None:
    """They were messages before, and their queue alone waits for them."""
    driver, client = source_and_others()
    client.send(1, consume("source"))
    for _ in range(MOST_NOTED + 4000):
        client.publish(1, "source", b"x", persistent=False)
    driver.turn()
    client.send(1, methods.BasicNack(0, True, False))
    driver.turn()
    while not driver.queue("source").letters.is_full:
        driver.turn()
    publisher = driver.client(1)
    publisher.publish(1, "other", b"at once", persistent=False)
    driver.turn()
    assert driver.queue("other").message_count() == 1
    assert not publisher.connection.is_paused


def test_letters_of_letters_hold_back_no_publisher() -> None:
    """Where rejected messages go is full: they push out others there."""
    driver, client = source_and_others()
    to_last: dict[str, object] = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "last"}
    client.send(1, declare("last", durable=False), methods.QueueDelete(0, "dead", False, False, False))
    client.send(1, declare("dead", durable=False, x_max_length=0, **to_last), consume("source"))
    for _ in range(500):
        client.publish(1, "source", b"x", persistent=False)
    driver.turn()
    client.send(1, methods.BasicNack(0, True, False))
    while driver.node.background.jobs:
        driver.turn()
        assert driver.node.broker.dead_letters.backlog == 0
    assert driver.queue("last").message_count() == 500


def test_letters_of_a_virtual_host_that_is_gone_go_to_no_other_one() -> None:
    """One that comes under the same name has nothing to do with it."""
    driver = NodeDriver()
    driver.node.background.set_pace(OneSlice())
    client = driver.client(1)
    client.send(1, declare("dead"), declare("source", **TO_DEAD), consume("source"))
    driver.settle()
    for _ in range(200):
        client.publish(1, "source", b"x")
    driver.settle()
    client.send(1, methods.BasicNack(0, True, False))
    driver.turn()
    source = driver.queue("source")
    assert source.letters.count > 0
    propose = driver.node.broker.propose
    propose(commands.delete_vhost("/"))
    propose(commands.put_vhost("/"))
    propose(commands.set_permission(USER, "/", ".*", ".*", ".*"))
    driver.settle()
    client = driver.client(1)
    client.send(1, declare("dead"))
    driver.settle()
    while driver.node.background.jobs:
        driver.turn()
    assert source.letters.count == 0
    assert driver.queue("dead").message_count() == 0
