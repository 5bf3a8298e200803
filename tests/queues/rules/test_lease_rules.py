"""What holds for the lease groups of every queue, whoever runs the rules: queues/lease_rules.py."""

from __future__ import annotations

import pytest

from queues.arguments import QueueArguments
from queues.effects import Refusal
from queues.quorum.commands import How
from queues.quorum.lease_commands import AckLease, Claim, OpenLease, ReleaseLease
from queues.rule import Rule
from tests.queues.lease_life import names_in
from tests.queues.rules.conftest import MakeHost, of_rule
from tests.queues.rules.hosts import GROUP, Host

ALL = 1 << 30
ME = (1, GROUP, "i" * 32, "me")
OTHER_OWNER = (1, GROUP, "i" * 32, "another")
OTHER_INCARNATION = (1, GROUP, "j" * 32, "me")
MANY = range(1, 41)


def claim(after: int, messages: int = ALL, octets: int = ALL, adds: bool = False) -> Claim:
    return Claim(*ME, after, messages, octets, adds)


def with_group(make_host: MakeHost, *names: int, **arguments: object) -> Host:
    """A queue with these messages, and a group that holds nothing."""
    host = make_host(**arguments)
    for name in names:
        host.publish(name)
    assert host.lease(OpenLease(*ME)) is None
    return host


def held(host: Host) -> list[int]:
    """What the group holds."""
    group = host.leased()
    assert group is not None
    return names_in(group)


@of_rule(Rule.LEASES)
def test_a_group_is_an_ordered_log(make_host: MakeHost) -> None:
    host = with_group(make_host, *range(1, 11))
    assert host.lease(claim(0, 4)) is None
    assert held(host) == [1, 2, 3, 4]
    assert host.lease(claim(0)) is None
    assert held(host) == [1, 2, 3, 4], "it holds some beyond 0: asked again, it gives the same"
    host.lease(claim(0, 2, adds=True))
    host.lease(claim(6))
    assert held(host) == [*range(1, 11)]
    assert host.lease(AckLease(*ME, 7)) is None
    assert host.lease(AckLease(*ME, 3)) is None
    assert held(host) == [8, 9, 10]
    group = host.leased()
    assert group is not None
    assert (group.trimmed, group.next) == (7, 10)
    assert host.ready() == []
    assert host.unacked() == 0


@of_rule(Rule.LEASES)
def test_a_claim_takes_one_however_large(make_host: MakeHost) -> None:
    host = with_group(make_host)
    host.publish(1, body_size=5000)
    host.publish(2, body_size=5000)
    host.lease(claim(0, 7, 1))
    assert held(host) == [1]


@of_rule(Rule.LEASES)
def test_a_claim_takes_nothing_that_has_expired(make_host: MakeHost) -> None:
    host = with_group(make_host, 1, message_ttl=5)
    host.advance(2)
    for name in MANY[1:]:
        host.publish(name)
    host.advance(3)
    host.lease(claim(0, 7))
    assert held(host) == [*range(2, 9)]
    assert host.ready() == [*range(9, 41)]


@of_rule(Rule.PRIORITIES)
def test_a_claim_takes_the_highest_priority_first(make_host: MakeHost) -> None:
    host = make_host(max_priority=3)
    host.lease(OpenLease(*ME))
    for name in range(1, 7):
        host.publish(name, priority=name % 3)
    host.lease(claim(0, 4))
    assert held(host) == [2, 5, 1, 4]
    host.lease(ReleaseLease(*ME))
    assert host.ready() == [2, 5, 1, 4, 3, 6]


@of_rule(Rule.LEASES)
def test_whoever_is_not_the_owner_is_refused(make_host: MakeHost) -> None:
    host = with_group(make_host, 1, 2, 3)
    host.lease(claim(0, 2))
    for whose, refusal in (
        (OTHER_OWNER, Refusal.FENCED),
        (OTHER_INCARNATION, Refusal.LEASE_GONE),
        ((1, "none", *ME[2:]), Refusal.LEASE_GONE),
    ):
        assert host.lease(Claim(*whose, 2, 1, ALL, False)) is refusal
        assert host.lease(AckLease(*whose, 1)) is refusal
        assert host.lease(ReleaseLease(*whose)) is refusal
    assert held(host) == [1, 2]
    assert host.lease(OpenLease(*OTHER_OWNER)) is None
    assert host.lease(AckLease(*ME, 1)) is Refusal.FENCED
    assert host.lease(AckLease(*OTHER_OWNER, 1)) is None
    assert held(host) == [2]


