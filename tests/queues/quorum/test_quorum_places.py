"""Checkpoints, exports and installs: where messages lie, when their places are given up, and what survives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from queues.pager import Pager
from queues.quorum import places
from queues.quorum.commands import Attach, DropQueue, How, OpenQueue, Purge, Settle
from queues.quorum.image import CHUNK_BYTES
from queues.quorum.image_reader import ImageReader
from queues.quorum.machine import QueueGroupMachine
from queues.wire.reader import Malformed
from storage.page_store import PageStore
from tests.queues.queue_world import PAGE_SEGMENT_BYTES
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import BUDGETS, Group, Member, Stream, ready_names, settings_of
from tests.queues.quorum.random_log import RandomGroup
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import disk_bytes, live_bytes


def paging_member(count: int = 60, **arguments: int) -> tuple[Group, Stream, Member]:
    """A member with little RAM, whose queue 1 holds so many messages, most of them on disk."""
    member = Member("n1", BUDGETS[0])
    group = Group(member, settings=settings_of(**arguments))
    stream = Stream(group, member)
    stream.publish(*range(count), body_size=100)
    assert disk_bytes(member.page_store, 1) > count * 50
    return group, stream, member


def test_a_place_is_kept_until_a_later_checkpoint_is_on_the_disk() -> None:
    group, stream, member = paging_member()
    member.checkpoint()
    on_disk = disk_bytes(member.page_store, 1)
    stream.send(Purge(1))
    assert disk_bytes(member.page_store, 1) == on_disk
    member.checkpoint(is_synced=False)
    member.machine.synced(member.position - 1)
    assert disk_bytes(member.page_store, 1) == on_disk, "the new checkpoint is not on the disk yet"
    member.restart(group.log)
    assert ready_names(member) == []
    member.checkpoint()
    assert disk_bytes(member.page_store, 1) == 0


def test_a_place_that_no_checkpoint_named_is_given_up_at_once() -> None:
    _, stream, member = paging_member()
    stream.send(Purge(1))
    assert disk_bytes(member.page_store, 1) == 0


def test_one_message_that_stays_pins_little_more_than_itself() -> None:
    group, stream, member = paging_member(400)
    member.checkpoint()
    consumer = stream.new_consumer()
    stream.send(Attach(consumer, 1, 0, False, 0, False, "t"))
    for _ in range(3):
        member.checkpoint()
    assert disk_bytes(member.page_store, 1) > 40_000
    stream.send(Settle(consumer, How.ACK, ((1, 199), (201, 400))))
    for _ in range(3):
        member.checkpoint()
    assert disk_bytes(member.page_store, 1) <= PAGE_SEGMENT_BYTES
    member.restart(group.log)
    assert [delivery for holder in member.queue().delivery_owners.values() for delivery in holder.held] == [200]


def test_much_that_is_dead_is_worth_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_DEAD_BYTES", 1000)
    _, stream, member = paging_member(400)
    member.checkpoint()
    assert not member.machine.wants_checkpoint()
    consumer = stream.new_consumer()
    stream.send(Attach(consumer, 1, 0, False, 0, False, "t"))
    stream.send(Settle(consumer, How.ACK, ((1, 100),)))
    assert not member.machine.wants_checkpoint(), "most of what it names is alive"
    stream.send(Settle(consumer, How.ACK, ((101, 300),)))
    assert member.machine.wants_checkpoint()
    member.checkpoint()
    assert not member.machine.wants_checkpoint()


def test_what_a_consumer_holds_is_written_once_not_with_every_checkpoint() -> None:
    _, stream, member = paging_member(200)
    stream.attach()
    first = sum(map(len, member.machine.checkpoint()))
    second = sum(map(len, member.machine.checkpoint()))
    assert max(first, second) < 200 * 100
    assert member.queue().unacked == 200


def member_with_pages_in_ram(monkeypatch: pytest.MonkeyPatch) -> tuple[Stream, Member]:
    """None of its many pages has a place, and a slice of preparations gives one to one page."""
    monkeypatch.setattr(places, "AHEAD_BYTES", 1)
    member = Member("n1")
    stream = Stream(Group(member, settings=settings_of()), member)
    stream.publish(*range(300), body_size=100)
    assert member.pager.pages_stored == 0
    return stream, member


def test_the_pages_of_a_large_queue_are_written_one_by_one_before_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    _, member = member_with_pages_in_ram(monkeypatch)
    stored = []
    for _ in member.machine.prepare_checkpoint():
        stored.append(member.pager.pages_stored)
    assert stored[:4] == [0, 1, 2, 3]
    assert len(stored) > 50
    prepared = member.pager.pages_stored
    member.checkpoint()
    assert member.pager.pages_stored <= prepared + 2, "what is loose, and no page of the queue"
    assert disk_bytes(member.page_store, 1) > 300 * 100


def begin_to_prepare(member: Member) -> tuple[Iterator[None], int]:
    """A preparation of which some slices are done, and how many pages have a place by then."""
    preparing = member.machine.prepare_checkpoint()
    for _ in range(10):
        next(preparing)
    return preparing, member.pager.pages_stored


def test_what_is_emptied_while_a_checkpoint_is_prepared_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, member = member_with_pages_in_ram(monkeypatch)
    preparing, prepared = begin_to_prepare(member)
    stream.send(Purge(1))
    list(preparing)
    assert member.pager.pages_stored == prepared
    member.checkpoint()
    assert disk_bytes(member.page_store, 1) == 0


def test_pages_of_a_queue_that_goes_while_a_checkpoint_is_prepared_get_no_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, member = member_with_pages_in_ram(monkeypatch)
    preparing, prepared = begin_to_prepare(member)
    del member.state.queues[1]  # and it gives back what it has later
    list(preparing)
    assert member.pager.pages_stored == prepared


def test_a_slice_of_a_preparation_looks_at_a_few_queues() -> None:
    member = Member("n1")
    stream = Stream(Group(member), member)
    stream.send(*[OpenQueue(number, settings_of()) for number in range(1, 1001)])
    assert len(list(member.machine.prepare_checkpoint())) > 10


def test_a_dropped_queue_takes_its_folder_along() -> None:
    _, stream, member = paging_member()
    member.checkpoint()
    stream.send(DropQueue(1))
    assert member.disk.exists("queues/1")
    assert member.machine.queue_ids() == [1], "its pages may be needed"
    member.checkpoint()
    assert not member.disk.exists("queues/1")
    assert member.machine.queue_ids() == []


def test_what_was_dead_of_a_queue_whose_files_went_is_not_taken_from_the_one_that_comes_again() -> None:
    """As where a node leaves a group and comes to it again: the new files have the names of the old ones."""
    disk = SimulatedDisk(random.Random(1))
    pager = Pager(PageStore(disk, PAGE_SEGMENT_BYTES), 1 << 20, 500, 3, 500)
    store, kept = pager.page_store, places.Places(pager)
    location = store.append(7, bytes(100))
    kept.checkpoint_begun([7])
    kept.checkpoint_captured(0, [])
    kept.end_turn(10)
    pager.released.append((7, location, True))
    kept.end_turn(11)
    kept.synced(10, (), ())
    assert disk_bytes(store, 7) == 0
    assert store.append(7, bytes(100)) == location
    kept.checkpoint_begun([])
    kept.checkpoint_captured(0, [])
    kept.end_turn(20)
    kept.synced(20, (), ())
    assert live_bytes(store, 7) > 100


def test_a_full_disk_leaves_checkpoints_whole() -> None:
    group, stream, member = paging_member(20)
    member.disk.capacity = 0
    stream.publish(*range(20, 60), body_size=100)
    stream.attach(prefetch=15)
    chunks = member.machine.checkpoint()
    assert member.pager.has_no_room
    wanted = digest_of(member.machine)
    member.machine = QueueGroupMachine("n1", Pager(member.page_store, 1 << 30, 500, 3, 1500))
    member.machine.restore(chunks)
    assert digest_of(member.machine) == wanted
    assert len(group.log) == 4


def test_an_export_is_of_one_moment_and_keeps_what_it_reads() -> None:
    _, stream, member = paging_member()
    stream.attach(prefetch=20)
    member.checkpoint()
    wanted = digest_of(member.machine)
    export = member.machine.export()
    stream.send(Purge(1))
    stream.publish(*range(100, 160), body_size=100)
    member.checkpoint()
    member.checkpoint()
    other = Member("n2", BUDGETS[0])
    other.machine.begin_install()
    for chunk in export:
        assert 0 < len(chunk) <= CHUNK_BYTES
        other.machine.install_chunk(chunk)
    other.machine.end_install()
    assert digest_of(other.machine) == wanted
    stream.send(Purge(1))
    member.checkpoint()
    member.checkpoint()
    assert disk_bytes(member.page_store, 1) < 60 * 100, "the export is done: nothing is kept for it"


def test_an_abandoned_export_keeps_nothing() -> None:
    _, stream, member = paging_member()
    export = member.machine.export()
    stream.send(Purge(1))
    member.apply([])
    assert disk_bytes(member.page_store, 1) > 0
    export.close()  # type: ignore[attr-defined]
    export.close()  # type: ignore[attr-defined]
    assert list(export) == []
    member._end_turn()
    assert disk_bytes(member.page_store, 1) == 0


def test_a_message_larger_than_a_chunk() -> None:
    member = Member("n1")
    stream = Stream(Group(member, settings=settings_of()), member)
    stream.publish(1, body_size=3 * CHUNK_BYTES)
    stream.publish(2)
    other = Member("n2")
    other.install_from(member)
    assert digest_of(other.machine) == digest_of(member.machine)
    other.restart([])
    assert digest_of(other.machine) == digest_of(member.machine)


def test_an_abandoned_install_leaves_everything_as_it_was() -> None:
    _, _, source = paging_member(200)
    target = Member("n2", BUDGETS[0])
    Group(target, settings=settings_of()).open(7, settings_of())
    wanted, used = digest_of(target.machine), target.pager.used
    chunks = list(source.machine.export())
    for cut in (10, len(chunks[0]) // 2, len(chunks[0])):
        target.machine.begin_install()
        target.machine.install_chunk(chunks[0][:cut])
        if cut > 10_000:
            assert target.pager.used > used
        target.machine.abort_install()
        assert (digest_of(target.machine), target.pager.used) == (wanted, used)
    target.checkpoint()
    target.checkpoint()
    assert disk_bytes(target.page_store, 1) == 0
    target.machine.abort_install()


def test_an_install_of_more_than_the_memory_goes_to_the_disk() -> None:
    _, _, source = paging_member(500)
    target = Member("n2", BUDGETS[0])
    target.install_from(source)
    assert target.pager.used < 4 * BUDGETS[0]
    assert digest_of(target.machine) == digest_of(source.machine)


def test_an_image_that_is_cut_or_mixed_up_is_refused() -> None:
    group = RandomGroup(3)
    for _ in range(60):
        group.step()
    member = group.nodes[0].shadow
    image = b"".join(member.machine.export())
    for end in [*range(200), *range(200, len(image), 97)]:
        with pytest.raises(Malformed):
            read(image[:end])
    assert read(image).state.clock == member.state.clock
    with pytest.raises(Malformed, match="wrong place"):
        read(image + image)
    with pytest.raises(Malformed, match="version"):
        read(image[:5] + b"\x09" + image[6:])


def read(image: bytes) -> ImageReader:
    pager = Pager(PageStore(SimulatedDisk(random.Random(1))), 1 << 30, 500, 3, 1500)
    reader = ImageReader(pager, QueueGroupMachine("n9", pager)._execution)
    reader.feed(image)
    reader.finish()
    return reader


def test_a_chunk_without_an_install_is_refused() -> None:
    with pytest.raises(RuntimeError, match="none was begun"):
        Member("n1").machine.install_chunk(b"")
