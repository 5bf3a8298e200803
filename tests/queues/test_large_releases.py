"""Lease groups that are large: what they hold comes back a little at a time, and in RAM no more than a head of it."""

from __future__ import annotations

import random

import pytest

from queues import journaled_leases
from queues.arguments import QueueArguments
from queues.journaled_leases import leases_of
from queues.leases import LeaseGroup
from tests.queues.lease_life import claim, groups_by_name, open_lease, ready_names, release
from tests.queues.queue_world import World, message_named
from tests.simulation.simulated_disk import SimulatedDisk

PLAIN = [QueueArguments()]


def new_world() -> World:
    return World(SimulatedDisk(random.Random(7)), PLAIN, budget_bytes=1_000_000)


def restarted(world: World) -> World:
    """The power fails and comes back."""
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return World(world.disk, PLAIN, world.now)


def publish(world: World, names: range) -> None:
    for name in names:
        world.vhost.publish(message_named(name, 60), world.queues[:1], world.now)


def open_group(world: World) -> LeaseGroup:
    return open_lease(world.queues[0], "job", "driver", f"{7:032x}", world.now)


def test_a_large_release_does_not_unpack_all_that_comes_back() -> None:
    """Memory is not short, but an unpacked message takes more of it than it is counted for."""
    world = new_world()
    publish(world, range(1, 1001))
    group = open_group(world)
    claim(group, 1000, 1 << 30, 1)
    world.sync()
    release(group, world.now)
    ready, pager = world.queues[0].ready, world.pager
    assert pager.used < pager.tight_bytes
    assert ready.head_size <= pager.head_bytes + 5 * pager.page_bytes < 1000 * message_named(1, 60).size
    world.sync()
    assert ready_names(world, world.queues[0]) == list(range(1, 1001))
    world = restarted(world)
    assert ready_names(world, world.queues[0]) == list(range(1, 1001))


def test_a_large_release_goes_on_in_turns_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journaled_leases, "_RELEASE_BYTES", 1000)
    world = new_world()
    publish(world, range(1, 61))
    group = open_group(world)
    claim(group, 60, 1 << 30, 1)
    assert release(group, world.now) == 60
    queue = world.queues[0]
    assert 0 < group.count < 60
    assert queue.leased_count() == group.count
    assert ready_names(world, queue) == list(range(group.count + 1, 61))
    other = open_lease(queue, "job", "driver", f"{8:032x}", 1)
    assert other is not group
    world.sync()
    world = restarted(world)
    queue = world.queues[0]
    assert groups_by_name(queue)["job"].incarnation == f"{8:032x}"
    for _ in range(60):
        world.advance(1)
    assert leases_of(queue).parting == []
    assert ready_names(world, queue) == list(range(1, 61))
