"""Lease groups: what they take, what is read of them, what comes back, and what a queue has to do with them."""

from __future__ import annotations

import random

import pytest

from queues.arguments import QueueArguments
from queues.effects import Refusal
from queues.journaled_leases import leases_of
from queues.lease import RELEASING
from queues.lease_source import Caller
from queues.leases import LEASE_IDS, LeaseGroup, is_lease_id, lease_id
from queues.message import Entry
from queues.message_log import RangeGone
from queues.page import Page
from queues.pager import Pager
from queues.recovery import Recovery
from storage.page_store import PageStore
from tests.queues.lease_life import (
    ack,
    claim,
    entries_of,
    groups_by_name,
    names_in,
    open_lease,
    ready_names,
    release,
)
from tests.queues.queue_world import Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import disk_bytes

PLAIN = [QueueArguments(), QueueArguments()]


def new_world(settings: list[QueueArguments] | None = None, budget_bytes: int = 1_000_000) -> World:
    return World(SimulatedDisk(random.Random(7)), settings or PLAIN, budget_bytes=budget_bytes)


def restarted(world: World, settings: list[QueueArguments] | None = None) -> World:
    """The power fails and comes back."""
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    return World(world.disk, settings or PLAIN, world.now)


def publish(world: World, names: range, **facts: int) -> None:
    for name in names:
        message = message_named(name, 60, **facts)  # type: ignore[arg-type]
        world.vhost.publish(message, world.queues[:1], world.now)


def open_group(world: World, name: str = "job", owner: str = "driver") -> LeaseGroup:
    return open_lease(world.queues[0], name, owner, f"{7:032x}", world.now)


def test_a_group_is_an_ordered_log() -> None:
    world = new_world()
    publish(world, range(1, 11))
    group = open_group(world)
    assert claim(group, 4, 1 << 30, 5) == 4
    assert claim(group, 100, 1 << 30, 6) == 6
    assert claim(group, 100, 1 << 30, 7) == 0
    assert (group.trimmed, group.next, group.last_called, group.count) == (0, 10, 7, 10)
    assert names_in(group) == list(range(1, 11))
    assert [name_of(each.message) for each in entries_of(group, 3, 6)] == [4, 5, 6]
    assert ack(group, 3, 8) == 3
    assert ack(group, 2, 8) == 3
    assert names_in(group) == list(range(4, 11))
    assert world.queues[0].message_count() == 0
    assert world.queues[0].leased_count() == 7


def test_a_claim_is_bounded_in_messages_and_octets() -> None:
    world = new_world()
    publish(world, range(1, 31))
    group = open_group(world)
    assert claim(group, 0, 1 << 30, 1) == 0
    assert claim(group, 10, 1, 1) == 1
    one = group.bytes
    assert claim(group, 10, 3 * one + one // 2, 1) == 3
    assert claim(group, 10, 1 << 30, 1) == 10
    assert group.bytes == pytest.approx(14 * one, rel=0.02)


def test_a_range_that_is_not_held_is_refused() -> None:
    world = new_world()
    publish(world, range(1, 11))
    group = open_group(world)
    claim(group, 10, 1 << 30, 1)
    ack(group, 5, 1)
    assert group.read(5, 5, 100) == []
    for first, last in ((4, 6), (5, 11), (7, 6)):
        with pytest.raises(RangeGone):
            group.read(first, last, 100)
    assert leases_of(world.queues[0]).ack(Caller("job", group.incarnation, "driver"), 11, 1) is Refusal.LEASE_GONE


def test_a_read_gives_one_message_at_least_and_no_more_than_is_asked_for() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 41))
    group = open_group(world)
    claim(group, 40, 1 << 30, 1)
    world.sync()
    assert group.stored_pages()
    for first in range(40):
        stretches = group.read(first, 40, 1)
        assert [(each.first, each.messages) for each in stretches] == [(first, 1)]
        one = stretches[0].end - stretches[0].start
        stretches = group.read(first, 40, 4 * one + 20)
        assert sum(each.messages for each in stretches) == min(4, 40 - first)
    assert sum(each.messages for each in group.read(3, 9, 1 << 30)) == 6


def test_memory_stays_within_the_budget_whatever_is_claimed_and_read() -> None:
    world = new_world(budget_bytes=5000)
    group = open_group(world)
    for start in range(1, 2001, 50):
        publish(world, range(start, start + 50))
        claim(group, 50, 1 << 30, 1)
        world.sync()
        assert world.pager.used <= 5000
    assert names_in(group) == list(range(1, 2001))
    assert world.pager.used <= 5000 + world.pager.page_bytes + 200
    ack(group, 2000, 1)
    assert (world.pager.used, group.bytes) == (0, 0)
    for _ in range(2):
        world.sync()
    assert disk_bytes(world.page_store, group.queue_id) == 0


