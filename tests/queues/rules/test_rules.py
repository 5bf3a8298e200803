"""What holds for every queue, whoever runs the rules."""

from __future__ import annotations

import pytest

from queues.arguments import Overflow, QueueArguments
from queues.quorum.commands import How
from queues.rule import Rule
from tests.queues.rules.conftest import HOSTS, TESTED, MakeHost, of_rule
from tests.queues.rules.hosts import Host, InUse, Lacking

DEAD = "dead"
MANY = range(1, 41)
#: More than any host drops in two steps (AT_ONCE of queues/quorum/queue.py).
VERY_MANY = range(1, 2301)


def test_first_in_first_out_whoever_is_there_first(make_host: MakeHost) -> None:
    host = make_host()
    for name in range(1, 5):
        assert host.publish(name)
    consumer = host.consume(3)
    assert host.log == [(consumer, 1, False), (consumer, 2, False), (consumer, 3, False)]
    host.publish(5)
    host.settle(consumer, How.ACK, 1, 2)
    assert host.names() == [1, 2, 3, 4, 5]
    host.settle(consumer, How.ACK, 3, 4, 5)
    host.publish(6)
    assert host.names()[-1] == 6
    assert host.ready() == []
    assert host.unacked() == 1


def test_consumers_take_turns_and_the_higher_priority_first(make_host: MakeHost) -> None:
    host = make_host()
    first, second = host.consume(2), host.consume(2)
    high, low = host.consume(1, priority=5), host.consume(1, priority=-1)
    for name in range(1, 8):
        host.publish(name)
    assert [consumer for consumer, _, _ in host.log] == [high, first, second, first, second, low]
    assert host.ready() == [7]
    host.settle(second, How.ACK, 3)
    assert host.log[-1] == (second, 7, False)


def test_what_comes_back_stands_where_it_stood(make_host: MakeHost) -> None:
    host = make_host()
    for name in range(1, 7):
        host.publish(name)
    consumer = host.consume(4)
    host.cancel(consumer)
    host.settle(consumer, How.REQUEUE, 2, 4)
    host.settle(consumer, How.RETURN, 1)
    assert host.ready() == [1, 2, 4, 5, 6]
    assert host.unacked() == 1
    host.log.clear()
    other = host.consume(3)
    assert host.log == [(other, 1, False), (other, 2, True), (other, 4, True)]


@pytest.mark.parametrize("has_letters", [True, False])
def test_what_comes_back_too_often_is_dropped(make_host: MakeHost, has_letters: bool) -> None:
    host = make_host(delivery_limit=1, dead_letter_exchange=DEAD if has_letters else None)
    consumer = host.consume(9)
    for name in (1, 2, 3):
        host.publish(name)
    host.settle(consumer, How.REQUEUE, 1, 2, 3)
    host.settle(consumer, How.RETURN, 3)
    host.settle(consumer, How.REQUEUE, 1, 2)
    assert host.dead() == ([(1, "delivery_limit"), (2, "delivery_limit")] if has_letters else [])
    assert host.discarded() == (0 if has_letters else 2)
    assert host.names() == [1, 2, 3, 1, 2, 3, 3]


@of_rule(Rule.LENGTH_LIMITS)
@pytest.mark.parametrize("limit", [{"max_length": 3}, {"max_length_bytes": 30}], ids=str)
def test_too_much_is_dropped_at_the_head(make_host: MakeHost, limit: dict[str, int]) -> None:
    host = make_host(**limit, dead_letter_exchange=DEAD)
    for name in range(1, 6):
        assert host.publish(name, body_size=10)
    assert host.ready() == [3, 4, 5]
    assert host.dead() == [(1, "maxlen"), (2, "maxlen")]
    consumer = host.consume(2)
    host.cancel(consumer)
    host.publish(6, body_size=10)
    host.publish(7, body_size=10)
    assert host.ready() == [5, 6, 7]
    host.settle(consumer, How.REQUEUE, 3, 4)
    assert host.ready() == [5, 6, 7], "what comes back to a full queue goes, as it is the oldest"
    assert host.dead()[2:] == [(3, "maxlen"), (4, "maxlen")]


