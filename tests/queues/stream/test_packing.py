"""Packing: pages that have left RAM are compressed, and nobody who reads finds a difference, whatever crashes."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.stream import packing
from queues.stream.commands import Trim
from queues.stream.packing import MOST_PAGES, Packed, Packing
from queues.stream.settings import StreamSettings
from storage import page_store
from storage.errors import CorruptRecord
from storage.inspect import inspect_folder
from storage.packed_page import pack, unpack
from storage.page_store import PageStore, page_path
from tests.queues.quorum import quorum_world
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.stream.stream_world import STREAM, append, bodies_of, commit_as, one_stream, records, stream_of
from tests.queues.stream.test_compaction import ALL, KEYED, compact, content
from tests.queues.stream.test_compaction import append as append_keyed
from tests.simulation.simulated_disk import SimulatedDisk
from tests.storage.page_files import disk_bytes, live_bytes

PACKED = StreamSettings(compression="zlib")
BODIES = [b"%04d" % number * 40 for number in range(100)]


def cooled(stream_settings: StreamSettings = PACKED, members: int = 1, bodies: list[bytes] = BODIES) -> Group:
    """A stream of many pages, which are on the disks alone."""
    group, _ = one_stream(stream_settings, members)
    for number in range(0, len(bodies), 4):
        append(group, *bodies[number : number + 4])
    for member in group.members:
        stream_of(member).log.seal()
        member.checkpoint()
        member.restart(group.log)
    return group


def pass_over(member: Member, steps: int = ALL) -> Packed | None:
    stream = stream_of(member)
    work = Packing(stream.log, member.pager, lambda: stream_of(member) is stream).steps()
    try:
        for _ in range(min(steps, 10_000)):
            next(work)
    except StopIteration as end:
        found: Packed | None = end.value
        return found
    work.close()
    return None


def pack_all(member: Member) -> None:
    while (found := pass_over(member)) is not None and found.has_more:
        pass


@given(st.binary(max_size=2000), st.integers(1, 40))
def test_a_page_comes_back_as_it_was(octets: bytes, times: int) -> None:
    packed = pack(octets * times)
    if packed:
        assert unpack(packed, len(octets * times)) == octets * times
        assert 8 * len(packed) <= 7 * len(octets * times)


def test_what_does_not_get_smaller_is_not_packed() -> None:
    assert pack(random.Random(1).randbytes(5000)) == b""
    assert pack(b"") == b""


@given(st.data())
def test_octets_that_are_not_what_was_packed_are_refused(data: Any) -> None:
    octets = b"some page or other " * 50
    packed = pack(octets)
    kind = data.draw(st.sampled_from(["cut", "flipped", "longer"]))
    if kind == "cut":
        damaged = packed[: data.draw(st.integers(0, len(packed) - 1))]
    elif kind == "longer":
        damaged = packed + data.draw(st.binary(min_size=1, max_size=5))
    else:
        place = data.draw(st.integers(0, len(packed) - 1))
        damaged = packed[:place] + bytes([packed[place] ^ 1 << data.draw(st.integers(0, 7))]) + packed[place + 1 :]
    with suppress(ValueError):
        assert unpack(damaged, len(octets)) == octets  # a bit that says nothing


def test_a_page_that_says_to_be_very_long_takes_no_room() -> None:
    bomb = pack(b"\0" * 100_000)
    with pytest.raises(ValueError, match="a packed page of 9 octets is one of 10"):
        unpack(bomb[:1] + (9).to_bytes(4, "big") + bomb[5:], 9)
    with pytest.raises(ValueError, match="a packed page of 100000 octets, and 9 were packed"):
        unpack(bomb, 9)
    with pytest.raises(ValueError, match="packed in way 7, which this program does not know: update it"):
        unpack(b"\7" + bomb[1:], 100_000)


def test_a_packed_page_that_is_not_as_long_as_its_stream_says_takes_no_room() -> None:
    store = PageStore(SimulatedDisk(random.Random(1)))
    segment = store.begin_segment(STREAM)
    location, written = store.write_beside(STREAM, segment, pack(bytes(50_000_000)), is_packed=True)
    written.result()
    tracemalloc.start()
    try:
        for size in (9, 49_999_999, location.length):
            with pytest.raises(CorruptRecord, match=f"50000000 octets, and {size} were packed"):
                store.read(STREAM, location, size)
            with pytest.raises(CorruptRecord, match=f"50000000 octets, and {size} were packed"):
                store.begin_load(STREAM, location, size).result()
        with pytest.raises(CorruptRecord, match=f"50000000 octets, and {location.length} were packed"):
            store.read(STREAM, location)  # of who has none that are packed
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert store.read(STREAM, location, 50_000_000) == bytes(50_000_000)
    plain = store.append(STREAM, b"a page")
    with pytest.raises(CorruptRecord, match="the page has 6 octets, and not 7"):
        store.read(STREAM, plain, 7)


def test_the_loop_does_nothing_to_the_octets_that_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[int] = []
    header = page_store.pack_header

    def counted(kind: int, context: int, position: int, page: bytes) -> bytes:
        summed.append(len(page))
        return header(kind, context, position, page)

    monkeypatch.setattr(page_store, "pack_header", counted)
    store = PageStore(SimulatedDisk(random.Random(1)))
    segment = store.begin_segment(STREAM)
    _, written = store.write_beside(STREAM, segment, b"a page")
    assert not summed
    written.result()
    assert summed == [6]


def test_readers_find_no_difference_and_the_disk_does() -> None:
    group = cooled()
    (member,) = group.members
    log = stream_of(member).log
    before, pages = log.octets, len(log.parts())
    ends = list(log.page_ends(0))
    pack_all(member)
    assert (log.unpacked_octets, len(log.parts()), list(log.page_ends(0))) == (before, pages, ends)
    assert log.octets < before / 2
    assert all(part.is_packed for part in log.parts())
    assert bodies_of(member) == BODIES
    for offset in (0, 3, 50, 99):
        assert next(records(stream_of(member), offset)) == (offset, BODIES[offset])
    for _ in range(2):
        member.checkpoint()
    assert disk_bytes(member.pager.page_store, STREAM) < before / 2 + 24 * pages
    member.restart(group.log)
    log = stream_of(member).log
    assert (log.unpacked_octets, list(log.page_ends(0))) == (before, ends)
    assert bodies_of(member) == BODIES
    assert pass_over(member) == Packed(0, 0, 0, 0, False)
    report = inspect_folder(member.disk)
    assert [(queue.pages, queue.bad) for queue in report.queues] == [(pages, ())]


@pytest.mark.parametrize("pattern", ["prpp", "rrrp", "rp" + 12 * "p", 12 * "r" + 12 * "p", 30 * "p" + 30 * "r"])
@pytest.mark.parametrize("pages", [1, 3, MOST_PAGES])
def test_pages_that_do_not_pay_keep_no_file_of_which_the_rest_is_packed(
    pattern: str, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p: a page that pays, r: one that does not. However the passes fall."""
    monkeypatch.setattr(packing, "MOST_PAGES", pages)
    monkeypatch.setattr(quorum_world, "PAGE_SEGMENT_BYTES", 12_000)  # a handful of pages
    chance = random.Random(1)
    bodies = []
    for kind in (pattern * 60)[:60]:
        bodies += [chance.randbytes(600) if kind == "r" else b"%03d" % chance.randrange(99) * 50 for _ in range(4)]
    group = cooled(bodies=bodies)
    (member,) = group.members
    log, store = stream_of(member).log, member.pager.page_store
    while (found := pass_over(member)) is not None and found.has_more:
        member.checkpoint()
    for _ in range(2):
        member.checkpoint()
    lives = live_bytes(store, STREAM)
    assert lives == log.octets + 24 * len(log.parts())
    assert disk_bytes(store, STREAM) <= lives * 8 / 7
    member.restart(group.log)
    assert bodies_of(member) == bodies


