"""Streams as a queue group's machine has them: what is appended gets its offsets, once; what is too old or too much
goes; producers, holds, and who is told what."""

from __future__ import annotations

import pytest

from queues.effects import Confirmed, Counted, Gone, Grown, QueueGone, Refusal, Refused
from queues.page import AddressBook
from queues.quorum.commands import (
    VERSION,
    VERSION_WITH_STREAMS,
    Batch,
    Command,
    DropQueue,
    NodeDown,
    Purge,
    decode_batch,
    encode_batch,
    encode_leader_batch,
)
from queues.quorum.placement import has_chunk_of
from queues.quorum.session import OwnStream
from queues.stream import pages as stream_pages
from queues.stream.commands import (
    AppendChunk,
    ForgetGroup,
    HoldStream,
    JoinGroup,
    LeaveGroup,
    OpenStream,
    SeekGroup,
    StorePosition,
    Trim,
)
from queues.stream.damaged import Damaged
from queues.stream.groups import MOST_GROUPS
from queues.stream.groups import Member as GroupMember
from queues.stream.settings import StreamSettings
from queues.stream.stream import Published
from queues.wire.reader import Malformed
from storage.page_store import page_path
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Group, Member, of_type, refusals
from tests.queues.stream.stream_world import (
    STREAM,
    append,
    bodies_of,
    chunk_of,
    commit_as,
    one_stream,
    records,
    stream_of,
    tiny_pages,
)
from tests.storage.page_files import disk_bytes, live_bytes

pytestmark = pytest.mark.usefixtures("tiny_pages")
__all__ = ["tiny_pages"]


def test_chunks_get_offsets_in_the_order_of_the_log() -> None:
    group, node = one_stream()
    group.members[0].machine.tell_growth(STREAM, True)
    effects = node.send(AppendChunk(STREAM, chunk_of(b"a", b"b")), AppendChunk(STREAM, chunk_of(b"c")))
    assert effects == [Grown(STREAM, 2), Grown(STREAM, 3), Confirmed(node.session, 2, 3, ())]
    assert list(records(stream_of(group.members[0]), 1)) == [(1, b"b"), (2, b"c")]


def test_what_goes_to_no_stream_is_refused() -> None:
    _, node = one_stream()
    for command in (AppendChunk(9, chunk_of(b"a")), Trim(9, 1), HoldStream(9, "h", 1, 1)):
        effects = node.send(command)
        assert of_type(effects, Confirmed)[0].refused == (Refused(node.sequence, Refusal.NO_QUEUE),)


def test_a_dropped_stream_gives_everything_back() -> None:
    group, node = one_stream()
    member = group.members[0]
    for number in range(40):
        append(group, b"%d" % number)
    member.checkpoint()
    assert member.pager.used
    effects = node.send(DropQueue(STREAM))
    assert QueueGone(STREAM, Gone.DROPPED) in effects
    assert of_type(effects, Counted)[0].messages == 0
    assert member.machine.stream(STREAM) is None
    assert member.pager.used == 0
    member.checkpoint()
    assert member.page_store.stored_queues() == []
    node.send(OpenStream(STREAM, StreamSettings()))
    assert stream_of(member).next == 0


def test_commands_of_queues_find_no_stream() -> None:
    _, node = one_stream()
    assert of_type(node.send(Purge(STREAM)), Counted)[0].messages == 0


def test_the_own_node_is_told_nothing_before_it_has_a_session() -> None:
    group, _ = one_stream()
    append(group, b"a")
    member = Member("other")
    member.machine.tell_growth(STREAM, True)
    assert of_type(member.apply(group.log), Grown) == []


# -- producers ---------------------------------------------------------------------------------------------------------


