"""Recovery: what the journal's entries come to, and what is left of queues after one restart and after several."""

from __future__ import annotations

import random

import pytest

from queues.arguments import QueueArguments
from queues.recovery import Recovery
from queues.store import ENQUEUE, LETTERS, PAGES, RELEASED, SETTLE
from tests.queues.queue_world import (
    BUDGET_BYTES,
    JOURNAL_LIMIT_BYTES,
    Client,
    World,
    message_named,
    name_of,
)
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import live_bytes

PLAIN = [QueueArguments(), QueueArguments()]


def new_disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(7))


def publish(world: World, names: range, *places: int, is_persistent: bool = True) -> None:
    queues = [world.queues[place] for place in places or (0,)]
    for name in names:
        world.vhost.publish(message_named(name, 60, is_persistent), queues, world.now)


def take(world: World, count: int, place: int = 0) -> list[int]:
    """Get and settle."""
    names = []
    for _ in range(count):
        entry = world.queues[place].get(world.now)
        assert entry is not None
        world.queues[place].forget(entry)
        names.append(name_of(entry.message))
    return names


def restarted(world: World, settings: list[QueueArguments] | None = None) -> World:
    """The power fails and comes back."""
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return World(world.disk, settings or PLAIN, world.now)


def names(world: World, place: int = 0) -> list[int]:
    return [name for _, name, _ in world.found[place + 1]]


def fill_segment(world: World) -> None:
    """Journal traffic that leaves nothing behind, until the oldest segments are gone."""
    first = world.journal.oldest_segment
    while world.journal.oldest_segment <= first:
        publish(world, range(1000, 1004), 1)
        take(world, 4, 1)
        world.sync()


def test_published_settled_and_unsynced() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 11))
    assert take(world, 3) == [1, 2, 3]
    world.sync()
    publish(world, range(11, 20))
    assert take(world, 2) == [4, 5]
    world.end_turn()
    again = restarted(world)
    assert names(again) == [4, 5, 6, 7, 8, 9, 10]
    assert again.queues[0].next_sequence == 11


def test_one_message_in_two_queues() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 4), 0, 1)
    take(world, 2, 1)
    world.sync()
    again = restarted(world)
    assert (names(again, 0), names(again, 1)) == ([1, 2, 3], [3])


def test_transient_messages_are_gone() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 30), is_persistent=False)
    publish(world, range(30, 33))
    world.sync()
    assert names(restarted(world)) == [30, 31, 32]


def test_what_is_held_comes_back_in_its_place() -> None:
    world = World(new_disk(), PLAIN)
    client = Client([], 2)
    world.queues[0].add_consumer(client)
    publish(world, range(1, 6))
    world.sync()
    assert names(restarted(world)) == [1, 2, 3, 4, 5]


def test_pages_survive_retired_segments_and_several_restarts() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 101))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    assert world.pager.pages_stored > 5
    for _ in range(4):
        world = restarted(world)
        assert names(world) == list(range(1, 101))
        # The entry that names the pages was written in an earlier life: its segment must not go without them.
        fill_segment(world)
    assert take(world, 100) == list(range(1, 101))


def test_a_list_of_pages_is_durable_after_them_though_no_segment_is_retired() -> None:
    """One queue's pages are stored and listed; the next queue's find no room, and the old segment has to stay."""
    world = World(new_disk(), PLAIN, budget_bytes=1_000_000)
    assert isinstance(world.disk, SimulatedDisk)
    world.store.leave_slice, world.store.leave_bytes = 2, 65_536
    world.store.journal_limit_bytes = 1 << 40
    for first in range(1, 31, 10):
        publish(world, range(first, first + 10), 0)
        publish(world, range(first, first + 10), 1)
        world.sync()
    assert live_bytes(world.page_store, 1) == 0
    world.store.journal_limit_bytes = JOURNAL_LIMIT_BYTES
    capacity = world.disk.capacity
    world.disk.capacity -= world.disk.free_bytes() - 2000  # room for one queue's pages
    world.end_turn()
    world.disk.capacity = capacity
    assert world.pager.has_no_room
    assert world.store.retiring_segment == 0
    assert world.queues[1].ready.stored_pages()[0].is_named  # who came last leaves first
    world.sync()
    assert [path for path in world.disk.unsynced() if path.startswith("queues/2/")] == []
    again = restarted(world)
    assert names(again, 0) == names(again, 1) == list(range(1, 31))


def test_pages_without_any_single_message_survive_more_restarts() -> None:
    """Nothing but the entry that names its pages ties the queue to a segment of the journal."""
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 101))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    taken = 0
    while world.queues[0].ready.head:
        taken += len(take(world, 1))
    world.sync()
    for _ in range(3):
        for _ in range(8):
            fill_segment(world)
        world = restarted(world)
        assert names(world) == list(range(taken + 1, 101))


