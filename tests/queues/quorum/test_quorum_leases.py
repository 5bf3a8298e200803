"""Lease groups of quorum queues: the same on all members, whatever they page, restart or install."""

from __future__ import annotations

import pytest

from queues.effects import Confirmed, QueueGone, Refusal
from queues.quorum import leases
from queues.quorum.commands import DropQueue, Purge
from queues.quorum.lease_commands import AckLease, Claim, OpenLease, ReleaseLease
from queues.quorum.leases import QuorumLease
from tests.queues.queue_world import name_of
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import (
    BUDGETS,
    Group,
    Member,
    Stream,
    deliveries,
    letters_of,
    names_delivered,
    of_type,
    one_node,
    ready_names,
    refusals,
    settings_of,
)
from tests.storage.page_files import disk_bytes

JOB = (1, "job", "i" * 32, "driver")
ALL = 1 << 30


def claim(after: int, messages: int = ALL, octets: int = ALL, adds: bool = False) -> Claim:
    return Claim(*JOB, after, messages, octets, adds)


def lease_of(member: Member, name: str = "job") -> QuorumLease:
    return member.machine.lease_groups(1)[name]


def names_in(lease: QuorumLease) -> list[int]:
    return [name_of(entry.message) for entry in lease.entries()]


def test_a_group_is_an_ordered_log() -> None:
    _, stream = one_node()
    stream.publish(*range(1, 11))
    stream.send(OpenLease(*JOB), claim(0, 4))
    lease = lease_of(stream.member)
    assert (lease.incarnation, lease.owner, lease.trimmed, lease.next) == ("i" * 32, "driver", 0, 4)
    assert names_in(lease) == [1, 2, 3, 4]
    stream.send(claim(0))
    assert lease.next == 4, "it holds some beyond 0: asked again, it gives the same"
    stream.send(claim(0, 2, adds=True), claim(6))
    assert names_in(lease) == list(range(1, 11))
    stream.send(AckLease(*JOB, 7), AckLease(*JOB, 3))
    assert (lease.trimmed, names_in(lease)) == (7, [8, 9, 10])
    figures = stream.member.machine.statistics(1)
    assert figures is not None
    assert (figures.ready, figures.leased) == (0, 3)


def test_a_claim_takes_one_message_at_least() -> None:
    _, stream = one_node()
    stream.publish(*range(1, 6))
    stream.send(OpenLease(*JOB), claim(0, 10, 1))
    assert names_in(lease_of(stream.member)) == [1]


def test_what_is_refused() -> None:
    _, stream = one_node()
    stream.publish(*range(1, 4))
    assert refusals(stream.send(claim(0))) == [Refusal.LEASE_GONE]
    assert refusals(stream.send(OpenLease(9, *JOB[1:]))) == [Refusal.NO_QUEUE]
    stream.send(OpenLease(*JOB))
    other = (*JOB[:2], "j" * 32, JOB[3])
    late = (*JOB[:3], "before")
    assert refusals(stream.send(Claim(*other, 0, 1, 1, False), AckLease(*other, 0), ReleaseLease(*other))) == [
        Refusal.LEASE_GONE
    ] * 3
    assert refusals(stream.send(Claim(*late, 0, 1, 1, False), AckLease(*late, 0), ReleaseLease(*late))) == [
        Refusal.FENCED
    ] * 3
    assert refusals(stream.send(claim(1), AckLease(*JOB, 1))) == [Refusal.LEASE_GONE] * 2
    stream.send(claim(0), AckLease(*JOB, 2))
    assert refusals(stream.send(claim(1), claim(2))) == [Refusal.LEASE_GONE]
    assert ready_names(stream.member) == []


