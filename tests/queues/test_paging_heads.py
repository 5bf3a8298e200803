"""What came back to a queue's head is paged like everything else: budget, order, counts of returns, restarts."""

from __future__ import annotations

import random

import pytest

from queues.arguments import QueueArguments
from queues.message import Entry
from tests.queues.queue_world import BUDGET_BYTES, HEAD_BYTES, PAGE_BYTES, Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk

SETTINGS = [QueueArguments(delivery_limit=9), QueueArguments()]
COUNT = 300
#: A head that is longer is packed.
LONG_HEAD_BYTES = HEAD_BYTES + 4 * PAGE_BYTES


def world_with(count: int = COUNT, is_persistent: bool = True) -> World:
    world = World(SimulatedDisk(random.Random(3)), SETTINGS)
    for name in range(1, count + 1):
        world.vhost.publish(message_named(name, 60, is_persistent), [world.queues[0]], world.now)
    world.sync()
    return world


def take_all(world: World) -> list[Entry]:
    """A consumer without a limit holds everything."""
    queue = world.queues[0]
    client = Client([], 1 << 30)
    queue.add_consumer(client)
    queue.dispatch(world.now)
    world.work()
    queue.remove_consumer(client)
    return [entry for _, entry, _, _ in client.log if entry is not None]


def turns(world: World, count: int = 10) -> None:
    for _ in range(count):
        world.sync()


def restarted(world: World) -> World:
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return World(world.disk, SETTINGS, world.now)


def drain(world: World) -> list[tuple[int, int, bool]]:
    """(name, returns, redelivered) of everything, in order; it is gone then."""
    found = []
    while (entry := world.queues[0].get(world.now)) is not None:
        found.append((name_of(entry.message), entry.returns, entry.is_redelivered))
        world.queues[0].forget(entry)
    return found


@pytest.mark.parametrize("is_persistent", [True, False])
def test_a_consumer_that_held_everything_leaves(is_persistent: bool) -> None:
    world = world_with(is_persistent=is_persistent)
    held = take_all(world)
    assert len(held) == COUNT
    assert world.pager.used > 4 * BUDGET_BYTES
    world.queues[0].put_back(held, world.now)
    turns(world)
    assert world.pager.used <= max(world.pager.tight_bytes, LONG_HEAD_BYTES)
    assert drain(world) == [(name, 1, True) for name in range(1, COUNT + 1)]
    turns(world)
    assert world.pager.used == 0
    assert world.disk.list("queues/1") == []


@pytest.mark.parametrize("syncs", [0, 1, 10])
def test_a_restart_finds_what_was_packed_again(syncs: int) -> None:
    """Whatever of it was stored, named or neither at the crash; returns are counted."""
    world = world_with()
    for returns in range(1, 4):
        world.queues[0].put_back(take_all(world), world.now)
        world.end_turn()
        turns(world, 1)
        turns(world, syncs)
        assert len(world.found[1]) in (0, COUNT)
        world = restarted(world)
        assert world.found[1] == [(name, name, returns) for name in range(1, COUNT + 1)]
    for first in range(1000, 1100):
        world.vhost.publish(message_named(first, 60), [world.queues[1]], world.now)
        world.queues[1].purge()
        world.sync()
    world = restarted(world)
    assert drain(world) == [(name, 3, True) for name in range(1, COUNT + 1)]
    turns(world)
    assert world.disk.list("queues/1") == []


@pytest.mark.parametrize("seed", range(10))
def test_stragglers_find_their_places(seed: int) -> None:
    """Two consumers held every message by turns: one leaves, and what the other gives back belongs in between."""
    chance = random.Random(seed)
    world = world_with()
    held = take_all(world)
    chance.shuffle(held)
    while held:
        count = chance.choice([1, 1, 5, 60, 200])
        world.queues[0].put_back(held[:count], world.now)
        del held[:count]
        if chance.random() < 0.5:
            turns(world, chance.randint(1, 4))
        if chance.random() < 0.2:
            world.queues[0].ready.page_out(1 << 30, keeps_head=False)
    turns(world, 60)
    assert world.pager.used <= 2 * LONG_HEAD_BYTES
    if seed % 2:
        world = restarted(world)
    assert drain(world) == [(name, 1, True) for name in range(1, COUNT + 1)]
    turns(world)
    assert world.disk.list("queues/1") == []


def test_a_purge_spares_what_is_held_in_between() -> None:
    """A page that was packed again has gaps: the messages of these are somebody's."""
    world = world_with()
    held = take_all(world)
    world.queues[0].put_back(held[::2], world.now)
    turns(world)
    assert world.queues[0].purge() == COUNT // 2
    turns(world)
    assert [name for _, name, _ in restarted(world).found[1]] == list(range(2, COUNT + 1, 2))


def test_a_full_disk_keeps_what_cannot_be_packed() -> None:
    world = world_with()
    assert isinstance(world.disk, SimulatedDisk)
    held = take_all(world)
    world.queues[0].put_back(held, world.now)
    world.disk.capacity = 0
    world.end_turn()
    world.end_turn()
    assert world.pager.has_no_room
    world.disk.capacity = 1 << 40
    world.pager.has_no_room = False
    turns(world)
    assert drain(world) == [(name, 1, True) for name in range(1, COUNT + 1)]
