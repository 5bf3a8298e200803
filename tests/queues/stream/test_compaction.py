"""Compaction: of each key the newest record stays at its offset, whatever crashes, is installed or trimmed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.message import Address, Message, build_message
from queues.page import AddressBook
from queues.stream.chunk import Chunk, ChunkBuilder
from queues.stream.commands import AppendChunk, CompactedTo, Trim
from queues.stream.compaction import Outcome, Overtaken, Pass, Rules
from queues.stream.keys import find_key, is_empty
from queues.stream.log import StreamLog
from queues.stream.pages import Part
from queues.stream.record import get_record
from queues.stream.settings import StreamSettings
from queues.stream.stream import Stream
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord
from storage.page_store import page_path
from tests.queues.quorum import quorum_world
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.stream.stream_world import STREAM, commit_as, one_stream, stream_of
from tests.storage.page_files import disk_bytes, live_bytes

KEYED = StreamSettings(key="routing-key", tombstone_age=0)
ALL = 1 << 60
#: A record: its key, "" for none, and its body.
Record = tuple[str, bytes]


def keyed(key: str, body: bytes) -> Message:
    raw = b"\0" + bytes([len(key)]) + key.encode()
    return build_message(Address(raw), b"\0\0", body, True, -1, -1, 0)


def append(group: Group, *contents: Record) -> None:
    builder = ChunkBuilder(16)
    for key, body in contents:
        builder.add(keyed(key, body), 0, 0)
    commit_as(group, "publisher", len(group.log), AppendChunk(STREAM, builder.seal()))


def work_on(member: Member, most_keys: int = 100, gone_below: int = 0, below: int = ALL) -> Pass:
    stream = stream_of(member)
    rules = Rules(below, most_keys, gone_below, 1 << 60)
    return Pass(stream.log, stream.settings.key, member.pager, rules, lambda: stream_of(member) is stream)


def compact(member: Member, **rules: int) -> Outcome | None:
    """A whole pass over all that is there."""
    stream_of(member).log.seal()
    steps = work_on(member, **rules).steps()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def content(member: Member) -> dict[int, bytes]:
    """What a reader gets, by offset."""
    stream = stream_of(member)
    found = {}
    for stored in stream.log.chunks(stream.first):
        for offset, at in stored.records():
            if offset >= stream.first:
                assert offset not in found
                message = get_record(stored.chunk.octets, at, offset, stored.time, AddressBook())
                found[offset] = message.body_bytes()
    assert list(found) == sorted(found)
    return found


def newest(model: list[Record], below: int) -> dict[int, bytes]:
    """What is left of a log that is compacted so far, tombstones among it."""
    last = {key: offset for offset, (key, _) in enumerate(model[:below]) if key}
    return {
        offset: body
        for offset, (key, body) in enumerate(model)
        if offset >= below or not key or last[key] == offset
    }


MODEL = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("", b"4"), ("c", b"5"), ("", b""), ("a", b""), ("b", b"6")]


def one_log() -> tuple[Group, Member]:
    group, _ = one_stream(KEYED)
    for number in range(0, len(MODEL), 2):
        append(group, *MODEL[number : number + 2])
    return group, group.members[0]


def test_the_newest_of_each_key_stays_at_its_offset() -> None:
    _, member = one_log()
    assert compact(member) == Outcome(8, 3, pytest.approx(stream_of(member).log.octets, abs=1000))  # type: ignore
    assert content(member) == newest(MODEL, 8) == {3: b"4", 4: b"5", 5: b"", 6: b"", 7: b"6"}
    compacted = stream_of(member).log.compacted
    assert (compacted.below, compacted.tombstones, compacted.first) == (8, 1, 6)
    assert stream_of(member).log.last_chunk() == 6


def test_a_tombstone_goes_when_it_may_and_the_last_record_stays() -> None:
    group, member = one_log()
    compact(member)
    compact(member, gone_below=6)
    assert 6 in content(member)
    compact(member, gone_below=8)
    assert list(content(member)) == [3, 4, 5, 7]
    assert stream_of(member).log.compacted.tombstones == 0
    append(group, ("c", b""))
    compact(member, gone_below=9)
    assert list(content(member)) == [3, 5, 7, 8]  # where the log ends


def test_what_is_held_or_still_in_the_tail_is_not_touched() -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    append(group, *MODEL)
    assert list(work_on(member).steps()) == []  # there are no pages
    stream_of(member).log.seal()
    append(group, ("b", b"7"), ("c", b"8"))
    list(work_on(member, below=5).steps())
    assert list(content(member)) == list(range(1, 10))
    list(work_on(member).steps())
    assert content(member) == newest([*MODEL, ("b", b"7"), ("c", b"8")], 8)


def test_keys_that_do_not_fit_are_for_the_next_pass() -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    model = [(f"key {number % 90}", b"x" * 40) for number in range(200)]
    for number in range(0, 200, 5):
        append(group, *model[number : number + 5])
    passes = 0
    while stream_of(member).log.compacted.below < 200:
        compact(member, most_keys=30)
        passes += 1
        below = stream_of(member).log.compacted.below
        found = content(member)
        for offset in found:
            assert found[offset] == model[offset][1]
        assert set(newest(model, 200)) <= set(found) <= set(newest(model, below))
    assert passes > 2
    assert content(member) == newest(model, 200)


def test_a_chunk_with_holes_is_no_command() -> None:
    builder = ChunkBuilder(16)
    for _ in range(3):
        builder.add(keyed("k", b"x"), 0, 0)
    chunk = Chunk(builder.seal())
    rest = Chunk(chunk.keeping(list(chunk.places())[1:2], 16))
    assert (rest.records, rest.has_holes, rest.place_of(0), rest.place_of(1) > 0, rest.place_of(2)) == (
        3, True, -1, True, -1,
    )  # fmt: skip
    with pytest.raises(Malformed, match="holes"):
        rest.check()


def test_a_damaged_page_ends_a_pass_and_leaves_the_log_as_it_is() -> None:
    group, member = one_log()
    stream_of(member).log.seal()
    member.checkpoint()
    member.restart(group.log)
    path = page_path(STREAM, 1)
    octets = bytearray(member.disk.contents(path))
    octets[-5] ^= 1
    member.disk.overwrite(path, bytes(octets))
    before = bytes(stream_of(member).log.names)
    with pytest.raises(CorruptRecord, match=path):
        compact(member)
    assert bytes(stream_of(member).log.names) == before
    assert member.disk.list(f"queues/{STREAM}") == [f"{1:08d}.seg"]


def test_a_pass_that_is_overtaken_by_an_install_leaves_nothing() -> None:
    group, _ = one_stream(KEYED, members=2)
    first, second = group.members
    append(group, *MODEL)
    stream_of(first).log.seal()
    steps = work_on(first).steps()
    next(steps)
    first.install_from(second)
    with pytest.raises(Overtaken):
        list(steps)
    assert content(first) == dict(enumerate(body for _, body in MODEL))
    assert content(second) == content(first)


def test_after_an_install_nobody_is_served_before_it_is_as_far_as_was_said() -> None:
    group, node = one_stream(KEYED, members=2)
    first, second = group.members
    append(group, *MODEL)
    compact(first)
    first.checkpoint()
    node.send(CompactedTo(STREAM, stream_of(first).log.compacted.synced))
    assert stream_of(second).claims == {"n1": 8}
    assert digest_of(first.machine) == digest_of(second.machine)
    first.install_from(second)
    compacted = stream_of(first).log.compacted
    assert (compacted.below, compacted.needed, compacted.is_enough) == (0, 8, False)
    first.restart(group.log)
    assert not stream_of(first).log.compacted.is_enough
    compact(first)
    assert stream_of(first).log.compacted.is_enough
    assert content(first) == newest(MODEL, 8)


def test_only_what_a_checkpoint_on_the_disk_has_is_said() -> None:
    group, member = one_log()
    compact(member)
    assert stream_of(member).log.compacted.synced == 0
    member.checkpoint(is_synced=False)
    assert stream_of(member).log.compacted.synced == 0
    member.checkpoint()
    assert stream_of(member).log.compacted.synced == 8
    member.restart(group.log)
    assert (stream_of(member).log.compacted.synced, content(member)) == (8, newest(MODEL, 8))


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_happens_some_subset_is_left_that_has_the_newest(chance: random.Random) -> None:
    group, _ = one_stream(KEYED, members=2)
    model: list[Record] = []
    cut_off = []  # they would tidy up behind themselves, in the files of those that have started again
    for _ in range(25):
        member = chance.choice(group.members)
        what = chance.randrange(8)
        if what < 3:
            contents = [
                (chance.choice(["", "a", "b", "c", "d"]), chance.choice([b"", b"x" * chance.randrange(1, 300)]))
                for _ in range(chance.randrange(1, 9))
            ]
            append(group, *contents)
            model += contents
        elif what == 3:
            cut_off.append(_crash_in_a_pass(group, member, chance))
        elif what == 4:
            compact(member, most_keys=chance.choice([1, 100]))
            if chance.random() < 0.5:
                member.checkpoint(is_synced=chance.random() < 0.7)
        elif what == 5:
            member.restart(group.log)
        elif what == 6 and model:
            commit_as(group, "trimmer", len(group.log), Trim(STREAM, chance.randrange(len(model))))
        elif what == 7:
            member.install_from(chance.choice([each for each in group.members if each is not member]))
        for each in group.members:
            _check(stream_of(each), content(each), model)
    assert len({digest_of(member.machine) for member in group.members}) == 1


def _crash_in_a_pass(group: Group, member: Member, chance: random.Random) -> object:
    """Returns the pass."""
    stream_of(member).log.seal()
    steps = work_on(member).steps()
    for _ in range(chance.randrange(12)):
        try:
            next(steps)
        except StopIteration:
            break
    member.restart(group.log)
    return steps


def _check(stream: Stream, found: dict[int, bytes], model: list[Record]) -> None:
    assert stream.next == len(model)
    for offset, body in found.items():
        assert body == model[offset][1]
    below, first = stream.log.compacted.below, stream.first
    assert set(found) >= {offset for offset in newest(model, len(model)) if offset >= first}
    assert set(found) <= set(newest(model, below))
    assert set(found) >= set(range(max(below, first), len(model)))


@pytest.mark.parametrize("sync", range(6))
def test_a_crash_at_each_change_of_a_sync_leaves_one_or_the_other(sync: int) -> None:
    """What is not synced survives by chance, change by change; nothing that the last checkpoint names is touched."""
    for seed in range(12):
        group, _ = one_stream(KEYED, seed=seed)
        member = group.members[0]
        model = [(f"{number % 7}", b"x" * 100) for number in range(60)]
        for number in range(0, 60, 6):
            append(group, *model[number : number + 6])
        stream_of(member).log.seal()
        member.checkpoint()
        if sync < 4:
            steps = work_on(member).steps()
            for _ in range(2 + 3 * sync):
                next(steps, None)
        else:
            compact(member)
            if sync == 5:
                member.checkpoint(is_synced=False)
        member.restart(group.log)
        _check(stream_of(member), content(member), model)
        compact(member)
        member.checkpoint()
        member.restart(group.log)
        assert content(member) == newest(model, 60)
        used = {part.page.location.segment for part in stream_of(member).log.parts()}
        assert {int(name[:8]) for name in member.disk.list(f"queues/{STREAM}")} == used


@pytest.mark.parametrize(
    ("key", "raw", "properties", "expected"),
    [
        ("routing-key", b"\1e\3k.1", b"\0\0", b"k.1"),
        ("routing-key", b"\1e\0", b"\0\0", b""),
        ("message-id", b"\0\1q", b"\x80\x80\4text\2m1", b"m1"),
        ("message-id", b"\0\1q", b"\x18\x80\2\5\0", b""),
        ("message-id", b"\0\1q", b"\0\0", b""),
        ("header:k", b"\0\1q", b"\x20\0" + b"\0\0\0\x15" + b"\1at\1" + b"\2bbI\0\0\0\5" + b"\1kS\0\0\0\2v1", b"v1"),
        ("header:k", b"\0\1q", b"\x20\0" + b"\0\0\0\x04" + b"\1at\1", b""),
        ("header:k", b"\0\1q", b"\x20\0" + b"\0\0\0\x07" + b"\1kI\0\0\0\5", b"I\0\0\0\5"),
        ("header:k", b"\0\1q", b"\0\0", b""),
    ],
)
def test_where_keys_are(key: str, raw: bytes, properties: bytes, expected: bytes) -> None:
    builder = ChunkBuilder(16)
    builder.add(build_message(Address(raw), properties, b"body", True, -1, -1, 0), 0, 0)
    chunk = Chunk(builder.seal())
    (at,) = chunk.places()
    assert find_key(key)(chunk.octets, at) == expected
    assert not is_empty(chunk.octets, at)



@pytest.mark.parametrize("table", [b"\xc8at\1", b"\1", b"\4kkkk", b"\1kS\0\0\xff\xff12", b"\1xS\xff\xff\xff\xff12"])
def test_a_table_of_headers_that_is_none_has_no_key(table: bytes) -> None:
    builder = ChunkBuilder(16)
    properties = b"\x20\0" + len(table).to_bytes(4, "big") + table
    builder.add(build_message(Address(b"\0\1q"), properties, b"", True, -1, -1, 0), 0, 0)
    chunk = Chunk(builder.seal())
    chunk.check()
    (at,) = chunk.places()
    assert find_key("header:k")(chunk.octets, at) == b""


def test_what_is_held_may_begin_within_a_page() -> None:
    _, member = one_log()
    compact(member, below=7)
    assert content(member) == {3: b"4", 4: b"5", 1: b"2", 5: b"", 6: b"", 7: b"6"}
    assert stream_of(member).log.compacted.below == 7
    compact(member, below=5)
    assert stream_of(member).log.compacted.below == 7
    compact(member)
    assert content(member) == newest(MODEL, 8)


@pytest.mark.parametrize("steps_before", [0, 1, 4, 9, 14])
def test_a_pass_goes_on_when_retention_takes_pages_meanwhile(steps_before: int) -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    model = [(f"key {number % 20}", b"x" * 40) for number in range(200)]
    for number in range(0, 200, 5):
        append(group, *model[number : number + 5])
    stream_of(member).log.seal()
    member.checkpoint()
    member.restart(group.log)  # pages are on the disk alone
    steps = work_on(member).steps()
    for _ in range(steps_before):
        next(steps)
    commit_as(group, "trimmer", len(group.log), Trim(STREAM, 150))
    assert not list(steps) or stream_of(member).log.compacted.below == 200
    assert stream_of(member).log.compacted.below == 200
    assert content(member) == {offset: body for offset, body in newest(model, 200).items() if offset >= 150}


@pytest.mark.parametrize("steps_before", range(1, 16))
def test_a_pass_ends_as_any_other_when_retention_takes_all_meanwhile(steps_before: int) -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    size = member.pager.page_bytes
    for _ in range(6):
        append(group, ("a", b"x" * size))
    log = stream_of(member).log
    log.seal()
    member.checkpoint()
    log.page_out(1 << 40)
    steps = work_on(member).steps()
    for _ in range(steps_before):  # in the end what it has written is synced
        next(steps)
    commit_as(group, "trimmer", len(group.log), Trim(STREAM, 6))
    for _ in steps:
        pass
    assert (log.compacted.below, log.first, log.octets, log.named_bytes) == (6, 6, 0, 0)
    append(group, ("b", b"y"))
    compact(member)
    check_books(log)
    for _ in range(2):
        member.checkpoint()
    assert live_bytes(member.pager.page_store, STREAM) == log.octets + 24
    member.restart(group.log)
    assert content(member) == {6: b"y"}


def test_a_page_that_would_stay_may_be_taken_at_any_slice() -> None:
    """Of the records of which it is made, or while what comes before it is written."""
    is_over = False
    steps_before = 0
    while not is_over:
        group, _ = one_stream(KEYED)
        member = group.members[0]
        model = [("twice", b"1"), *[(f"key {number}", b"x" * 40) for number in range(100)], ("twice", b"2")]
        for contents in (model[:51], model[51:101], model[101:]):
            append(group, *contents)
            stream_of(member).log.seal()
        member.checkpoint()
        steps = work_on(member, most_keys=1000).steps()
        for _ in range(steps_before):
            is_over = next(steps, steps) is steps
        commit_as(group, "trimmer", len(group.log), Trim(STREAM, 101))
        for _ in steps:
            pass
        assert content(member) == {101: b"2"}
        check_books(stream_of(member).log)
        for _ in range(2):
            member.checkpoint()
        assert live_bytes(member.pager.page_store, STREAM) == stream_of(member).log.octets + 24
        steps_before += 1
    assert steps_before > 10


def test_octets_are_counted_from_an_offset_on() -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    for number in range(40):
        append(group, (f"key {number % 9}", b"x" * 60))
    log = stream_of(member).log
    for _ in range(2):
        assert log.octets_from(0) == log.octets
        for part in log.parts():
            expected = sum(size for _, size in log.page_ends(part.page.first))
            assert log.octets_from(part.page.first) == log.octets_from(part.page.last) == expected
        assert log.octets_from(log.tail_begin) == log.tail_bytes
        assert log.octets_from(log.next) == 0
        list(work_on(member, below=25).steps())
        append(group, ("more", b"x"))


def test_a_page_that_keeps_a_dead_file_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of which nothing is superseded stay where they are, unless all else of their file is dead."""
    monkeypatch.setattr(quorum_world, "PAGE_SEGMENT_BYTES", 1 << 20)
    group, _ = one_stream(KEYED)
    member = group.members[0]
    size = member.pager.page_bytes
    append(group, ("stays", b"s" * size))
    for _ in range(6):
        append(group, ("changes", b"c" * size))
    append(group, ("last", b""))
    for _ in range(2):
        compact(member)
        member.checkpoint()
        member.checkpoint()
        member.restart(group.log)
    store, log = member.pager.page_store, stream_of(member).log
    assert set(content(member)) == {0, 6, 7}
    assert disk_bytes(store, STREAM) < 2 * log.octets