def test_another_owner_fences_the_first() -> None:
    _, stream = one_node()
    stream.publish(1)
    stream.send(OpenLease(*JOB), OpenLease(*JOB[:2], "k" * 32, "second"))
    assert lease_of(stream.member).incarnation == "i" * 32
    assert refusals(stream.send(claim(0))) == [Refusal.FENCED]


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_release_puts_everything_back_in_its_place(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RELEASE_MESSAGES", 7)
    member = Member("n1", budget)
    group = Group(member, Member("n2"), settings=settings_of())
    stream = Stream(group, member)
    stream.publish(*range(1, 61), body_size=60)
    stream.send(OpenLease(*JOB), claim(0, 50), AckLease(*JOB, 5))
    stream.send(ReleaseLease(*JOB))
    assert member.machine.lease_groups(1) == {}
    assert ready_names(member) == list(range(44, 61))
    group.advance(1)
    assert ready_names(member) == list(range(6, 61))
    assert digest_of(group.members[0].machine) == digest_of(group.members[1].machine)
    _, effects = stream.attach(prefetch=3)
    assert [(name, count) for _, _, name, count in deliveries(effects)] == [(6, 1), (7, 1), (8, 1)]


def test_what_is_released_goes_to_those_who_wait() -> None:
    _, stream = one_node()
    stream.publish(1, 2, 3)
    stream.send(OpenLease(*JOB), claim(0))
    stream.attach()
    assert names_delivered(stream.send(ReleaseLease(*JOB))) == [1, 2, 3]


def test_ttl_and_limits_stop_at_the_lease() -> None:
    group, stream = one_node(message_ttl=100, max_length=5, dead_letter_exchange="dead", delivery_limit=0)
    stream.publish(1, 2, 3)
    stream.send(OpenLease(*JOB), claim(0, 2))
    group.advance(200)
    assert letters_of(stream.member) == [(3, "EXPIRED", 0)]
    stream.publish(*range(4, 9))
    stream.send(claim(2, 3))
    stream.publish(*range(9, 12))
    assert ready_names(stream.member) == [7, 8, 9, 10, 11]
    stream.send(Purge(1))
    assert names_in(lease_of(stream.member)) == [1, 2, 4, 5, 6]
    stream.send(ReleaseLease(*JOB))
    assert ready_names(stream.member) == []
    assert [name for name, reason, _ in letters_of(stream.member) if reason == "DELIVERY_LIMIT"] == [1, 2, 4, 5, 6]


def test_a_claim_drops_what_has_expired() -> None:
    group, stream = one_node(message_ttl=100)
    stream.publish(1, 2)
    group.now += 100
    stream.send(OpenLease(*JOB), claim(0))
    assert (ready_names(stream.member), names_in(lease_of(stream.member))) == ([], [])


def test_a_queue_does_not_expire_while_something_is_leased() -> None:
    group, stream = one_node(expires=1000)
    stream.publish(1)
    stream.send(OpenLease(*JOB), claim(0))
    assert of_type(group.advance(5000)["n1"], QueueGone) == []
    stream.send(AckLease(*JOB, 1))
    assert of_type(group.advance(999)["n1"], QueueGone) == []
    assert len(of_type(group.advance(2)["n1"], QueueGone)) == 1


def test_priorities_are_claimed_in_the_order_of_delivery() -> None:
    _, stream = one_node(max_priority=2)
    for name in range(1, 10):
        stream.publish(name, priority=name % 3)
    stream.send(OpenLease(*JOB), claim(0, 5))
    assert names_in(lease_of(stream.member)) == [2, 5, 8, 1, 4]
    stream.send(ReleaseLease(*JOB))
    assert ready_names(stream.member) == [2, 5, 8, 1, 4, 7, 3, 6, 9]


@pytest.mark.parametrize("budget", BUDGETS)
def test_checkpoints_and_installs_have_the_groups(budget: int) -> None:
    member, other = Member("n1", budget), Member("n2", budget)
    group = Group(member, settings=settings_of())
    stream = Stream(group, member)
    stream.publish(*range(1, 101), body_size=60)
    stream.send(OpenLease(*JOB), claim(0, 70), AckLease(*JOB, 13))
    member.checkpoint()
    stream.send(AckLease(*JOB, 20), claim(70, 5))
    for _ in range(2):
        member.restart(group.log)
        lease = lease_of(member)
        assert (lease.owner, lease.trimmed, names_in(lease)) == ("driver", 20, list(range(21, 76)))
        member.checkpoint()
    other.install_from(member)
    assert names_in(lease_of(other)) == list(range(21, 76))
    assert digest_of(other.machine) == digest_of(member.machine)
    stream.send(AckLease(*JOB, 75), claim(75))
    for _ in range(2):
        member.checkpoint()
    assert names_in(lease_of(member)) == list(range(76, 101))
    assert disk_bytes(member.page_store, 1) < 12_000


def test_a_release_that_was_begun_ends_on_a_member_that_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RELEASE_MESSAGES", 7)
    member, other = Member("n1"), Member("n2")
    group = Group(member, settings=settings_of())
    stream = Stream(group, member)
    stream.publish(*range(1, 41))
    stream.send(OpenLease(*JOB), claim(0), ReleaseLease(*JOB))
    other.install_from(member)
    group.members.append(other)
    group.advance(1)
    assert ready_names(other) == ready_names(member) == list(range(1, 41))
    assert digest_of(other.machine) == digest_of(member.machine)


def test_a_dropped_queue_gives_everything_back() -> None:
    _, stream = one_node()
    stream.publish(*range(1, 101), body_size=60)
    stream.send(OpenLease(*JOB), claim(0, 70))
    lease_of(stream.member).read(0, 70, ALL)
    stream.send(DropQueue(1))
    assert stream.member.pager.used == 0
    assert of_type(stream.send(claim(0)), Confirmed)[0].refused[0].refusal is Refusal.NO_QUEUE
