"""All that relies on the oldest journal segment leaves it in slices: however many queues have something there, no turn
does much, and whatever happens between two slices, nothing is lost."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from queues.arguments import QueueArguments
from queues.last_letters import keep_last_letters
from tests.queues import queue_world
from tests.queues.queue_world import Client, World, message_named, name_of
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
    made.store.leave_slice, made.store.leave_bytes = 5, 65_536
    for name in NAMES:
        made.vhost.publish(message_named(name), [made.queues[name - 1]], made.now)
    made.sync()
    assert made.journal.current_segment == 1
    taker = made.queues[-1]
    taker.add_consumer(Client([], 1_000))  # what he holds was not there before: it lies in later segments
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


# -- one queue that has much ------------------------------------------------------------------------------------------

MESSAGES = 200
ALL = range(1, MESSAGES + 1)


def world_of_one(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Client]:
    """The first of two queues has many messages in segment 1; a consumer holds every other one. The second fills the
    journal."""
    monkeypatch.setattr(queue_world, "JOURNAL_SEGMENT_BYTES", 30_000)
    monkeypatch.setattr(queue_world, "JOURNAL_LIMIT_BYTES", 90_000)
    world = World(SimulatedDisk(random.Random(7)), [PLAIN[0]] * 2, budget_bytes=1_000_000)
    queue, other = world.queues
    holder = Client([], MESSAGES)
    for name in ALL:
        world.vhost.publish(message_named(name), [queue], world.now)
    world.sync()
    assert world.journal.current_segment == 1
    queue.add_consumer(holder)
    queue.dispatch(world.now)
    entries = [entry for _, entry, _, _ in holder.log if entry is not None]
    queue.remove_consumer(holder)
    queue.put_back(entries[1::2], world.now)
    holder.log = [each for each in holder.log if each[1] in entries[::2]]
    other.add_consumer(Client([], 1_000))  # who holds it all, in later segments
    while not world.store.leaving_segment:
        world.vhost.publish(message_named(0, 500), [other], world.now)
        world.sync()
    return world, holder


def restarted_with_one(world: World) -> list[int]:
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return [name for _, name, _ in World(world.disk, [PLAIN[0]] * 2, world.now, budget_bytes=1_000_000).found[1]]


def test_a_queue_that_has_much_leaves_a_segment_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = world_of_one(monkeypatch)
    turns, positions = 0, [world.journal.position]
    while world.store.leaving_segment:
        assert not world.store.retiring_segment
        world.end_turn()
        turns += 1
        positions.append(world.journal.position)
    assert turns >= 10
    last = 2 * queue_world.HEAD_BYTES  # at most: a head that is not long, and the list of pages
    assert max(after - before for before, after in pairwise(positions)) <= last < 120 * MESSAGES / 5
    world.sync()
    assert world.journal.oldest_segment == 2
    assert restarted_with_one(world) == list(ALL)


@pytest.mark.parametrize("slices", range(0, 30, 3))
def test_a_crash_while_a_queue_leaves_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
    world, _ = world_of_one(monkeypatch)
    for _ in range(slices):
        world.end_turn()
    world.sync()
    assert restarted_with_one(world) == list(ALL)


@pytest.mark.parametrize("slices", range(0, 30, 3))
def test_what_happens_while_a_queue_leaves_counts(monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
    """Some of what is held is acknowledged, some comes back, some that was ready is taken and held, some is paged out
    and unpacked again; the journal has each of those that are left once it has no old segment."""
    world, holder = world_of_one(monkeypatch)
    queue = world.queues[0]
    for _ in range(slices):
        world.end_turn()
    held = [entry for _, entry, _, _ in holder.log if entry is not None]
    acked, back = held[::3], held[1::3]
    for entry in acked:
        queue.ack(entry)
    queue.put_back(back, world.now)
    world.end_turn()
    queue.ready.page_out(1_000_000, keeps_head=False)
    taken = Client([], 12)
    queue.add_consumer(taken)
    queue.dispatch(world.now)
    queue.remove_consumer(taken)
    assert len(taken.log) == 12
    gone = {name_of(entry.message) for entry in acked}
    while world.store.leaving_segment:
        world.end_turn()
    world.sync()
    assert world.journal.oldest_segment >= 2
    assert restarted_with_one(world) == [name for name in ALL if name not in gone]


def test_what_a_queue_delivers_while_it_leaves_is_not_written_again_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is mostly acknowledged in the next turn: a queue that is drained would write again as much as it delivers."""
    monkeypatch.setattr(queue_world, "JOURNAL_SEGMENT_BYTES", 60_000)
    monkeypatch.setattr(queue_world, "JOURNAL_LIMIT_BYTES", 240_000)
    sizes = {"PAGE_BYTES": 4000, "PAGE_SEGMENT_BYTES": 60_000, "HEAD_BYTES": 1000, "HEAD_MESSAGES": 10_000}
    for name, value in sizes.items():
        monkeypatch.setattr(queue_world, name, value)
    world = World(SimulatedDisk(random.Random(7)), [PLAIN[0]], budget_bytes=100_000_000)
    world.store.leave_bytes = 1000
    queue = world.queues[0]
    published = 0
    while published < 3000 or not world.store.leaving_segment:
        for _ in range(100):
            published += 1
            world.vhost.publish(message_named(published, 100), [queue], world.now)
        world.sync()
    position, stored = world.journal.position, world.pager.pages_stored
    pages = len(queue.ready.pages or ())
    consumer = Client([], 50)
    queue.add_consumer(consumer)
    left, delivered = [], 0
    while queue.ready.count:
        queue.dispatch(world.now)
        taken = [entry for _, entry, _, _ in consumer.log]
        consumer.log.clear()
        for entry in left:
            queue.ack(entry)
        consumer.unsettled = 0
        if not consumer.is_waiting:
            queue.credit_returned(consumer)
        left, delivered = taken, delivered + len(taken)
        world.end_turn()
        world.sync()
    assert delivered == published
    assert world.journal.position - position < delivered * 100 // 4
    assert world.pager.pages_stored - stored <= pages


def test_a_refusal_after_the_deletion_does_not_keep_the_last_letters_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_world, "JOURNAL_SEGMENT_BYTES", 3000)
    monkeypatch.setattr(queue_world, "JOURNAL_LIMIT_BYTES", 8000)
    world = World(SimulatedDisk(random.Random(7)), [QueueArguments(dead_letter_exchange="d"), PLAIN[0]])
    queue, other = world.queues
    monkeypatch.setattr(world, "post", lambda *_: -1)  # its letters are under way
    for name in range(20):
        world.vhost.publish(message_named(name, 50), [queue], world.now)
    consumer = Client([], 20)
    queue.add_consumer(consumer)
    queue.dispatch(world.now)
    entries = [entry for _, entry, _, _ in consumer.log]
    for entry in entries[:10]:
        queue.reject(entry, world.now)
    world.sync()
    queue.delete()
    assert keep_last_letters(queue, "/")
    queue.reject(entries[15], world.now)
    world.sync()
    other.add_consumer(Client([], 1_000_000))
    first = queue.last_letters.segment
    for name in range(200):
        world.vhost.publish(message_named(1000 + name, 100), [other], world.now)
        world.sync()
    assert queue.last_letters.segment > first
    assert world.journal.oldest_segment > first
