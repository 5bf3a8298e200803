"""A state with very many pages of streams that is none any more, because another member's has come, or because the node
is no member now: it gives everything back in slices, and nothing is lost or kept if a crash falls between two."""

from __future__ import annotations

import pytest

from queues.stream import log as stream_log
from queues.stream.commands import OpenStream
from queues.stream.settings import StreamSettings
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.quorum.quorum_world import Stream as CommandStream
from tests.queues.stream.stream_world import STREAM, append, bodies_of, one_stream, stream_of, tiny_pages

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
    assert member.page_store.live_bytes(STREAM) == sum(location.disk_bytes for location in stored)
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
    for chunk in list(other.machine.export())[:-1]:
        member.machine.install_chunk(chunk)
    before = given_back(member)
    member.machine.abort_install()
    assert given_back(member) - before <= A_SLICE
    discard(member, 3)
    install(member, other)  # the rest goes before anything comes
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