def test_the_rest_of_a_page_survives_more_restarts() -> None:
    """Part of a page is settled; the rest stands behind a full head, is paged again, and is settled later."""
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 101))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    assert take(world, 50) == list(range(1, 51))
    world.sync()
    for first in (51, 56, 61):
        world = restarted(world)
        assert names(world) == list(range(first, 101))
        world.sync()
        fill_segment(world)
        assert take(world, 5) == list(range(first, first + 5))
        world.sync()
    assert names(restarted(world)) == list(range(66, 101))


def test_a_page_that_is_gone_is_not_looked_for() -> None:
    """Its file is deleted once its settlements are synced, though an older entry of the journal still names it."""
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 60))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    assert world.disk.list("queues/1")
    take(world, 59)
    for _ in range(2):
        world.sync()
    assert world.disk.list("queues/1") == []
    assert names(restarted(world)) == []


def test_pages_of_transient_and_persistent_messages_mixed() -> None:
    world = World(new_disk(), PLAIN)
    for name in range(1, 61):
        publish(world, range(name, name + 1), is_persistent=name % 2 == 0)
    for _ in range(4):
        world.sync()
        fill_segment(world)
    world = restarted(world)
    assert names(world) == list(range(2, 61, 2))
    assert world.queues[0].ready.count == 30
    assert take(world, 30) == list(range(2, 61, 2))
    for _ in range(2):
        world.sync()
    assert world.disk.list("queues/1") == []
    assert names(restarted(world)) == []


def test_priorities_are_found_again() -> None:
    settings = [QueueArguments(max_priority=5), QueueArguments()]
    world = World(new_disk(), settings)
    for name in range(1, 91):
        world.vhost.publish(message_named(name, 60, priority=name % 3), [world.queues[0]], world.now)
    for _ in range(4):
        world.sync()
        fill_segment(world)
    world = restarted(world, settings)
    expected = [*range(2, 91, 3), *range(1, 91, 3), *range(3, 91, 3)]
    assert take(world, 40) == expected[:40]
    world.sync()
    world = restarted(world, settings)
    assert take(world, 50) == expected[40:]
    for _ in range(2):
        world.sync()
    assert names(restarted(world, settings)) == []


def test_a_purge_reaches_the_disk() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 100))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    assert world.queues[0].purge() == 99
    publish(world, range(100, 103))
    world.sync()
    assert names(restarted(world)) == [100, 101, 102]


def test_returns_are_remembered_where_there_is_a_limit() -> None:
    settings = [QueueArguments(delivery_limit=5), QueueArguments()]
    world = World(new_disk(), settings)
    log: list[object] = []
    client = Client(log, 1)  # type: ignore[arg-type]
    world.queues[0].add_consumer(client)
    publish(world, range(1, 2))
    for _ in range(3):
        entry = log[-1][1]  # type: ignore[index]
        client.unsettled -= 1
        world.queues[0].put_back([entry], world.now)
        world.queues[0].credit_returned(client)
        world.dispatch()
    world.sync()
    again = restarted(world, settings)
    assert again.found[1] == [(1, 1, 3)]
    entry = again.queues[0].get(again.now)
    assert entry is not None
    assert entry.is_redelivered


def test_returns_of_messages_in_stored_pages_are_remembered() -> None:
    """The journal tells of them, and the page that it names does not: several restarts and retired segments later the
    count is still right, and the limit ends it.
    """
    settings = [QueueArguments(delivery_limit=5), QueueArguments()]
    world = World(new_disk(), settings)
    publish(world, range(1, 101))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    while world.queues[0].ready.head:
        take(world, 1)
    first = world.queues[0].ready.pages[0].first
    for returns in range(1, 6):
        _return_first(world)
        world.sync()
        world = restarted(world, settings)
        assert world.found[1][0][1:] == (first, returns)
        assert {count for _, _, count in world.found[1][1:]} == {0}
        entry = world.queues[0].ready.peek()
        assert entry is not None
        assert entry.is_redelivered
        fill_segment(world)


def test_a_delivery_limit_holds_across_restarts() -> None:
    settings = [QueueArguments(delivery_limit=2), QueueArguments()]
    world = World(new_disk(), settings)
    publish(world, range(1, 101))
    for _ in range(4):
        world.sync()
        fill_segment(world)
    while world.queues[0].ready.head:
        take(world, 1)
    first = world.queues[0].ready.pages[0].first
    for _ in range(2):
        _return_first(world)
        world.sync()
        world = restarted(world, settings)
        assert names(world)[0] == first
    _return_first(world)
    world.sync()
    assert names(restarted(world, settings))[0] == first + 1


def _return_first(world: World) -> None:
    """The first message is delivered and comes back."""
    queue = world.queues[0]
    entry = queue.get(world.now)
    assert entry is not None
    queue.take_held(entry, Client([], 1))
    queue.put_back([entry], world.now)


