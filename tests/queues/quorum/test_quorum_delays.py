"""A queue that holds back: messages leave in the order in which they are due, wherever they lie."""

from __future__ import annotations

import random

import pytest

from queues.effects import DeadLettered, Effect
from queues.quorum.commands import Dispatched, Enqueue
from tests.example_counts import seeds
from tests.queues.queue_world import message_named, name_of
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Group, Member, Stream, letters_of, of_type, ready_names, settings_of

SETTINGS = settings_of(dead_letter_exchange="later", holds_back=True)


def released(effects: list[Effect]) -> list[int]:
    return [name_of(each.message) for each in of_type(effects, DeadLettered)]


def test_messages_leave_when_they_are_due() -> None:
    member = Member("n1")
    group = Group(member, settings=SETTINGS)
    member.machine.role_changed(True, "n1", 1, 0)
    stream = Stream(group, member)
    for name, delay in ((1, 300), (2, 100), (3, 200), (4, 100)):
        stream.publish(name, expiration=delay)
    assert ready_names(member) == [2, 4, 3, 1]
    assert released(group.advance(99)["n1"]) == []
    assert released(group.advance(1)["n1"]) == [2, 4]
    stream.publish(5, expiration=50)
    effects = group.advance(1000)["n1"]
    assert released(effects) == [5, 3, 1]
    group.lead(Dispatched(1, of_type(effects, DeadLettered)[-1].letter))
    assert member.pager.used == 0
    assert member.machine.next_deadline() is None


@pytest.mark.parametrize("seed", seeds(range(12)))
def test_members_agree_whatever_their_memory_and_restarts(seed: int) -> None:
    chance = random.Random(seed)
    members = [Member("n1"), Member("n2", 20_000), Member("n3", 2_000)]
    group = Group(*members, settings=SETTINGS)
    stream = Stream(group, members[0])
    waiting: list[tuple[int, int]] = []
    gone: list[int] = []
    for name in range(300):
        delay = chance.choice([1, 5, 500, chance.randint(1, 20_000)])
        waiting.append((group.now + delay, name))
        stream.send(Enqueue((1,), message_named(name, chance.randint(0, 400), expiration=delay)))
        if chance.random() < 0.2:
            group.advance(chance.randint(0, 200))
            due = sorted(each for each in waiting if each[0] <= group.now)
            waiting = [each for each in waiting if each[0] > group.now]
            gone += [name for _, name in due]
        if chance.random() < 0.05:
            members[1].checkpoint()
        if chance.random() < 0.03:
            members[1].restart(group.log)
        if chance.random() < 0.02:
            members[2].install_from(members[0])
    for member in members:
        assert ready_names(member) == [name for _, name in sorted(waiting)]
        assert [name for name, _, _ in letters_of(member)] == gone
    assert len({digest_of(member.machine) for member in members}) == 1