@of_rule(Rule.LEASES)
def test_a_group_keeps_its_incarnation(make_host: MakeHost) -> None:
    host = with_group(make_host, 1)
    host.lease(OpenLease(*OTHER_INCARNATION))
    group = host.leased()
    assert group is not None
    assert group.incarnation == ME[2]
    host.lease(ReleaseLease(*ME))
    assert host.lease(OpenLease(*OTHER_INCARNATION)) is None
    again = host.leased()
    assert again is not None
    assert (again.incarnation, again.next) == ("j" * 32, 0)


@of_rule(Rule.LEASES)
def test_what_it_does_not_hold_is_refused(make_host: MakeHost) -> None:
    host = with_group(make_host, *range(1, 7))
    host.lease(claim(0, 5))
    host.lease(AckLease(*ME, 2))
    assert host.lease(claim(1)) is Refusal.LEASE_GONE
    assert host.lease(claim(6)) is Refusal.LEASE_GONE
    assert host.lease(AckLease(*ME, 6)) is Refusal.LEASE_GONE
    assert held(host) == [3, 4, 5]


@of_rule(Rule.LEASES)
def test_who_calls_and_when_is_known(make_host: MakeHost) -> None:
    host = with_group(make_host, 1)
    group = host.leased()
    assert group is not None
    begun = group.last_called
    host.advance(5)
    host.lease(AckLease(*OTHER_OWNER, 0))
    assert group.last_called == begun
    host.lease(AckLease(*ME, 0))
    assert group.last_called == begun + 5


@of_rule(Rule.LEASES)
def test_a_release_puts_all_back_where_it_stood(make_host: MakeHost) -> None:
    host = with_group(make_host, *MANY)
    host.lease(claim(0, 30))
    host.lease(AckLease(*ME, 4))
    assert host.lease(ReleaseLease(*ME)) is None
    assert host.ready() == [*range(5, 41)]
    assert host.leased() is None
    assert host.lease(claim(30)) is Refusal.LEASE_GONE
    consumer = host.consume(36)
    assert host.log == [(consumer, name, name <= 30) for name in range(5, 41)]


@of_rule(Rule.LEASES)
def test_what_is_released_goes_to_those_who_wait(make_host: MakeHost) -> None:
    host = with_group(make_host, *MANY)
    host.lease(claim(0))
    consumer = host.consume(50)
    host.lease(ReleaseLease(*ME))
    assert sorted(host.log) == [(consumer, name, True) for name in MANY]


@pytest.mark.parametrize("has_letters", [True, False])
@of_rule(Rule.LEASES)
def test_a_release_counts_as_a_return(make_host: MakeHost, has_letters: bool) -> None:
    host = with_group(make_host, 1, 2, delivery_limit=1, dead_letter_exchange="dead" if has_letters else None)
    consumer = host.consume(1)
    host.cancel(consumer)
    host.settle(consumer, How.REQUEUE, 1)
    host.lease(claim(0))
    host.lease(ReleaseLease(*ME))
    assert host.ready() == [2]
    assert host.dead() == ([(1, "delivery_limit")] if has_letters else [])
    assert host.discarded() == (0 if has_letters else 1)


@of_rule(Rule.LEASES)
def test_expiry_and_purges_do_not_reach_what_is_leased(make_host: MakeHost) -> None:
    host = with_group(make_host, *range(1, 6), message_ttl=5, dead_letter_exchange="dead")
    host.lease(claim(0, 2))
    host.advance(9)
    assert host.dead() == [(3, "expired"), (4, "expired"), (5, "expired")]
    assert host.purge() == 0
    assert held(host) == [1, 2]
    host.lease(ReleaseLease(*ME))
    host.advance(1)
    assert sorted(host.dead()[3:]) == [(1, "expired"), (2, "expired")]


@of_rule(Rule.LENGTH_LIMITS)
def test_length_limits_do_not_count_what_is_leased(make_host: MakeHost) -> None:
    host = make_host(max_length=3, dead_letter_exchange="dead")
    host.lease(OpenLease(*ME))
    for name in range(1, 4):
        host.publish(name)
    host.lease(claim(0))
    for name in range(4, 7):
        host.publish(name)
    assert host.dead() == []
    host.lease(ReleaseLease(*ME))
    host.apply(QueueArguments(max_length=3, dead_letter_exchange="dead"))
    assert host.ready() == [4, 5, 6]
    assert sorted(host.dead()) == [(1, "maxlen"), (2, "maxlen"), (3, "maxlen")]


@of_rule(Rule.LEASES)
def test_releases_follow_upon_each_other(make_host: MakeHost) -> None:
    host = with_group(make_host, *MANY)
    host.lease(claim(0, 10))
    other = (1, "other", *ME[2:])
    host.lease(OpenLease(*other))
    host.lease(Claim(*other, 0, 10, ALL, False))
    host.lease(ReleaseLease(*ME))
    host.lease(ReleaseLease(*other))
    assert host.ready() == [*MANY]