def test_what_belongs_to_queues_that_are_gone_is_forgotten() -> None:
    world = World(new_disk(), PLAIN)
    publish(world, range(1, 100), 1)
    publish(world, range(1, 4), 0)
    world.sync()
    assert isinstance(world.disk, SimulatedDisk)
    again = World(world.disk, [QueueArguments()])
    assert names(again) == [1, 2, 3]
    assert again.disk.list("queues") in ([], ["1"])


@pytest.mark.parametrize("is_late", [False, True], ids=["posted before", "posted after"])
def test_what_was_dead_lettered_before_a_deletion_does_not_come_back_with_it(is_late: bool) -> None:
    """The dead letter is in the journal, and so is the settlement, though a crash may undo the deletion."""
    settings = [QueueArguments(max_length=3, dead_letter_exchange="dead"), QueueArguments()]
    world = World(new_disk(), settings)
    publish(world, range(1, 4))
    world.sync()
    publish(world, range(4, 6))
    if not is_late:
        world.work()
    world.queues[0].delete()
    world.sync()
    assert [name_of(message) for _, message, _ in world.dead_letters] == [1, 2]
    assert names(restarted(world, settings)) == [3, 4, 5]


def test_a_deleted_queue_gives_everything_back() -> None:
    world = World(new_disk(), PLAIN)
    client = Client([], 10)
    queue = world.queues[0]
    queue.add_consumer(client)
    publish(world, range(1, 200))
    for _ in range(3):
        world.sync()
    held = [entry for _, entry, _, _ in client.log if entry is not None]
    assert queue.delete() == 189
    assert client.is_gone
    world.page_store.drop_queue(1)
    queue.put_back(held[:5], world.now)
    for entry in held[5:]:
        queue.ack(entry)
    for _ in range(3):
        world.sync()
    assert world.pager.used == 0
    assert world.disk.list("queues") in ([], ["2"])


@pytest.mark.parametrize("kind", [0, 11, 255])
def test_an_unknown_kind_is_named(kind: int) -> None:
    recovery = Recovery(World(new_disk(), PLAIN).pager)
    with pytest.raises(ValueError, match=f"unknown kind {kind}"):
        recovery.take(1, kind, b"")


def test_a_list_of_dead_letters_that_cannot_be_read_is_noticed() -> None:
    recovery = Recovery(World(new_disk(), PLAIN).pager)
    for payload in (b"", b"\x01" + bytes(20), b"\x02" + bytes(29), b"\x01" + bytes(28) + b"\x01"):
        with pytest.raises(ValueError, match="dead letters"):
            recovery.take(1, LETTERS, payload)


def test_an_entry_that_is_cut_is_noticed() -> None:
    recovery = Recovery(World(new_disk(), PLAIN, budget_bytes=BUDGET_BYTES).pager)
    with pytest.raises(ValueError, match="octets"):
        recovery.take(1, ENQUEUE, (3).to_bytes(4, "big") + bytes(30))


def test_released_pages_are_forgotten_one_by_one() -> None:
    recovery = Recovery(World(new_disk(), PLAIN).pager)
    queue_id, segment = (1).to_bytes(8, "big"), (2).to_bytes(4, "big")
    page = segment + bytes(8) + (50).to_bytes(4, "big") + (1).to_bytes(8, "big") + (4).to_bytes(8, "big")
    page += (4).to_bytes(4, "big") + (40).to_bytes(8, "big")
    other = (
        segment + (74).to_bytes(8, "big") + page[12:16] + (5).to_bytes(8, "big") + (8).to_bytes(8, "big") + page[32:]
    )
    recovery.take(1, PAGES, queue_id + (9).to_bytes(8, "big") + (2).to_bytes(4, "big") + page + other)
    recovery.take(1, SETTLE, queue_id + (1).to_bytes(4, "big") + (1).to_bytes(8, "big") + (4).to_bytes(8, "big"))
    recovery.take(1, RELEASED, (1).to_bytes(4, "big") + queue_id + segment + bytes(8))
    found = recovery.queue(1)
    assert [(each.first, each.last) for each in found.pages.values()] == [(5, 8)]
    assert found.next_sequence == 9


def test_a_limit_holds_for_what_comes_back_with_a_restart() -> None:
    """What consumers hold is beyond the limit; at a restart it is ready again."""
    limited = [QueueArguments(max_length=2), QueueArguments()]
    world = World(new_disk(), limited)
    world.queues[0].add_consumer(Client([], 10))
    publish(world, range(1, 6))
    world.dispatch()
    assert world.queues[0].unacked == 5
    world.sync()
    again = restarted(world, limited)
    again.work()
    assert again.queues[0].ready.count == 2