def test_everything_is_there_after_a_restart() -> None:
    world = new_world()
    publish(world, range(1, 21))
    group = open_group(world)
    claim(group, 8, 1 << 30, 1)
    ack(group, 3, 1)
    group = open_group(world, owner="another")
    world.sync()
    claim(group, 5, 1 << 30, 1)  # not synced
    again = restarted(world)
    group = groups_by_name(again.queues[0])["job"]
    assert (group.incarnation, group.owner, group.trimmed, group.next) == (f"{7:032x}", "another", 3, 8)
    assert names_in(group) == [4, 5, 6, 7, 8]
    assert ready_names(again, again.queues[0]) == list(range(9, 21))


def test_an_empty_group_keeps_its_offsets_across_a_restart() -> None:
    world = new_world()
    publish(world, range(1, 6))
    group = open_group(world)
    claim(group, 5, 1 << 30, 1)
    ack(group, 5, 1)
    world.sync()
    world = restarted(world)
    group = groups_by_name(world.queues[0])["job"]
    assert (group.trimmed, group.next) == (5, 5)
    publish(world, range(6, 8))
    claim(group, 9, 1 << 30, 1)
    assert [(each.first, each.messages) for each in group.read(5, 7, 1000)] == [(5, 2)]


def fill_segments(world: World, count: int) -> None:
    """Journal traffic that leaves nothing behind, until so many segments are gone."""
    first = world.journal.oldest_segment
    name = 10_000
    while world.journal.oldest_segment < first + count:
        world.vhost.publish(message_named(name, 60), world.queues[1:], world.now)
        entry = world.queues[1].get(world.now)
        assert entry is not None
        world.queues[1].forget(entry)
        world.sync()


def test_a_group_that_holds_something_lets_segments_go() -> None:
    world = new_world()
    publish(world, range(1, 41))
    group = open_group(world)
    claim(group, 30, 1 << 30, 1)
    ack(group, 4, 1)
    world.sync()
    fill_segments(world, 12)
    assert world.journal.total_bytes < 20_000
    assert group.stored_pages()
    for _ in range(3):
        world = restarted(world)
        group = groups_by_name(world.queues[0])["job"]
        assert names_in(group) == list(range(5, 31))
        fill_segments(world, 6)
    ack(group, 20, 1)
    claim(group, 10, 1 << 30, 1)
    world.sync()
    fill_segments(world, 6)
    world = restarted(world)
    assert names_in(groups_by_name(world.queues[0])["job"]) == list(range(21, 41))


def test_what_is_only_in_the_journal_is_moved_without_its_octets() -> None:
    world = new_world()
    publish(world, range(1, 101))
    group = open_group(world)
    before = world.journal.position
    claim(group, 100, 1 << 30, 1)
    assert world.journal.position - before < 40 * 100


def test_transient_messages_last_once_they_are_leased() -> None:
    world = new_world()
    publish(world, range(1, 11), is_persistent=False)
    group = open_group(world)
    claim(group, 6, 1 << 30, 1)
    world.sync()
    world = restarted(world)
    group = groups_by_name(world.queues[0])["job"]
    assert names_in(group) == [1, 2, 3, 4, 5, 6]
    assert release(group, 1) == 6
    world.sync()
    world = restarted(world)
    assert ready_names(world, world.queues[0]) == [1, 2, 3, 4, 5, 6]


def get_all(world: World) -> list[Entry]:
    entries = []
    while (entry := world.queues[0].get(1)) is not None:
        entries.append(entry)
    return entries


def test_sequences_of_what_is_leased_are_not_given_again() -> None:
    """Nothing of the queue is in the journal any more but its group: the next message comes behind all the same."""
    world = new_world()
    publish(world, range(1, 11), is_persistent=False)
    group = open_group(world)
    claim(group, 10, 1 << 30, 1)
    world.sync()
    fill_segments(world, 8)
    world = restarted(world)
    publish(world, range(11, 16))
    group = groups_by_name(world.queues[0])["job"]
    assert {entry.sequence for entry in entries_of(group)} == set(range(1, 11))
    release(group, 1)
    world.sync()
    assert ready_names(world, world.queues[0]) == list(range(1, 16))
    world = restarted(world)
    assert ready_names(world, world.queues[0]) == list(range(1, 16))


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_release_puts_everything_back_in_its_place(is_stored: bool) -> None:
    world = new_world()
    publish(world, range(1, 61))
    group = open_group(world)
    claim(group, 50, 1 << 30, 1)
    ack(group, 7, 1)
    if is_stored:
        world.sync()
        group.page_out(1 << 30)
        assert group.ram_page_bytes() == 0
    assert release(group, 1) == 43
    queue = world.queues[0]
    assert (groups_by_name(queue), leases_of(queue).parting, queue.leased_count()) == ({}, [], 0)
    for _ in range(2):
        world.sync()
    assert not world.disk.exists(f"queues/{group.queue_id}")
    everything = [(name, name <= 50) for name in range(8, 61)]
    assert [(name_of(each.message), each.is_redelivered) for each in get_all(world)] == everything
    world = restarted(world)
    assert [(name_of(each.message), each.is_redelivered) for each in get_all(world)] == everything
    assert world.pager.used == sum(message_named(name, 60).size for name in range(8, 61))


