"""Who gets a message that is published now: nobody, while others wait before it, however they came to wait."""

from __future__ import annotations

import random
from typing import Any

from queues.arguments import QueueArguments
from tests.queues.queue_world import Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk


def publish(queue: Any, name: int) -> None:
    queue.enqueue(message_named(name, is_persistent=False), 0, 0, queue.taker(), 1)


def test_what_was_put_back_comes_before_what_is_published() -> None:
    queue: Any = World(SimulatedDisk(random.Random(1)), [QueueArguments()]).queues[0]
    log: list[Any] = []
    client = Client(log, 5)
    queue.add_consumer(client)
    publish(queue, 1)
    assert queue.taker() is client
    client.unsettled -= 1
    queue.put_back([log[0][1]], 1)
    assert queue.taker() is None, "it waits, and nobody has called dispatch"
    publish(queue, 2)
    queue.dispatch(1)
    assert [name_of(message) for _, _, message, _ in log] == [1, 1, 2]
    assert queue.taker() is client


def test_the_only_consumer_is_asked_as_long_as_it_is_the_only_one() -> None:
    queue: Any = World(SimulatedDisk(random.Random(1)), [QueueArguments()]).queues[0]
    log: list[Any] = []
    first, second = Client(log, 9), Client(log, 9)
    queue.add_consumer(first)
    publish(queue, 1)
    queue.add_consumer(second)
    for name in (2, 3):
        publish(queue, name)
    queue.remove_consumer(first)
    publish(queue, 4)
    second.is_paused = True
    publish(queue, 5)
    second.is_paused = False
    assert queue.taker() is None, "a message waits for it"
    queue.credit_returned(second)
    queue.dispatch(1)
    publish(queue, 6)
    queue.remove_consumer(second)
    publish(queue, 7)
    takers = [(name_of(message), client) for client, _, message, _ in log]
    assert {name for name, client in takers if client is first} | {2, 3} == {1, 2, 3}
    assert [name for name, _ in takers] == [1, 2, 3, 4, 5, 6]
    assert {client for name, client in takers if name in (2, 3)} == {first, second}, "they take turns"
    assert queue.message_count() == 1