def test_of_a_producers_sequence_a_message_is_taken_once() -> None:
    group, node = one_stream()
    member = group.members[0]
    for bodies, sequence in (((b"a", b"b", b"c"), 1), ((b"b", b"c", b"d"), 2), ((b"a",), 1), ((b"z",), 9)):
        command = AppendChunk(STREAM, chunk_of(*bodies, producer=b"p", sequence=sequence))
        confirmed = of_type(node.send(command), Confirmed)[0]
        assert confirmed.refused == (), "what is known is confirmed: it is there"
        if sequence == 2:
            assert stream_of(member).producers == {b"p": Published(4, 3)}, "of what was left of the chunk"
    assert bodies_of(member) == [b"a", b"b", b"c", b"d", b"z"]
    assert stream_of(member).producers == {b"p": Published(9, 4)}
    append(group, b"a")
    assert bodies_of(member)[-1] == b"a"


# -- retention ---------------------------------------------------------------------------------------------------------


def test_size_takes_the_oldest_and_keeps_the_limit() -> None:
    group, _ = one_stream(StreamSettings(max_length_bytes=2_000))
    member = group.members[0]
    size = len(chunk_of(b"0000"))
    first = 0
    for number in range(200):
        append(group, b"%04d" % number)
        stream = stream_of(member)
        assert stream.first >= first, "it never falls"
        first = stream.first
        kept = (stream.next - first) * size
        assert 2_000 <= kept <= 2_000 + 3 * size or first == 0
    assert bodies_of(member) == [b"%04d" % number for number in range(first, 200)]
    assert live_bytes(member.page_store, STREAM) < 4_000, "files follow"


