"""All that relies on the oldest journal segment leaves it in slices: however many queues have something there, no turn
does much, and whatever happens between two slices, nothing is lost."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.queues import queue_world
from tests.queues.queue_world import Client, World, message_named
from tests.queues.test_large_releases import PLAIN
from tests.simulation.simulated_disk import SimulatedDisk

QUEUES = 40
NAMES = range(1, QUEUES + 1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Each of the queues has one message in segment 1, and the journal has what it may have."""
    monkeypatch.setattr(queue_world, "JOURNAL_SEGMENT_BYTES", 8000)
    monkeypatch.setattr(queue_world, "JOURNAL_LIMIT_BYTES", 16_000)
    made = World(SimulatedDisk(random.Random(7)), [PLAIN[0]] * (QUEUES + 1), budget_bytes=1_000_000)
    made.store.leave_slice = 5
    for name in NAMES:
        made.vhost.publish(message_named(name), [made.queues[name - 1]], made.now)
    made.sync()
    assert made.journal.current_segment == 1
    taker = made.queues[-1]
    taker.add_consumer(Client([], 1))  # what he holds was not there before: it lies in later segments
    while not made.store.leaving_segment:
        made.vhost.publish(message_named(0, 500), [taker], made.now)
        made.sync()
    return made


def restarted(world: World) -> World:
    """The power fails and comes back."""
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return World(world.disk, [PLAIN[0]] * (QUEUES + 1), world.now, budget_bytes=1_000_000)


def found(world: World) -> list[int]:
    """The names of what the queues had when they were restored, those of others left out."""
    return [name for queue_id in NAMES for _, name, _ in world.found[queue_id]]


def test_a_turn_writes_again_what_few_queues_have(world: World) -> None:
    turns, positions = 1, [world.journal.position]
    while world.store.leaving_segment:
        assert not world.store.retiring_segment
        world.end_turn()
        turns += 1
        positions.append(world.journal.position)
    assert turns >= QUEUES // 5
    grown = [after - before for before, after in pairwise(positions)]
    assert max(grown) <= 5 * 120
    assert world.store.retiring_segment == 1
    world.sync()
    assert world.journal.oldest_segment == 2
    assert found(restarted(world)) == list(NAMES)


@pytest.mark.parametrize("slices", range(QUEUES // 5 + 1))
def test_a_crash_between_two_slices_loses_nothing(world: World, slices: int) -> None:
    for _ in range(slices):
        world.end_turn()
    world.sync()
    assert found(restarted(world)) == list(NAMES)


@pytest.mark.parametrize("slices", range(QUEUES // 5 + 1))
def test_what_is_settled_between_two_slices_does_not_come_back(world: World, slices: int) -> None:
    for _ in range(slices):
        world.end_turn()
    for queue in world.queues[: QUEUES : 3]:
        entry = queue.get(world.now)
        assert entry is not None
        queue.forget(entry)
    left = [name for name in NAMES if (name - 1) % 3]
    while world.store.leaving_segment:
        world.end_turn()
    world.sync()
    assert world.journal.oldest_segment == 2
    assert found(restarted(world)) == left


def test_a_journal_that_grows_faster_is_left_at_once(world: World) -> None:
    limit = world.store.journal_limit_bytes
    world.vhost.publish(message_named(0, 2 * limit), [world.queues[-1]], world.now)
    world.sync()
    assert world.store.leaving_segment == 1
    world.end_turn()
    assert world.store.retiring_segment == 1