@of_rule(Rule.LENGTH_LIMITS)
@pytest.mark.parametrize("limit", [{"max_length": 2}, {"max_length_bytes": 20}], ids=str)
@pytest.mark.parametrize("overflow", [Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX])
def test_a_full_queue_refuses(make_host: MakeHost, overflow: Overflow, limit: dict[str, int]) -> None:
    host = make_host(**limit, overflow=overflow, dead_letter_exchange=DEAD)
    assert [host.publish(name, body_size=10) for name in (1, 2, 3)] == [True, True, False]
    assert host.dead() == ([(3, "maxlen")] if overflow is Overflow.REJECT_PUBLISH_DLX else [])
    consumer = host.consume(1)
    assert host.publish(4, body_size=10)
    host.cancel(consumer)
    host.settle(consumer, How.REQUEUE, 1)
    assert host.ready() == [1, 2, 4], "what was there may come back"
    assert not host.publish(5, body_size=10)


@of_rule(Rule.LENGTH_LIMITS)
def test_a_new_limit_drops_very_many(make_host: MakeHost) -> None:
    host = make_host(dead_letter_exchange=DEAD)
    for name in MANY:
        host.publish(name)
    host.apply(QueueArguments(max_length=2, dead_letter_exchange=DEAD))
    assert host.ready() == [39, 40]
    assert host.dead() == [(name, "maxlen") for name in MANY[:-2]]


def test_all_expire_so_long_after_they_came(make_host: MakeHost) -> None:
    host = make_host(message_ttl=10, dead_letter_exchange=DEAD)
    for name in MANY:
        host.publish(name)
    host.advance(9)
    assert host.ready() == [*MANY]
    host.advance(1)
    assert host.ready() == []
    assert host.dead() == [(name, "expired") for name in MANY]


@pytest.mark.parametrize(("ttl", "expiration", "lives"), [(None, 7, 7), (10, 7, 7), (8, 90, 8)])
@of_rule(Rule.EXPIRATION)
def test_the_lower_expiry_counts(make_host: MakeHost, ttl: int | None, expiration: int, lives: int) -> None:
    host = make_host(message_ttl=ttl, dead_letter_exchange=DEAD)
    for name in MANY:
        host.publish(name, expiration=expiration)
    host.advance(lives - 1)
    assert host.ready() == [*MANY]
    host.advance(1)
    assert host.ready() == []
    assert host.dead() == [(name, "expired") for name in MANY]


@of_rule(Rule.EXPIRATION)
def test_what_has_expired_goes_when_it_is_the_first(make_host: MakeHost) -> None:
    host = make_host(dead_letter_exchange=DEAD)
    host.publish(1)
    host.publish(2, expiration=5)
    host.publish(3)
    host.advance(9)
    assert host.ready() == [1, 2, 3]
    assert host.get() == 1
    assert host.dead() == [(2, "expired")]
    consumer = host.consume(9)
    assert host.log == [(consumer, 3, False)]


def test_a_ttl_beyond_all_time_is_for_ever(make_host: MakeHost) -> None:
    host = make_host(message_ttl=(1 << 63) - 1)
    host.publish(1)
    host.advance(1000)
    assert host.ready() == [1]


@pytest.mark.parametrize(("ttl", "expiration"), [(None, (1 << 63) - 8), ((1 << 63) - 1, 1 << 62)])
@of_rule(Rule.EXPIRATION)
def test_an_expiration_beyond_all_time_is_for_ever(make_host: MakeHost, ttl: int | None, expiration: int) -> None:
    host = make_host(message_ttl=ttl)
    host.publish(1, expiration=expiration)
    host.advance(1000)
    assert host.ready() == [1]


def test_an_expiry_of_nothing_means_now_or_never(make_host: MakeHost) -> None:
    host = make_host(message_ttl=0)
    host.publish(1)
    assert host.ready() == []
    host.consume(1)
    host.publish(2)
    assert host.names() == [2]


def test_all_expire_whatever_was_there_before(make_host: MakeHost) -> None:
    host = make_host(message_ttl=10, dead_letter_exchange=DEAD)
    for name in (1, 2, 3):
        host.publish(name)
        host.advance(11)
        assert host.ready() == []
    assert host.dead() == [(name, "expired") for name in (1, 2, 3)]


def test_basic_get_comes_to_what_stands_behind_all_that_has_expired(make_host: MakeHost) -> None:
    """However much more that is than is dropped in one step."""
    host = make_host(message_ttl=10)
    for name in VERY_MANY:
        host.publish(name)
    host.advance(5)
    last = VERY_MANY[-1] + 1
    host.publish(last)
    assert host.get(after=6) == last
    assert host.get() is None
    assert (host.ready(), host.unacked()) == ([], 1)