def test_what_is_released_goes_to_those_who_wait() -> None:
    world = new_world()
    publish(world, range(1, 4))
    group = open_group(world)
    claim(group, 3, 1 << 30, 1)
    log: list[tuple[Client, object, object, bool]] = []
    world.queues[0].add_consumer(Client(log, 10))  # type: ignore[arg-type]
    release(group, 1)
    assert [(name_of(message), again) for _, _, message, again in log] == [(1, True), (2, True), (3, True)]  # type: ignore[arg-type]


def test_priorities_are_claimed_in_the_order_of_delivery_and_go_back_to_their_levels() -> None:
    settings = [QueueArguments(max_priority=3), QueueArguments()]
    world = new_world(settings)
    for name in range(1, 31):
        publish(world, range(name, name + 1), priority=name % 3)
    group = open_group(world)
    claim(group, 15, 1 << 30, 1)
    in_order = [*range(2, 31, 3), *range(1, 31, 3), *range(3, 31, 3)]
    assert names_in(group) == in_order[:15]
    world.sync()
    world = restarted(world, settings)
    group = groups_by_name(world.queues[0])["job"]
    assert names_in(group) == in_order[:15]
    release(group, 1)
    assert [name_of(each.message) for each in get_all(world)] == in_order


def test_a_claim_takes_what_the_single_active_consumer_has_no_credit_for() -> None:
    settings = [QueueArguments(single_active_consumer=True), QueueArguments()]
    world = new_world(settings)
    log: list[tuple[Client, Entry | None, object, bool]] = []
    client = Client(log, 2)  # type: ignore[arg-type]
    world.queues[0].add_consumer(client)
    publish(world, range(1, 7))
    group = open_group(world)
    assert claim(group, 2, 1 << 30, 1) == 2
    assert names_in(group) == [3, 4]
    entry = log[0][1]
    assert entry is not None
    world.queues[0].ack(entry)
    client.unsettled -= 1
    world.queues[0].credit_returned(client)
    world.dispatch()
    assert [name_of(message) for _, _, message, _ in log] == [1, 2, 5]  # type: ignore[arg-type]
    assert ready_names(world, world.queues[0]) == [6]


def test_leases_end_expiry_and_a_release_begins_it_again() -> None:
    settings = [QueueArguments(message_ttl=100, dead_letter_exchange="dead"), QueueArguments()]
    world = new_world(settings)
    publish(world, range(1, 7))
    group = open_group(world)
    claim(group, 2, 1 << 30, world.now)
    world.advance(200)
    world.work()
    assert [name_of(message) for _, message, _ in world.dead_letters] == [3, 4, 5, 6]
    assert names_in(group) == [1, 2]
    publish(world, range(7, 9))
    world.queues[0].ready.peek().expires_at = world.now  # type: ignore[union-attr]
    assert claim(group, 9, 1 << 30, world.now) == 1
    assert names_in(group) == [1, 2, 8]
    world.work()
    world.dead_letters.clear()
    release(group, world.now)
    world.work()
    assert [name_of(message) for _, message, _ in world.dead_letters] == [1, 2]
    assert ready_names(world, world.queues[0]) == [8]


def test_a_length_limit_does_not_count_what_is_leased() -> None:
    settings = [QueueArguments(max_length=5), QueueArguments()]
    world = new_world(settings)
    group = open_group(world)
    for start in range(1, 31, 5):
        publish(world, range(start, start + 5))
        claim(group, 5, 1 << 30, 1)
    assert group.count == 30
    publish(world, range(31, 41))
    assert ready_names(world, world.queues[0]) == [36, 37, 38, 39, 40]


def test_a_purge_leaves_groups_alone() -> None:
    world = new_world()
    publish(world, range(1, 11))
    group = open_group(world)
    claim(group, 4, 1 << 30, 1)
    assert world.queues[0].purge() == 6
    world.sync()
    world = restarted(world)
    assert names_in(groups_by_name(world.queues[0])["job"]) == [1, 2, 3, 4]
    assert ready_names(world, world.queues[0]) == []