def test_a_segment_is_how_exactly_the_limit_is_obeyed() -> None:
    group, _ = one_stream(StreamSettings(max_length_bytes=1_000_000, segment_bytes=500))
    for number in range(30):
        append(group, b"%04d" % number)
    offsets = [mark.offset for mark in stream_of(group.members[0]).marks.marks]
    size = len(chunk_of(b"0000"))
    assert offsets == list(range(0, 30, -(-500 // size)))


def test_age_works_on_a_stream_to_which_nobody_publishes() -> None:
    group, _ = one_stream(StreamSettings(max_age=1_000), members=2)
    for number in range(20):
        append(group, b"%04d" % number)
        group.now += 100
    group.advance(0)
    assert stream_of(group.members[0]).first in range(8, 11)
    group.advance(700)
    assert stream_of(group.members[0]).first in range(15, 18)
    group.advance(100_000)
    stream = stream_of(group.members[0])
    assert (stream.first, stream.next) == (19, 20), "what is behind the newest mark stays"
    assert group.members[0].machine.next_deadline() is None
    assert stream_of(group.members[1]).first == 19


def test_new_settings_count_at_once_and_can_be_taken_back() -> None:
    group, node = one_stream(StreamSettings(segment_bytes=100))
    member = group.members[0]
    for number in range(50):
        append(group, b"%04d" % number)
    node.send(OpenStream(STREAM, StreamSettings(max_length_bytes=1_000, segment_bytes=100)))
    first = stream_of(member).first
    assert first > 20
    assert member.machine.settings_of(STREAM) == StreamSettings(max_length_bytes=1_000, segment_bytes=100)
    node.send(OpenStream(STREAM, StreamSettings()))
    append(group, b"last")
    assert stream_of(member).first == first


def test_who_does_not_listen_is_not_told_that_a_stream_has_grown() -> None:
    """Most have no readers at a node, and there may be very many of them in an entry."""
    group, node = one_stream()
    machine = group.members[0].machine
    told = []
    for is_wanted in (False, True, False):
        machine.tell_growth(STREAM, is_wanted)
        told.append(of_type(node.send(AppendChunk(STREAM, chunk_of(b"a"))), Grown))
    assert told == [[], [Grown(STREAM, 2)], []]


def test_trim_never_goes_back_nor_beyond_the_end() -> None:
    group, node = one_stream()
    member = group.members[0]
    member.machine.tell_growth(STREAM, True)
    for number in range(30):
        append(group, b"%04d" % number)
    for to, first in ((7, 7), (3, 7), (8, 8), (1_000, 30), (0, 30)):
        assert Grown(STREAM, 30) in node.send(Trim(STREAM, to))
        assert stream_of(member).first == first
        assert len(bodies_of(member)) == 30 - first
    assert stream_of(member).log.octets == 0
    append(group, b"more")
    assert bodies_of(member) == [b"more"]


def test_a_hold_stops_age_until_it_ends_or_holds_back_twice_the_limit() -> None:
    group, node = one_stream(StreamSettings(max_age=1_000))
    member = group.members[0]
    for number in range(20):
        append(group, b"%04d" % number)
        group.now += 100
        if number == 5:
            node.send(HoldStream(STREAM, "job", 3, group.now + 1_500))
    group.advance(-100)
    assert stream_of(member).first == 3
    group.advance(300)
    assert stream_of(member).first > 5, "it has ended"
    node.send(HoldStream(STREAM, "job", stream_of(member).first, group.now + 1_000_000))
    held = stream_of(member).first
    group.advance(900)
    assert stream_of(member).first == held
    group.advance(600)
    assert stream_of(member).first > held
    group.advance(100_000)
    assert stream_of(member).first == 19
    assert member.machine.next_deadline() == stream_of(member).holds["job"].until, "nothing is due in between"
    node.send(HoldStream(STREAM, "job", 0, 0))
    assert stream_of(member).holds == {}


def test_what_was_held_goes_when_the_hold_is_ended() -> None:
    group, node = one_stream(StreamSettings(max_age=1_000))
    member = group.members[0]
    node.send(HoldStream(STREAM, "job", 0, 1 << 40))
    for number in range(20):
        append(group, b"%04d" % number)
        group.now += 75
    group.advance(0)
    assert stream_of(member).first == 0
    node.send(HoldStream(STREAM, "job", 0, 0))
    assert stream_of(member).first > 4


def test_a_hold_stops_size_up_to_twice_the_limit() -> None:
    group, node = one_stream(StreamSettings(max_length_bytes=1_000))
    member = group.members[0]
    append(group, b"0000")
    node.send(HoldStream(STREAM, "job", 1, 1 << 40))
    size = len(chunk_of(b"0000"))
    for number in range(1, 60):
        append(group, b"%04d" % number)
        stream = stream_of(member)
        assert stream.first == 1 or (stream.next - stream.first) * size >= 2_000 or number * size < 2_000
    assert stream_of(member).first > 1


def test_holds_are_limited_by_the_log_whichever_nodes_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.stream.stream.MOST_HOLDS", 2)
    group, node = one_stream()
    holds = [HoldStream(STREAM, name, 0, group.now + 100) for name in "abca"]
    assert refusals(node.send(*holds)) == [Refusal.FULL]  # all in one batch: nobody has seen what the others ask
    group.now += 200
    assert refusals(node.send(HoldStream(STREAM, "d", 0, group.now + 100))) == []
    assert list(stream_of(group.members[0]).holds) == ["d"]


def test_a_stream_that_goes_is_not_gone_through_page_by_page() -> None:
    """Its files go as a whole, with the checkpoint that does not have it."""
    group, _ = one_stream()
    member = group.members[0]
    for number in range(300):
        append(group, b"%04d" % number + bytes(100))
    member.checkpoint()
    for number in range(300):
        append(group, b"%04d" % number + bytes(100))
    pages = len(stream_of(member).log.parts())
    assert pages > 50
    assert disk_bytes(member.page_store, STREAM) > 0
    group.log.append(encode_batch(Batch(group.now, "x", 1, 1, 0, [DropQueue(STREAM)])))
    member.applied += 1
    member.machine.apply(member.applied, 1, group.log[-1], 0)
    assert len(member.pager.released) < 5, "each page is given back by itself"
    assert member.pager.used == 0
    member.checkpoint()
    assert disk_bytes(member.page_store, STREAM) == 0
    assert not [name for name in member.disk.list("") if str(STREAM) in name]


def restarted(source: Member, group: Group) -> None:
    """With pages that are names, and that nobody has asked for."""
    stream_of(source).log.seal()
    source.checkpoint()
    source.restart(group.log)


def test_what_an_export_notes_does_not_cost_by_the_pages_that_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it has what was there, though the stream goes on, and nobody else wants the oldest of it."""
    group, _ = one_stream(members=2)
    source, target = group.members
    for number in range(100):
        append(group, b"%03d" % number * 30)
    expected = bodies_of(source)
    restarted(source, group)
    made = []
    make = stream_pages._part_named

    def counted(names: bytes, place: int) -> stream_pages.Part:
        made.append(place)
        return make(names, place)

    monkeypatch.setattr(stream_pages, "_part_named", counted)
    export = source.machine.export()
    target.machine.begin_install()
    append(group, b"more")  # it is noted before that
    assert made == []
    commit_as(group, "trimmer", len(group.log), Trim(STREAM, 50))
    for _ in range(2):
        source.checkpoint()
    for chunk in export:
        target.machine.install_chunk(chunk)
    assert len(made) > 50
    target.machine.end_install()
    assert bodies_of(target) == expected


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_an_export_cannot_read_is_the_page_that_the_log_has(is_gone: bool) -> None:
    group, _ = one_stream()
    source = group.members[0]
    for number in range(100):
        append(group, b"%03d" % number * 30)
    restarted(source, group)
    log = stream_of(source).log
    damaged = log.parts()[3]
    first, location = damaged.page.first, damaged.page.location
    path = page_path(STREAM, location.segment)
    octets = bytearray(source.disk.contents(path))
    octets[location.offset + 60] ^= 1
    source.disk.overwrite(path, bytes(octets))
    export = source.machine.export()
    if is_gone:
        commit_as(group, "trimmer", len(group.log), Trim(STREAM, 90))
    with pytest.raises(Damaged):
        list(export)
    assert log.damaged is not None
    assert log.damaged.page.first == first
    assert (log.damaged is damaged) is not is_gone


# -- the forms ---------------------------------------------------------------------------------------------------------


def test_a_batch_with_a_stream_command_has_a_version_of_its_own() -> None:
    plain = encode_batch(Batch(1, "n1", 1, 1, 0, [DropQueue(1)]))
    batch = encode_batch(Batch(1, "n1", 1, 1, 0, [DropQueue(1), AppendChunk(STREAM, chunk_of(b"a"))]))
    assert (plain[0], batch[0]) == (VERSION, VERSION_WITH_STREAMS)
    for version, data in ((VERSION, batch), (VERSION_WITH_STREAMS, plain)):
        with pytest.raises(Malformed, match="version 3"):
            decode_batch(bytes([version]) + data[1:], AddressBook())


def test_a_nodes_own_stream_of_commands_makes_such_batches() -> None:
    own = OwnStream("n1", 1_000)
    big = AppendChunk(STREAM, chunk_of(b"x" * 10_000))
    own.submit(DropQueue(1))
    for _ in range(30):  # more than one batch takes
        own.submit(big)
    versions = [batch[0] for batch in own.take_batches()]
    assert versions == [VERSION_WITH_STREAMS] * len(versions)
    assert len(versions) > 1
    own.submit(DropQueue(1))
    assert [batch[0] for batch in own.take_batches()] == [VERSION]
    own.reopen(2_000)
    again = [decode_batch(batch, AddressBook()) for batch in own.take_batches()]
    assert sum(len(batch.commands) for batch in again) == 32
    assert encode_batch(again[0])[0] == VERSION_WITH_STREAMS


def test_a_chunk_that_does_not_add_up_is_no_command() -> None:
    data = encode_batch(Batch(1, "n1", 1, 1, 0, [AppendChunk(STREAM, chunk_of(b"abc", b"def"))]))
    for position in range(len(data) - 200, len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 1
        try:
            assert encode_batch(decode_batch(bytes(wrong), AddressBook())) == wrong
        except Malformed:
            continue


def test_an_image_with_streams_has_a_version_of_its_own() -> None:
    group, node = one_stream()
    member = group.members[0]
    append(group, b"a")
    assert b"".join(member.machine.export())[5] == VERSION_WITH_STREAMS
    commit_as(group, "x", 1, DropQueue(STREAM))
    assert b"".join(member.machine.export())[5] == VERSION
    assert node.sequence == 1


# -- groups of readers


def test_the_members_of_a_node_go_with_its_session() -> None:
    group, node = one_stream()
    commit_as(group, "other", 1, JoinGroup(STREAM, "g", 7, 3))
    node.send(JoinGroup(STREAM, "g", 1, 9), JoinGroup(STREAM, "h", 2, 4))
    groups = stream_of(group.members[0]).groups
    found = groups.get("g")
    assert found is not None
    assert (found.position, found.reader) == (3, GroupMember("other 1", 7))
    group.commit(encode_leader_batch(group.now, [NodeDown("other 1", 1)]))
    assert found.members == [GroupMember(node.member.name, 1)]
    assert found.generation == 2
    group.commit(encode_leader_batch(group.now, [NodeDown(node.member.name, node.session)]))
    assert [each.members for _, each in groups] == [[], []]
    assert found.position == 3


def test_what_groups_are_refused() -> None:
    group, node = one_stream()
    node.send(JoinGroup(STREAM, "g", 1, 0))

    def refusal(command: Command) -> Refusal | None:
        confirmed = of_type(node.send(command), Confirmed)[0]
        return confirmed.refused[0].refusal if confirmed.refused else None

    assert refusal(StorePosition(STREAM, "g", 1, 0, 0)) is None
    assert refusal(StorePosition(STREAM, "g", 2, 0, 0)) is Refusal.FENCED
    assert refusal(StorePosition(STREAM, "none", 1, 0, 0)) is Refusal.FENCED
    assert refusal(ForgetGroup(STREAM, "g")) is Refusal.EXCLUSIVE
    assert refusal(LeaveGroup(STREAM, "g", 1)) is None
    assert refusal(ForgetGroup(STREAM, "g")) is None
    assert refusal(JoinGroup(9, "g", 1, 0)) is Refusal.NO_QUEUE
    node.send(*[SeekGroup(STREAM, f"{number}", 0) for number in range(MOST_GROUPS)])
    assert refusal(JoinGroup(STREAM, "one more", 2, 0)) is Refusal.FULL
    assert refusal(SeekGroup(STREAM, "one more", 0)) is Refusal.FULL
    assert len(stream_of(group.members[0]).groups) == MOST_GROUPS


@pytest.mark.parametrize(("sizes", "is_found"), [((10, 50), False), ((10, 4000, 10), True), ((), False)])
def test_a_large_chunk_is_found_among_small_ones(sizes: tuple[int, ...], is_found: bool) -> None:
    commands = [AppendChunk(STREAM, chunk_of(b"x" * size)) for size in sizes]
    data = encode_batch(Batch(1, "n1", 1, 1, 0, [DropQueue(1), Trim(STREAM, 2), *commands]))
    assert has_chunk_of(data, 4000) == is_found
    if is_found:
        assert has_chunk_of(data, len(commands[1].chunk))
        assert not has_chunk_of(data, len(commands[1].chunk) + 1)


def test_a_stream_that_grows_is_due_when_its_oldest_chunks_are_too_old() -> None:
    """Looked at when there is a new mark, and not with every chunk."""
    group, _ = one_stream(StreamSettings(max_age=6_400))
    member = group.members[0]
    for _ in range(300):
        append(group, b"x")
        group.advance(10)
        stream = stream_of(member)
        due = stream.due_at(group.now)
        deadline = member.machine.next_deadline()
        assert not due or (deadline is not None and deadline <= due)
    group.advance(20_000)
    assert stream_of(member).first == 290  # where the newest mark is


def test_a_time_that_is_watched_and_is_none_any_more_cuts_nothing() -> None:
    """What came since the newest mark counts for the limit when the stream is looked at, and members look together."""
    limit = 6_400
    group, node = one_stream(StreamSettings(limit, 1_000, 400), members=2)
    first, second = group.members
    small = len(chunk_of(b"s"))
    large = b"." * (limit - small - small // 2 - len(chunk_of(b"")))
    for body in (b"s", b"s", large, b"s"):
        group.now += 200
        append(group, body)
    was_due = first.machine.next_deadline()
    assert was_due is not None
    node.send(Trim(STREAM, 1))
    append(group, b"s")  # too soon for a mark, and more than the limit behind the second one
    second.checkpoint()
    second.restart(group.log)
    group.now = was_due
    group.lead()
    assert digest_of(first.machine) == digest_of(second.machine)
