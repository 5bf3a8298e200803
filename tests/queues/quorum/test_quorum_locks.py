"""Sessions fence: of one message only one holder's acknowledgement counts, whatever nodes believe of each other."""

from __future__ import annotations

import random

import pytest

from queues.effects import AttachRefused, Confirmed, Refusal, SessionClosed, SettleMissed
from queues.quorum.commands import Batch, Detach, Enqueue, How, NodeDown, Settle, encode_batch
from tests.example_counts import seeds
from tests.queues.queue_world import message_named
from tests.queues.quorum.quorum_world import (
    Group,
    Member,
    Stream,
    deliveries,
    names_delivered,
    of_type,
    ready_names,
    settings_of,
)


def two_nodes() -> tuple[Group, Stream, Stream]:
    first, second = Member("n1"), Member("n2")
    group = Group(first, second, settings=settings_of())
    return group, Stream(group, first), Stream(group, second)


def test_a_lock_has_one_holder_whose_acknowledgement_counts() -> None:
    group, first, second = two_nodes()
    holder, _ = first.attach(prefetch=1)
    first.publish(7)
    waiting, effects = second.attach(prefetch=1)
    assert deliveries(effects) == []
    effects = group.lead(NodeDown("n1", first.session))["n2"]
    assert deliveries(effects) == [(waiting, 1, 7, 1)]
    assert of_type(first.member.effects, SessionClosed) == [SessionClosed(first.session)]
    late = first.send(Settle(holder, How.ACK, ((1, 1),)))
    assert late == [], "its session is over: not even a confirm"
    effects = second.send(Settle(waiting, How.ACK, ((1, 1),)))
    assert of_type(effects, SettleMissed) == []
    assert second.member.queue().unacked == 0


def test_a_late_acknowledgement_in_the_new_session_counts_for_nothing() -> None:
    group, first, _ = two_nodes()
    holder, _ = first.attach(prefetch=1)
    first.publish(7)
    group.lead(NodeDown("n1", first.session))
    renewed = Stream(group, first.member, first.session + 1)
    again, effects = renewed.attach(prefetch=1)
    assert deliveries(effects) == [(again, 1, 7, 1)]
    effects = renewed.send(Settle(holder, How.ACK, ((1, 1),)))
    assert of_type(effects, SettleMissed) == [SettleMissed(2, holder, 1)]
    assert first.member.queue().unacked == 1
    number, effects = renewed.attach()
    assert not of_type(effects, AttachRefused)
    renewed.consumers = 0
    _, effects = renewed.attach()
    assert of_type(effects, AttachRefused)[0].refusal is Refusal.ID_USED, "numbers are never used again"
    assert number > again > holder


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_never_two_accepted_acknowledgements(seed: int) -> None:
    """Two nodes take turns as holders; sessions are declared down at any time, acknowledgements come late or twice."""
    chance = random.Random(seed)
    group, *streams = two_nodes()
    admin = Stream(group, Member("n3"))
    group.members.append(admin.member)
    admin.member.apply(group.log)
    admin.publish(1)
    old: dict[str, list[Settle]] = {"n1": [], "n2": []}
    accepted = 0
    for _ in range(60):
        stream = chance.choice(streams)
        name = stream.member.name
        choice = chance.random()
        if choice < 0.3:
            _, effects = stream.attach(prefetch=1)
        elif choice < 0.5:
            effects = group.lead(NodeDown(name, stream.session))[name]
        elif choice < 0.9 and old[name]:
            effects = stream.send(chance.choice(old[name]))
            if of_type(effects, Confirmed) and not of_type(effects, SettleMissed):
                accepted += 1
        else:
            effects = []
        for each in streams:
            told = effects if each is stream else each.member.effects[-5:]
            if of_type(told, SessionClosed) and of_type(told, SessionClosed)[-1].session == each.session:
                each.session += 1
                each.sequence = 0
                each.member.machine.begin_session(each.session)
            old[each.member.name] = [
                Settle(consumer, How.ACK, ((delivery, delivery),))
                for consumer, delivery, _, _ in deliveries(each.member.effects)
            ]
    assert accepted <= 1
    statistics = streams[0].member.machine.statistics(1)
    assert statistics is not None
    assert statistics.ready + statistics.unacked + accepted == 1


def test_what_comes_again_is_skipped_and_so_is_what_comes_behind_a_gap() -> None:
    group, first, _ = two_nodes()
    first.publish(1, 2)
    again = group.log[-1]
    assert group.commit(again)["n1"] == []
    assert ready_names(first.member) == [1, 2]

    def batch(start: int, *names: int) -> bytes:
        commands = [Enqueue((1,), message_named(name)) for name in names]
        return encode_batch(Batch(group.now, "n1", first.session, start, 0, list(commands)))

    assert group.commit(batch(4, 4))["n1"] == []
    assert group.commit(batch(2, 2, 3, 4))["n1"] == [Confirmed(first.session, 3, 4, ())]
    assert ready_names(first.member) == [1, 2, 3, 4]


def test_a_newer_session_closes_the_older() -> None:
    group, first, second = two_nodes()
    holder, _ = first.attach(prefetch=1)
    first.publish(1)
    newer = Batch(group.now, "n1", first.session + 5, 1, 0, [])
    skipped = newer._replace(first=2)
    assert group.commit(encode_batch(skipped))["n1"] == [], "its beginning is missing"
    assert group.commit(encode_batch(newer))["n1"] == [SessionClosed(first.session)]
    assert ready_names(first.member) == [1]
    assert first.send(Detach(holder, True)) == [], "the old one is over"
    group.lead(NodeDown("n1", first.session))
    assert second.member.state.origins["n1"].is_open, "that was about the old session"
    _, effects = second.attach()
    assert names_delivered(effects) == [1]


def test_effects_come_to_the_node_whose_they_are() -> None:
    group, first, second = two_nodes()
    consumer, _ = second.attach()
    assert of_type(first.publish(1), Confirmed) == [Confirmed(first.session, 1, 1, ())]
    assert deliveries(second.member.effects) == [(consumer, 1, 1, 0)]
    assert deliveries(first.member.effects) == []
    assert len(of_type(second.member.effects, Confirmed)) == 1
    assert first.member.machine.session_of("n2") == second.session
    group.lead(NodeDown("n2", second.session))
    assert first.member.machine.session_of("n2") == 0