@of_rule(Rule.EXPIRATION)
def test_nobody_gets_what_has_expired(make_host: MakeHost) -> None:
    host = make_host()
    for name in MANY:
        host.publish(name, expiration=5 if name % 4 else -1)
    host.advance(6)
    host.consume(100)
    assert host.names() == [name for name in MANY if name % 4 == 0]


def test_an_entry_that_comes_back_has_its_expiry(make_host: MakeHost) -> None:
    host = make_host(message_ttl=5, dead_letter_exchange=DEAD)
    host.publish(1)
    consumer = host.consume(1)
    host.cancel(consumer)
    host.advance(9)
    host.settle(consumer, How.REQUEUE, 1)
    host.advance(1)
    assert host.ready() == []
    assert host.dead() == [(1, "expired")]


@pytest.mark.parametrize("has_letters", [True, False])
def test_what_is_rejected_is_a_dead_letter_or_gone(make_host: MakeHost, has_letters: bool) -> None:
    host = make_host(dead_letter_exchange=DEAD if has_letters else None)
    consumer = host.consume(3)
    for name in (1, 2, 3):
        host.publish(name)
    host.settle(consumer, How.REJECT, 2)
    host.settle(consumer, How.ACK, 1)
    host.settle(consumer, How.REJECT, 3)
    assert host.dead() == ([(2, "rejected"), (3, "rejected")] if has_letters else [])
    assert host.ready() == []
    assert host.unacked() == 0


@of_rule(Rule.PRIORITIES)
def test_the_highest_priority_first(make_host: MakeHost) -> None:
    host = make_host(max_priority=3, max_length=5)
    for name, priority in ((1, -1), (2, 2), (3, 9), (4, 0), (5, 3)):
        host.publish(name, priority=priority)
    assert host.ready() == [3, 5, 2, 1, 4]
    consumer = host.consume(2)
    host.cancel(consumer)
    host.settle(consumer, How.REQUEUE, 5)
    assert host.ready() == [5, 2, 1, 4]


def test_one_consumer_is_active_and_the_next_of_the_highest_priority_takes_over(make_host: MakeHost) -> None:
    host = make_host(single_active_consumer=True)
    first, second = host.consume(2), host.consume(9)
    high = host.consume(1, priority=7)
    for name in (1, 2, 3, 4):
        host.publish(name)
    assert [consumer for consumer, _, _ in host.log] == [first, first]
    host.cancel(first)
    assert host.log[2:] == [(high, 3, False)]
    host.cancel(high)
    assert host.log[3:] == [(second, 4, False)]


def test_who_has_a_queue_alone_is_alone(make_host: MakeHost) -> None:
    host = make_host()
    first = host.consume(1)
    with pytest.raises(InUse):
        host.consume(1, is_exclusive=True)
    host.cancel(first)
    alone = host.consume(1, is_exclusive=True)
    for is_exclusive in (False, True):
        with pytest.raises(InUse):
            host.consume(1, is_exclusive=is_exclusive)
    host.publish(1)
    assert host.log == [(alone, 1, False)]
    host.cancel(alone)
    host.publish(2)
    next_one = host.consume(1)
    assert host.log[1:] == [(next_one, 2, False)]


def test_a_purge_takes_what_is_ready(make_host: MakeHost) -> None:
    host = make_host(dead_letter_exchange=DEAD)
    host.consume(1)
    for name in MANY:
        host.publish(name)
    assert host.purge() == len(MANY) - 1
    assert host.ready() == []
    assert host.dead() == []
    assert host.unacked() == 1


def test_very_many_go_out_to_many(make_host: MakeHost) -> None:
    host = make_host()
    for name in MANY:
        host.publish(name)
    consumers = [host.consume(3) for _ in range(20)]
    assert sorted(host.names()) == [*MANY]
    assert {consumer for consumer, _, _ in host.log} < set(consumers)


@pytest.mark.parametrize(
    ("host", "rule", "key"),
    [(host, rule, key) for host in HOSTS for rule in host.lacks for key in rule.arguments],
)
def test_an_argument_that_asks_for_what_is_lacked_is_refused(host: type[Host], rule: Rule, key: str) -> None:
    with pytest.raises(Lacking):
        host.refuse(rule, key)


def test_whatever_a_host_lacks_is_a_rule_that_is_tested() -> None:
    """Duplicates only quorum queues recognise: they are no rule of QueueRules."""
    lacked = {rule for host in HOSTS for rule in host.lacks}
    assert lacked - TESTED == {Rule.DEDUPLICATION}
