"""Very many consumers are free at once, and very many messages are ready: others have their turns, too."""

from __future__ import annotations

import random
from typing import Any

from queues.arguments import QueueArguments
from tests.queues.queue_world import Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk

MESSAGES = 3000
CONSUMERS = 100
#: What one step, or one slice, hands out at most: some 100 microseconds of work.
SHARE = 300


class OneSlice:
    """A pace of one slice a turn."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        return False


def crowded() -> tuple[World, Any, list[Any], list[Client]]:
    """A queue, with messages, and consumers who are all busy; the log of deliveries."""
    world = World(SimulatedDisk(random.Random(1)), [QueueArguments()], budget_bytes=100_000_000)
    world.background.set_pace(OneSlice())
    queue: Any = world.queues[0]
    log: list[Any] = []
    clients = [Client(log, MESSAGES) for _ in range(CONSUMERS)]
    for client in clients:
        client.is_paused = True
        queue.add_consumer(client)
    for name in range(MESSAGES):
        world.vhost.publish(message_named(name), [queue], world.now)
    return world, queue, log, clients


def free(queue: Any, clients: list[Client]) -> None:
    for client in clients:
        client.is_paused = False
        queue.credit_returned(client)


def test_they_are_served_in_slices_and_in_order() -> None:
    world, queue, log, clients = crowded()
    free(queue, clients)
    queue.dispatch(world.now)
    assert 0 < len(log) <= SHARE
    turns = 0
    while queue.ready.count:
        before = len(log)
        world.work()
        assert 0 < len(log) - before <= SHARE
        turns += 1
    assert turns > 5
    assert [name_of(message) for _, _, message, _ in log] == [*range(MESSAGES)]
    assert {client for client, _, _, _ in log[:SHARE]} == set(clients)
    world.work()
    assert not world.background.jobs, "nothing is left to do"


def test_what_is_published_meanwhile_stands_behind() -> None:
    world, queue, log, clients = crowded()
    free(queue, clients)
    queue.dispatch(world.now)
    world.vhost.publish(message_named(MESSAGES), [queue], world.now)
    while queue.ready.count:
        world.work()
    assert [name_of(message) for _, _, message, _ in log] == [*range(MESSAGES + 1)]


def test_it_ends_when_nobody_is_free_any_more() -> None:
    world, queue, log, clients = crowded()
    free(queue, clients)
    queue.dispatch(world.now)
    for client in clients:
        client.is_paused = True
    before = len(log)
    for _ in range(3):
        world.work()
    assert len(log) == before
    assert not world.background.jobs
    free(queue, clients)
    queue.dispatch(world.now)
    assert len(log) > before


def test_it_ends_with_the_queue() -> None:
    world, queue, log, clients = crowded()
    free(queue, clients)
    queue.dispatch(world.now)
    before = len(log)
    queue.delete()
    for _ in range(3):
        world.work()
    assert len(log) == before
    assert not world.background.jobs


def test_a_few_are_served_at_once() -> None:
    world, queue, log, clients = crowded()
    for _ in range(MESSAGES - 20):
        entry = queue.get(world.now)
        queue.forget(entry)
    free(queue, clients)
    queue.dispatch(world.now)
    assert len(log) == 20
    assert not world.background.jobs