def test_what_is_new_and_in_ram_is_left_alone() -> None:
    group, _ = one_stream(PACKED)
    (member,) = group.members
    append(group, *BODIES)
    stream_of(member).log.seal()
    assert pass_over(member) == Packed(0, 0, 0, 0, False)


def test_somebody_who_reads_the_oldest_page_holds_up_nothing() -> None:
    group = cooled()
    (member,) = group.members
    log = stream_of(member).log
    assert log.chunk_at(0) is not None
    assert log.parts()[0].page.data is not None
    used = member.pager.used
    pack_all(member)
    assert log.parts()[0].is_packed
    assert member.pager.used < used
    assert bodies_of(member) == BODIES


def test_members_get_pages_as_they_were_and_pack_them_for_themselves() -> None:
    group = cooled(members=2)
    first, second = group.members
    pack_all(first)
    second.install_from(first)
    assert not any(part.is_packed for part in stream_of(second).log.parts())
    assert bodies_of(second) == BODIES
    first.install_from(second)
    assert bodies_of(first) == BODIES
    assert digest_of(first.machine) == digest_of(second.machine)


def test_a_flipped_bit_of_a_packed_page_is_damage() -> None:
    group = cooled()
    (member,) = group.members
    pack_all(member)
    for _ in range(2):
        member.checkpoint()
    member.restart(group.log)
    part = stream_of(member).log.parts()[2]
    path = page_path(STREAM, part.page.location.segment)
    octets = bytearray(member.disk.contents(path))
    octets[part.page.location.offset + 40] ^= 4
    member.disk.overwrite(path, bytes(octets))
    with pytest.raises(CorruptRecord, match=path):
        bodies_of(member)


