"""What a leader proposes: it is read once, and what is applied is what is in the log, whoever put it there."""

from __future__ import annotations

import pytest

from queues.quorum.commands import Batch, Command, Enqueue, OpenQueue, decode_batch, encode_batch
from queues.wire.reader import Malformed
from tests.queues.queue_world import message_named
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import Group, Member, ready_names, settings_of


class Log:
    """A log that its leader appends to, or that refuses."""

    def __init__(self, entries: list[bytes], is_leader: bool = True) -> None:
        self.entries = entries
        self.is_leader = is_leader

    @property
    def last_index(self) -> int:
        return len(self.entries)

    def propose(self, data: bytes) -> bool:
        if self.is_leader:
            self.entries.append(data)
        return self.is_leader


def batch_of(first: int, *names: int) -> bytes:
    return encode_batch(Batch(0, "n2", 5, first, 0, [Enqueue((1,), message_named(name)) for name in names]))


def opened() -> tuple[Group, Member, Log]:
    member = Member("n1")
    group = Group(member, settings=settings_of())
    member.machine.role_changed(True, "n1", 1, group.now)
    return group, member, Log(group.log)


def test_a_proposal_has_the_leaders_time_and_is_applied_once() -> None:
    group, member, log = opened()
    assert member.machine.propose(log, batch_of(1, 1, 2), group.now + 7)
    assert member.machine.propose(log, batch_of(3, 3), group.now + 9)
    times = [decode_batch(each, member.pager.addresses).time for each in log.entries[1:]]
    assert times == [group.now + 7, group.now + 9]
    member.apply(group.log)
    assert ready_names(member) == [1, 2, 3]
    assert member.machine._proposed == {}


def test_what_is_malformed_is_not_proposed() -> None:
    group, member, log = opened()
    before = list(log.entries)
    with pytest.raises(Malformed):
        member.machine.propose(log, batch_of(1, 1)[:-1], group.now)
    assert log.entries == before


def test_who_does_not_lead_proposes_nothing() -> None:
    group, member, _ = opened()
    log = Log(group.log, is_leader=False)
    assert not member.machine.propose(log, batch_of(1, 1), group.now)
    assert member.machine._proposed == {}


def test_another_leaders_entry_in_the_same_place_is_what_counts() -> None:
    group, member, log = opened()
    assert member.machine.propose(log, batch_of(1, 1), group.now)
    group.log.pop()
    member.machine.role_changed(False, "n3", 2, group.now)
    group.log.append(batch_of(1, 2))
    member.apply(group.log)
    assert ready_names(member) == [2]


def test_it_counts_even_if_nobody_has_said_that_the_leader_is_another() -> None:
    group, member, log = opened()
    assert member.machine.propose(log, batch_of(1, 1), group.now)
    group.log.pop()
    group.log.append(batch_of(1, 2))
    member.apply(group.log)
    assert ready_names(member) == [2]


def test_members_that_have_proposed_and_those_that_read_agree() -> None:
    group, member, log = opened()
    other = Member("n2", seed=1)
    commands: list[Command] = [OpenQueue(2, settings_of(max_length=1))]
    commands += [Enqueue((1, 2), message_named(1)), Enqueue((2,), message_named(2))]
    assert member.machine.propose(log, encode_batch(Batch(0, "n2", 5, 1, 0, commands)), group.now)
    for each in (member, other):
        each.apply(group.log)
    assert digest_of(member.machine) == digest_of(other.machine)