def test_a_deleted_queue_takes_its_groups_along() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 101))
    group = open_group(world)
    claim(group, 80, 1 << 30, 1)
    world.sync()
    assert world.disk.exists(f"queues/{group.queue_id}")
    world.queues[0].delete()
    world.sync()
    world.store.drop_pages(1)
    world.sync()
    assert (world.pager.used, group.is_deleted) == (0, True)
    assert not world.disk.exists(f"queues/{group.queue_id}")
    for _ in range(3):
        world.sync()


def test_a_group_of_a_queue_that_is_gone_is_forgotten() -> None:
    world = new_world(budget_bytes=3000)
    publish(world, range(1, 101))
    claim(open_group(world), 80, 1 << 30, 1)
    world.sync()
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.crash()
    assert World(world.disk, []).disk.list("queues") == []


def test_groups_of_a_queue_that_is_not_durable_are_in_ram() -> None:
    world = new_world()
    world.queues[0].is_durable = False
    publish(world, range(1, 11))
    before = world.journal.position
    group = open_group(world)
    assert claim(group, 8, 1 << 30, 1) == 8
    ack(group, 3, 1)
    group.page_out(1 << 30)
    assert names_in(group) == [4, 5, 6, 7, 8]
    release(group, 1)
    assert ready_names(world, world.queues[0]) == [4, 5, 6, 7, 8, 9, 10]
    assert world.journal.position == before


def test_a_group_that_lacks_a_message_is_refused_and_released_where_that_is_asked_for() -> None:
    world = new_world()
    publish(world, range(1, 21))
    group = open_group(world)
    claim(group, 10, 1 << 30, 1)
    world.sync()
    entries = list(world.disk_entries())
    for is_salvage in (False, True):
        recovery = Recovery(Pager(PageStore(world.disk), 1 << 20, 500, 3, 1500))
        for index, (segment, kind, payload) in enumerate(entries):
            if index != 4:  # message 5
                recovery.take(segment, kind, payload)
        if not is_salvage:
            with pytest.raises(ValueError, match="--recover"):
                recovery.finish([1, 2])
        else:
            recovery.finish([1, 2], True)
            (lease,) = recovery.leases.values()
            assert lease.state == RELEASING
            assert [offset for offset, _ in lease.items] == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_group_whose_state_is_lost_goes_back_to_its_queue() -> None:
    world = new_world()
    publish(world, range(1, 21))
    claim(open_group(world), 10, 1 << 30, 1)
    world.sync()
    recovery = Recovery(Pager(PageStore(world.disk), 1 << 20, 500, 3, 1500))
    for segment, kind, payload in world.disk_entries():
        if kind != 7:
            recovery.take(segment, kind, payload)
    recovery.finish([1, 2], True)
    queue = new_world().queues[0]
    queue.restore(recovery.queues[1], 1)
    for lease in recovery.leases_of(1):
        leases_of(queue).restore(lease, 1)
    assert queue.leased_count() == 0
    assert queue.message_count() == 20


def test_ids_of_groups_are_apart_from_all_others() -> None:
    assert is_lease_id(LEASE_IDS)
    assert is_lease_id(LEASE_IDS + (1 << 56) - 1)
    for other in (1, 1 << 61, (1 << 61) + (1 << 56), 1 << 62, LEASE_IDS - 1):
        assert not is_lease_id(other)
    found = {lease_id(*each) for each in ((1, "a", "x"), (2, "a", "x"), (1, "b", "x"), (1, "a", "y"))}
    assert len(found) == 4
    assert all(is_lease_id(each) for each in found)


def test_a_bad_page_of_a_group_is_set_aside_and_the_rest_goes_back() -> None:
    world = new_world()
    publish(world, range(1, 41))
    group = open_group(world)
    claim(group, 30, 1 << 30, 1)
    world.sync()
    fill_segments(world, 12)
    (first, *others) = group.stored_pages()
    path = f"queues/{group.queue_id}/{first.location.segment:08d}.seg"
    octets = bytearray(world.disk.read(path, 0, 1 << 20))
    octets[first.location.offset + 40] ^= 1
    assert isinstance(world.disk, SimulatedDisk)
    world.disk.overwrite(path, bytes(octets))
    pager = Pager(PageStore(world.disk), 1 << 20, 500, 3, 1500)
    recovery = Recovery(pager)
    for segment, kind, payload in world.disk_entries():
        recovery.take(segment, kind, payload)
    (line,) = recovery.set_bad_pages_aside([1, 2, *recovery.leases])
    assert f"up to {first.count} messages are lost" in line
    recovery.finish([1, 2], True)
    (lease,) = recovery.leases_of(1)
    assert lease.state == RELEASING
    assert sum(item.count if isinstance(item, Page) else 1 for _, item in lease.items) == 30 - first.count
    assert others