def test_a_stream_is_compacted_after_it_was_packed_and_packed_after_that() -> None:
    group, _ = one_stream(KEYED)
    (member,) = group.members
    model = [(f"key {number % 30}", b"%03d" % number * 30) for number in range(200)]
    for number in range(0, 200, 5):
        append_keyed(group, *model[number : number + 5])
    for below in (100, 200):
        stream_of(member).log.seal()
        member.checkpoint()
        member.restart(group.log)
        pack_all(member)
        assert any(part.is_packed for part in stream_of(member).log.parts())
        compact(member, below=below)
    assert content(member) == {offset: model[offset][1] for offset in range(170, 200)}
    pack_all(member)
    assert content(member) == {offset: model[offset][1] for offset in range(170, 200)}


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_happens_all_that_was_published_is_there(chance: random.Random) -> None:
    group, _ = one_stream(PACKED, members=2)
    model: list[bytes] = []
    for _ in range(25):
        member = chance.choice(group.members)
        what = chance.randrange(8)
        if what < 3:
            bodies = [b"%03d" % chance.randrange(99) * chance.randrange(1, 80) for _ in range(chance.randrange(1, 9))]
            append(group, *bodies)
            model += bodies
        elif what == 3:
            stream_of(member).log.seal()
            member.checkpoint(is_synced=chance.random() < 0.7)
        elif what == 4:
            stream_of(member).log.page_out(1 << 40)
            pass_over(member, chance.choice([ALL, chance.randrange(20)]))
        elif what == 5:
            member.restart(group.log)
        elif what == 6 and model:
            commit_as(group, "trimmer", len(group.log), Trim(STREAM, chance.randrange(len(model))))
        elif what == 7:
            member.install_from(chance.choice([each for each in group.members if each is not member]))
        for each in group.members:
            stream = stream_of(each)
            assert dict(records(stream)) == {at: model[at] for at in range(stream.first, len(model))}
            assert stream.log.octets <= stream.log.unpacked_octets
    assert len({digest_of(member.machine) for member in group.members}) == 1


def trimmed_after(steps: int, bodies: list[bytes]) -> bool:
    """A pass in which retention takes pages after so many steps. Returns whether the pass was over by then."""
    group = cooled(bodies=bodies)
    (member,) = group.members
    stream = stream_of(member)
    work = Packing(stream.log, member.pager, lambda: True).steps()
    is_over = [next(work, ALL) == ALL for _ in range(steps)][-1]
    commit_as(group, "trimmer", len(group.log), Trim(STREAM, 60))
    for _ in work:
        pass
    assert bodies_of(member) == bodies[60:]
    for _ in range(2):
        member.checkpoint()
    used = {part.page.location.segment for part in stream.log.parts()}
    assert {int(name[:8]) for name in member.disk.list(f"queues/{STREAM}")} == used
    return is_over


def test_retention_takes_pages_that_are_being_packed() -> None:
    for steps in (1, 3, 6, 9):
        assert not trimmed_after(steps, BODIES)


def test_retention_takes_pages_at_every_step_of_a_pass_that_moves_what_does_not_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quorum_world, "PAGE_SEGMENT_BYTES", 12_000)  # a handful of pages
    chance = random.Random(1)
    bodies = [chance.randbytes(600) if (number // 4) % 2 else b"%03d" % number * 50 for number in range(100)]
    steps = 1
    while not trimmed_after(steps, bodies):
        steps += 1
    assert steps > 30
