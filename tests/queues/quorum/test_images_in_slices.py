"""Checkpoints and exports that are made in slices are of the moment at which they were begun, whatever is applied
meanwhile; and no page goes that one of them names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from queues.quorum import checkpoint, leases, places
from queues.quorum.capture import Capture
from queues.quorum.commands import OpenQueue
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import BUDGETS, Group, Member, Stream, settings_of
from tests.queues.quorum.random_log import RandomGroup
from tests.queues.stream.stream_world import tiny_pages
from tests.queues.stream.test_cursor_determinism import CursorGroup

__all__ = ["tiny_pages"]
STEPS = 100
Make = Callable[[int], RandomGroup]


@pytest.fixture(autouse=True)
def slices_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RELEASE_MESSAGES", 4)
    monkeypatch.setattr(checkpoint, "SLICE_BYTES", 1)
    monkeypatch.setattr(places, "CUT_BYTES", 1)
    monkeypatch.setattr(places, "AHEAD_BYTES", 1)


class Image:
    """An export of a member that goes on: what it is to be, and what has come of it."""

    def __init__(self, of: Member) -> None:
        self.digest = digest_of(of.machine)
        self._rest = iter(of.machine.export())
        self._chunks: list[bytes] = []

    def go_on(self, count: int) -> bool:
        """Take so many chunks. Returns whether that were all."""
        taken = list(islice(self._rest, count))
        self._chunks += taken
        return len(taken) < count

    def check(self) -> None:
        """Somebody installs it."""
        fresh = Member("fresh", BUDGETS[0])
        fresh.machine.begin_install()
        for chunk in self._chunks:
            fresh.machine.install_chunk(chunk)
        fresh.machine.end_install()
        assert digest_of(fresh.machine) == self.digest


def run(group: RandomGroup) -> int:
    """Random traffic, and beside it images in slices: checkpoints that crashes fall into or behind, and exports.
    Returns how many were checked."""
    chance = group.chance
    images: dict[str, Image] = {}
    checked = 0
    for _ in range(STEPS):
        group.step()
        for node in group.nodes:
            member, name = node.member, node.member.name
            if member.checkpointing is None and chance.random() < 0.2:
                member.prepare_checkpoint()
            if name not in images and chance.random() < 0.2:
                images[name] = Image(member)
            checked += member.go_on_with_checkpoint(chance.randrange(10), is_synced=chance.random() < 0.8)
            if name in images and images[name].go_on(chance.randrange(1, 10)):
                images.pop(name).check()
                checked += 1
            if chance.random() < 0.03:
                images.pop(name, None)
                member.restart(group.log)
    wanted = digest_of(group.nodes[0].shadow.machine)
    assert all(digest_of(node.member.machine) == wanted for node in group.nodes)
    return checked


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("make", [RandomGroup, CursorGroup])
def test_an_image_is_of_its_beginning(make: Make, seed: int) -> None:
    assert run(make(seed)) > 2


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("make", [RandomGroup, CursorGroup])
def test_one_that_does_not_hear_of_changes_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Capture.__init__

    def deaf(self: Capture, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        self.close = lambda: None  # type: ignore[method-assign]
        arguments[2].remove(self)  # type: ignore[attr-defined]

    monkeypatch.setattr(Capture, "__init__", deaf)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        list(map(run, map(make, range(20))))


def many_queues(count: int) -> tuple[Group, Member]:
    member = Member("n1")
    group = Group(member)
    stream = Stream(group, member)
    stream.send(*[OpenQueue(number, settings_of()) for number in range(1, count + 1)])
    for number in range(1, count + 1):
        stream.publish(number, queue_id=number)
    return group, member


@pytest.mark.parametrize("what", ["checkpoint", "export"])
def test_a_slice_notes_a_few_queues(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    monkeypatch.undo()
    noted: list[int] = []
    note = Capture.note

    def counted(self: Capture, queue_id: int) -> None:
        noted.append(queue_id)
        note(self, queue_id)

    monkeypatch.setattr(Capture, "note", counted)
    _, member = many_queues(300)
    machine = member.machine
    rest: Iterator[bytes | None] = machine.checkpoint_in_slices() if what == "checkpoint" else machine.export()
    most = before = 0
    assert not noted
    for _ in rest:
        most, before = max(most, len(noted) - before), len(noted)
    assert len(noted) == 300
    assert 0 < most <= 100


def test_what_is_published_meanwhile_notes_its_queue_alone() -> None:
    group, member = many_queues(50)
    taken = member.machine.checkpoint_in_slices()
    stream = Stream(group, member, session=2000)
    stream.publish(1000, queue_id=7)
    assert list(taken._capture._noted) == [7]
    stream.publish(1001, queue_id=7)
    assert list(taken._capture._noted) == [7]
