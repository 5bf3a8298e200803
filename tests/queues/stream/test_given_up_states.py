"""A state with very many pages of streams that is none any more, because another member's has come, or because the node
is no member now: it gives everything back in slices, and nothing is lost or kept if a crash falls between two. So does
a stream of which retention takes very many pages."""

from __future__ import annotations

import pytest

from queues.quorum.commands import DropQueue
from queues.stream import log as stream_log
from queues.stream.commands import OpenStream, Trim
from queues.stream.settings import StreamSettings
from raft.errors import NotNow
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.quorum.quorum_world import Stream as CommandStream
from tests.queues.stream.stream_world import STREAM, append, bodies_of, commit_as, one_stream, stream_of, tiny_pages
from tests.storage.page_files import live_bytes

__all__ = ["tiny_pages"]
pytestmark = pytest.mark.usefixtures("tiny_pages")
MESSAGES = 400
A_SLICE = 8


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    """Of two members, each with some hundred pages, of which a checkpoint names the older half."""
    monkeypatch.setattr(stream_log, "DISCARDED", A_SLICE)
    found, _ = one_stream(members=2)
    for half in range(2):
        for number in range(MESSAGES // 2):
            append(found, b"%04d" % (half * MESSAGES // 2 + number) + bytes(100))
        if not half:
            for member in found.members:
                member.checkpoint()
    for member in found.members:
        member.machine.watch_discards(None)
    assert len(stream_of(found.members[1]).log.parts()) > 10 * A_SLICE
    return found


def given_back(member: Member) -> int:
    """How many pages were given back, and are not collected."""
    return len(member.pager.released)


def discard(member: Member, slices: int = 1 << 30) -> None:
    """So many slices, each of which is one."""
    while slices and member.machine.is_discarding:
        before = given_back(member)
        member.machine.discard_some(0)
        assert given_back(member) - before <= A_SLICE
        slices -= 1


def install(member: Member, other: Member) -> None:
    member.machine.begin_install()
    for chunk in other.machine.export():
        member.machine.install_chunk(chunk)
    before = given_back(member)
    member.machine.end_install()
    assert given_back(member) - before <= A_SLICE, "all is given back at once"
    member.applied = other.applied
    member.machine.take_effects()


def has_what_is_live(member: Member) -> None:
    """Two checkpoints later: the stream, and nothing else on the disk or in RAM."""
    member.checkpoint()
    member.checkpoint()
    assert bodies_of(member) == [b"%04d" % number + bytes(100) for number in range(MESSAGES)]
    parts = stream_of(member).log.parts()
    stored = [part.page.location for part in parts if part.page.location is not None]
    assert live_bytes(member.page_store, STREAM) == sum(location.disk_bytes for location in stored)
    in_ram = sum(part.page.size for part in parts if part.page.data is not None)
    assert member.pager.used == in_ram + stream_of(member).log.tail_bytes


def test_a_state_that_was_replaced_goes_in_slices(group: Group) -> None:
    other, member = group.members
    heard: list[None] = []
    member.machine.watch_discards(lambda: heard.append(None))
    install(member, other)
    assert heard, "nobody knows that there is something to do"
    assert member.machine.is_discarding
    discard(member)
    has_what_is_live(member)


@pytest.mark.parametrize("slices", [0, 3, 12])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_crash_between_slices_keeps_nothing_and_loses_nothing(
    group: Group, slices: int, has_checkpoint: bool
) -> None:
    other, member = group.members
    install(member, other)
    if has_checkpoint:  # as the log has it with every install
        member.checkpoint()
    discard(member, slices)
    member.checkpoint(is_synced=False)
    member.restart(group.log)
    has_what_is_live(member)


def test_a_node_that_is_no_member_any_more_gives_back_in_slices(group: Group) -> None:
    member = group.members[1]
    member.machine.clear()
    assert given_back(member) <= A_SLICE
    discard(member)
    member.checkpoint()
    assert member.pager.used == 0
    assert not [name for name in member.disk.list("") if str(STREAM) in name]


def test_what_has_come_of_a_state_that_is_not_wanted_goes_in_slices(group: Group) -> None:
    other, member = group.members
    member.machine.begin_install()
    member.machine.install_chunk(b"".join(other.machine.export())[:-1])
    before = given_back(member)
    member.machine.abort_install()
    assert given_back(member) - before <= A_SLICE
    discard(member, 3)
    with pytest.raises(NotNow):  # the rest goes before anything comes
        member.machine.begin_install()
    discard(member)
    install(member, other)
    discard(member)
    has_what_is_live(member)


def test_places_go_before_a_stream_of_the_same_id_comes_again(group: Group) -> None:
    member = group.members[1]
    member.machine.clear()
    assert member.machine.is_discarding
    fresh = Group(member)
    member.applied = 0
    CommandStream(fresh, member, session=9).send(OpenStream(STREAM, StreamSettings()))
    assert not member.machine.is_discarding


def test_a_checkpoint_after_an_install_has_little_to_name(group: Group) -> None:
    other, member = group.members
    install(member, other)
    assert len(stream_of(member).log.unnamed()) <= 1


def trimmed(group: Group, first: int) -> Member:
    """The second member, of which a slice was given back at once."""
    member = group.members[1]
    pages = len(stream_of(member).log.parts())
    octets = stream_of(member).log.octets
    commit_as(group, "operator", 1, Trim(STREAM, first))
    assert stream_of(member).first == first
    assert member.machine.is_discarding
    left = stream_of(member).log.octets
    assert octets - left <= 2 * A_SLICE * octets // pages, "all is given back at once"
    return member


def has_what_is_left(member: Member, first: int) -> None:
    member.checkpoint()
    member.checkpoint()
    assert bodies_of(member) == [b"%04d" % number + bytes(100) for number in range(first, MESSAGES)]
    log = stream_of(member).log
    stored = [part.page.location for part in log.parts() if part.page.location is not None]
    assert live_bytes(member.page_store, STREAM) == sum(location.disk_bytes for location in stored)
    assert log.octets == sum(location.length for location in stored) + log.tail_bytes


def test_what_retention_takes_goes_in_slices(group: Group) -> None:
    heard: list[None] = []
    group.members[1].machine.watch_discards(lambda: heard.append(None))
    member = trimmed(group, MESSAGES - 10)
    assert heard, "nobody knows that there is something to do"
    assert bodies_of(member) == [b"%04d" % number + bytes(100) for number in range(MESSAGES - 10, MESSAGES)]
    discard(member)
    has_what_is_left(member, MESSAGES - 10)


@pytest.mark.parametrize("slices", [0, 3, 12])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_crash_between_slices_of_retention_keeps_nothing_and_loses_nothing(
    group: Group, slices: int, is_synced: bool
) -> None:
    member = trimmed(group, MESSAGES - 10)
    discard(member, slices)
    member.checkpoint(is_synced=is_synced)
    member.restart(group.log)
    discard(member)
    has_what_is_left(member, MESSAGES - 10)


@pytest.mark.parametrize("what", ["deleted", "replaced", "trimmed"])
def test_what_comes_while_retention_gives_back(group: Group, what: str) -> None:
    other = group.members[0]
    member = trimmed(group, MESSAGES - 10)
    if what == "trimmed":
        commit_as(group, "operator", 2, Trim(STREAM, MESSAGES - 5))
        discard(member)
        has_what_is_left(member, MESSAGES - 5)
    elif what == "replaced":
        discard(other)
        install(member, other)
        discard(member)
        has_what_is_left(member, MESSAGES - 10)
    else:
        commit_as(group, "operator", 2, DropQueue(STREAM))
        discard(member)
        member.checkpoint()
        member.checkpoint()
        assert member.pager.used == 0
        assert not [name for name in member.disk.list("") if str(STREAM) in name]
