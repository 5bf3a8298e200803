"""Which queue makes most of a node's work: what it takes and gives out between two looks, not before."""

from __future__ import annotations

from amqp_broker.management.busiest_queue import BusiestQueue, find_busiest
from amqp_broker.protocol import methods
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Task
from tests.node.node_driver import NodeDriver


def a_node_with_queues(count: int) -> tuple[NodeDriver, list[str]]:
    driver = NodeDriver()
    names = [f"q{number}" for number in range(count)]
    client = driver.client(1)
    client.send(1, *[methods.QueueDeclare(queue=name) for name in names])
    driver.settle()
    return driver, names


def begin(driver: NodeDriver) -> tuple[Task, Completion[None]]:
    pause: Completion[None] = Completion()
    task = Task(driver.node.background, find_busiest(driver.node.broker.vhosts.values(), pause))
    driver.settle()
    assert not task.is_done
    return task, pause


def test_it_is_the_one_that_has_moved_most_meanwhile() -> None:
    driver, names = a_node_with_queues(200)
    client = driver.client(1)
    for _ in range(50):
        client.publish(1, names[3], b"before", persistent=False)
    task, pause = begin(driver)
    for name, messages in ((names[3], 1), (names[150], 6), (names[199], 2)):
        for _ in range(messages):
            client.publish(1, name, b"meanwhile", persistent=False)
    client.send(1, methods.BasicConsume(queue=names[199], no_ack=True))  # two more go out
    driver.settle()
    pause.complete(None)
    driver.settle()
    assert task.result == BusiestQueue("/", names[150], 6, 11)


def test_one_that_is_deleted_meanwhile_counts_no_more() -> None:
    driver, names = a_node_with_queues(2)
    client = driver.client(1)
    task, pause = begin(driver)
    client.publish(1, names[0], b"meanwhile", persistent=False)
    client.send(1, methods.QueueDelete(queue=names[0]))
    driver.settle()
    pause.complete(None)
    driver.settle()
    assert task.is_done
    assert task.result is None
