"""Claims of whole pages: what a page says for all its messages goes with it, and nothing else does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from queues.arguments import QueueArguments
from queues.journaled_leases import leases_of
from queues.leases import LeaseGroup
from queues.page import Page
from queues.pager import Pager
from queues.recovery import Recovery
from queues.store import MOVED, MOVED_PAGE
from storage.page_store import PageStore
from tests.queues.lease_life import ack, claim, entries_of, groups_by_name, names_in, open_lease, ready_names, release
from tests.queues.queue_world import Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk

PLAIN = [QueueArguments(), QueueArguments()]
ALL = 1 << 30


def new_world(budget_bytes: int = 1_000_000, settings: list[QueueArguments] | None = None) -> World:
    return World(SimulatedDisk(random.Random(7)), settings or PLAIN, budget_bytes=budget_bytes)


def restarted(world: World) -> World:
    assert isinstance(world.disk, SimulatedDisk)
    world.sync()
    world.disk.crash()
    return World(world.disk, PLAIN, world.now)


def publish(world: World, names: range, **facts: int) -> None:
    for name in names:
        world.vhost.publish(message_named(name, 60, **facts), world.queues[:1], world.now)  # type: ignore[arg-type]


def claimed(world: World, most: int) -> LeaseGroup:
    """A new group, which has claimed so many."""
    group = open_lease(world.queues[0], "job", "driver", f"{7:032x}", world.now)
    assert claim(group, most, ALL, world.now) == most
    return group


def entries_written(world: World, kind: int) -> list[bytes]:
    world.sync()
    return [payload for _, each, payload in world.disk_entries() if each == kind]


def test_pages_in_ram_move_without_a_word_of_their_messages() -> None:
    world = new_world()
    publish(world, range(1, 41))
    pages = list(world.queues[0].ready.pages)
    assert len(pages) > 3
    group = claimed(world, 40)
    assert group.pages[1 : 1 + len(pages)] == pages  # behind the head, and before the open page
    assert world.queues[0].message_count() == world.queues[0].ready.message_bytes == 0
    assert world.queues[0].delivered == 40
    written = entries_written(world, MOVED_PAGE)
    assert len(written) == len(pages)
    assert all(len(each) == 28 + 12 for each in written)
    assert names_in(group) == list(range(1, 41))
    assert names_in(groups_by_name(restarted(world).queues[0])["job"]) == list(range(1, 41))


def test_stored_pages_are_stored_again_and_give_up_their_place() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 41))
    world.sync()
    assert world.queues[0].ready.stored_pages()
    group = claimed(world, 40)
    assert not world.queues[0].ready.stored_pages()
    written = entries_written(world, MOVED_PAGE)
    places = [each for each in written if len(each) == 28 + 12 + 24]
    assert len(places) > 1
    assert len([page for page in group.stored_pages() if page.is_named]) >= len(places)
    assert names_in(group) == list(range(1, 41))
    world.sync()
    assert not [path for path in world.disk.files() if path.startswith("queues/1/")]
    assert release(group, world.now) == 40
    while leases_of(world.queues[0]).parting:
        world.sync()
        world.advance(1)
    world = restarted(world)
    assert ready_names(world, world.queues[0]) == list(range(1, 41))
    first = world.queues[0].get(world.now)
    assert first is not None
    assert (first.returns, first.is_redelivered) == (1, True)


def other_traffic(world: World, until: Callable[[], bool]) -> None:
    """The other queue fills the journal, and keeps nothing."""
    while not until():
        world.vhost.publish(message_named(1000, 60), world.queues[1:], world.now)
        entry = world.queues[1].get(world.now)
        assert entry is not None
        world.queues[1].forget(entry)
        world.sync()


def next_segment(world: World) -> int:
    """Goes on in another segment of the journal, which is returned."""
    segment = world.journal.current_segment
    other_traffic(world, lambda: world.journal.current_segment > segment)
    return int(world.journal.current_segment)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_what_a_group_has_of_a_segment_leaves_it_before_that_goes(is_stored: bool, is_restarted: bool) -> None:
    world = new_world(budget_bytes=500 if is_stored else 1_000_000)
    publish(world, range(1, 11))
    segment = 1
    next_segment(world)
    group = open_lease(world.queues[0], "job", "driver", f"{7:032x}", world.now)
    if is_stored:
        segment = next_segment(world)
    ready = world.queues[0].ready
    names = list(range(1, 11))
    while ready.head:
        entry = world.queues[0].get(world.now)
        assert entry is not None
        names.remove(name_of(entry.message))
        world.queues[0].forget(entry)
    count = ready.pages[0].count
    assert claim(group, count, ALL, world.now) == count
    assert entries_written(world, MOVED_PAGE)
    assert not entries_written(world, MOVED)
    next_segment(world)
    ack(group, 1, world.now)  # from here on what the group is stands in a later segment than what it has
    assert world.journal.oldest_segment == 1 or is_stored
    if is_restarted:
        world = restarted(world)
    other_traffic(world, lambda: world.journal.oldest_segment > segment)
    assert names_in(groups_by_name(restarted(world).queues[0])["job"]) == names[1:count]


def test_a_crash_right_after_the_entry_finds_each_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world(budget_bytes=500)
    publish(world, range(1, 21))
    segment = world.journal.current_segment
    other_traffic(world, lambda: world.journal.oldest_segment > segment)
    assert all(page.is_named for page in world.queues[0].ready.stored_pages())
    monkeypatch.setattr(world.page_store, "release", lambda *place: None)
    claimed(world, 20)
    world.sync()
    entries = world.disk_entries()
    begin = next(index for index, (_, kind, _) in enumerate(entries) if kind == MOVED_PAGE)
    for end in range(begin, len(entries) + 1):
        recovery = Recovery(Pager(PageStore(world.disk, 1200), 500, 500, 3, 500))
        for entry in entries[:end]:
            recovery.take(*entry)
        recovery.finish([1, 2])
        items = [*recovery.queues[1].items, *(item for _, item in recovery.leases_of(1)[0].items)]
        assert sum(item.live if isinstance(item, Page) else 1 for item in items) == 20


def test_on_a_full_disk_messages_move_one_by_one() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 41))
    world.sync()
    assert world.queues[0].ready.stored_pages()
    world.pager.has_no_room = True
    assert names_in(claimed(world, 40)) == list(range(1, 41))
    assert all(len(each) == 28 + 12 for each in entries_written(world, MOVED_PAGE))
    assert names_in(groups_by_name(restarted(world).queues[0])["job"]) == list(range(1, 41))


def test_a_page_of_which_a_message_is_transient_or_came_back_is_taken_apart() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 21))
    publish(world, range(21, 22), is_persistent=False)
    publish(world, range(22, 41))
    queue = world.queues[0]
    back = [queue.get(world.now) for _ in range(30)]
    for entry in back:
        assert entry is not None
        queue.take_held(entry, Client([], 1))
    queue.put_back([entry for entry in back if entry is not None], world.now)
    queue.ready.page_out(1 << 20, False)
    group = claimed(world, 40)
    found = entries_of(group)
    assert [name_of(each.message) for each in found] == list(range(1, 41))
    assert [each.is_redelivered for each in found] == [True] * 30 + [False] * 10
    assert all(each.message.is_persistent for each in found)
    again = entries_of(groups_by_name(restarted(world).queues[0])["job"])
    assert [(name_of(each.message), each.returns, each.is_redelivered) for each in again] == [
        (name_of(each.message), each.returns, each.is_redelivered) for each in found
    ]


def test_a_page_of_which_a_message_expires_is_taken_apart() -> None:
    world = new_world()
    publish(world, range(1, 41), expiration=50)
    world.advance(20)
    group = claimed(world, 30)
    assert not entries_written(world, MOVED_PAGE)
    assert all(each.expires_at for each in entries_of(group))
    world.advance(40)
    assert (group.count, world.queues[0].message_count()) == (30, 0)


def test_what_is_first_after_a_claim_of_pages_expires_in_time() -> None:
    world = new_world()
    publish(world, range(1, 21))
    publish(world, range(21, 41), expiration=50)
    group = open_lease(world.queues[0], "job", "driver", f"{7:032x}", world.now)
    assert claim(group, 20, ALL, world.now) == 20
    world.advance(60)
    assert world.queues[0].message_count() == 0


def test_the_limits_of_a_claim_hold_inside_of_a_page() -> None:
    world = new_world()
    publish(world, range(1, 101))
    group = open_lease(world.queues[0], "job", "driver", f"{7:032x}", world.now)
    sizes = [claim(group, most, ALL, world.now) for most in (7, 1, 20, 30, 2)]
    assert sizes == [7, 1, 20, 30, 2]
    assert claim(group, 100, 1, world.now) == 1
    assert names_in(group) == list(range(1, 62))
    assert entries_written(world, MOVED_PAGE)
    assert entries_written(world, MOVED)
    assert ready_names(world, world.queues[0]) == list(range(62, 101))


def test_the_budget_counts_a_claimed_page_once() -> None:
    for budget_bytes in (3000, 1_000_000):
        world = new_world(budget_bytes=budget_bytes)
        before = world.pager.used
        publish(world, range(1, 101))
        group = claimed(world, 100)
        assert list(entries_of(group))
        ack(group, 100, world.now)
        world.sync()
        group.page_out(0)
        assert world.pager.used == before