def check_books(log: StreamLog) -> None:
    """What the log keeps of its pages in sums is what they are."""
    parts = log.parts()
    named = len(log.names) // len(parts[0].name())
    assert bytes(log.names) == b"".join(part.name() for part in parts[:named])
    assert [part.page.is_named for part in parts] == [True] * named + [False] * (len(parts) - named)
    assert log.named_bytes == sum(part.page.location.length for part in parts[:named])
    assert log.octets == sum(part.page.location.length for part in parts) + log.tail_bytes
    assert [log.octets_up_to(part) - part.taken - log.octets_up_to(parts[0]) + parts[0].taken for part in parts] == [
        sum(each.taken for each in parts[:number]) for number in range(len(parts))
    ]


@pytest.mark.parametrize("trimmed_to", [0, 1, 40, 105, 190])
def test_scattered_pages_are_succeeded_whatever_retention_has_taken(trimmed_to: int) -> None:
    group, _ = one_stream(KEYED)
    member = group.members[0]
    size = member.pager.page_bytes
    model = []
    for number in range(200):  # a page of each, of which every seventh is superseded
        record = (f"key {number if number % 7 else 0}", b"%d" % number * size)
        model.append((record[0], record[1][:size]))
        append(group, model[-1])
    log = stream_of(member).log
    log.seal()
    member.checkpoint()
    log.page_out(1 << 40)
    used = member.pager.used
    steps = work_on(member, most_keys=10_000).steps()
    for _ in range(210):
        next(steps)
    commit_as(group, "trimmer", len(group.log), Trim(STREAM, trimmed_to))
    append(group, ("more", b"x" * size))
    model.append(("more", b"x" * size))
    log.chunk_at(190)  # somebody has a page in RAM
    for _ in steps:
        pass
    check_books(log)
    expected = {offset: body for offset, body in newest(model, 200).items() if offset >= trimmed_to}
    assert content(member) == expected
    for _ in range(2):
        member.checkpoint()
    store = member.pager.page_store
    assert live_bytes(store, STREAM) == log.octets - log.tail_bytes + 24 * len(log.parts())
    member.restart(group.log)
    assert content(member) == expected
    stream_of(member).log.page_out(1 << 40)
    assert member.pager.used <= used + 2 * size
    check_books(stream_of(member).log)


def test_no_slice_costs_by_the_number_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def instead(*arguments: object) -> object:
            nonlocal count
            count += 1
            return method(*arguments)

        monkeypatch.setattr(kind, name, instead)

    group, _ = one_stream(KEYED)
    member = group.members[0]
    size = member.pager.page_bytes
    for number in range(1500):
        append(group, (f"key {number if number % 3 else 0}", b"x" * size))
    log = stream_of(member).log
    log.seal()
    log.page_out(1 << 40)
    for kind, name in ((Part, "name"), (StreamLog, "_release"), (StreamLog, "_is_stored"), (StreamLog, "_name_next")):
        counted(kind, name)
    most = 0
    for _ in work_on(member, most_keys=10_000).steps():
        most = max(most, count)
        count = 0
    assert log.compacted.below == 1500
    assert len(log.parts()) == 1001
    assert max(most, count) <= 512
