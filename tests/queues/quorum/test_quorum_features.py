"""What a quorum queue does by its log: commands, effects, the time of the group. Its rules: tests/queues/rules."""

from __future__ import annotations

from itertools import pairwise

import pytest

from queues.arguments import Overflow, QueueArguments
from queues.effects import (
    AttachRefused,
    Cancel,
    Confirmed,
    ConsumerCancelled,
    Counted,
    DeadLettered,
    Delivered,
    GetAnswered,
    Gone,
    QueueGone,
    Refusal,
    SettleMissed,
)
from queues.quorum.commands import Detach, Dispatched, DropQueue, Enqueue, Get, How, OpenQueue, Prefetch, Purge, Settle
from queues.quorum.consumer import MOST_IN_FLIGHT
from queues.quorum.deduplication import MOST_PRODUCERS, Deduplication
from queues.quorum.letters import WINDOW
from queues.quorum.queue import AT_ONCE
from queues.quorum.settings import QuorumSettings
from raft.errors import NotNow
from tests.queues.queue_world import message_named, name_of
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import (
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


def test_publish_deliver_ack() -> None:
    group, stream = one_node()
    assert stream.publish(1, 2) == [Confirmed(stream.session, 1, 2, ())]
    consumer, effects = stream.attach(prefetch=1)
    assert deliveries(effects) == [(consumer, 1, 1, 0)]
    effects = stream.send(Settle(consumer, How.ACK, ((1, 1),)))
    assert deliveries(effects) == [(consumer, 2, 2, 0)]
    stream.send(Settle(consumer, How.ACK, ((2, 2),)))
    statistics = group.members[0].machine.statistics(1)
    assert statistics is not None
    assert (statistics.ready, statistics.unacked, statistics.consumers) == (0, 0, 1)
    assert group.members[0].pager.used == 0


def test_a_dropped_queue_gives_back_what_was_held_a_slice_at_a_time() -> None:
    group, stream = one_node()
    count = 2000
    stream.attach(prefetch=0)
    for first in range(1, count + 1, 500):
        stream.publish(*range(first, first + 500))
    member = group.members[0]
    used = member.pager.used
    gone = of_type(stream.send(DropQueue(1)), QueueGone)
    assert [effect.queue_id for effect in gone] == [1]
    left = [used, member.pager.used]
    while member.machine.discard_some(0):
        left.append(member.pager.used)
    assert member.pager.used == 0
    assert not member.machine.is_discarding
    assert max(before - after for before, after in pairwise(left)) <= used / 3


def test_a_queue_that_comes_again_has_nothing_of_the_one_before() -> None:
    group, stream = one_node()
    stream.attach(prefetch=0)
    for first in range(1, 2001, 500):
        stream.publish(*range(first, first + 500))
    member = group.members[0]
    stream.send(DropQueue(1))
    assert member.machine.is_discarding
    group.open(1, settings_of())
    assert not member.machine.is_discarding
    assert member.pager.used == 0


def test_another_state_waits_for_what_a_queue_gives_back_that_is_gone() -> None:
    group, stream = one_node()
    stream.attach(prefetch=0)
    for first in range(1, 2001, 500):
        stream.publish(*range(first, first + 500))
    machine = group.members[0].machine
    stream.send(DropQueue(1))
    group.open(2, settings_of())
    machine.begin_install()
    for chunk in machine.export():
        machine.install_chunk(chunk)
    used = group.members[0].pager.used
    with pytest.raises(NotNow):
        machine.end_install()
    assert (group.members[0].pager.used, machine.is_discarding) == (used, True)
    while machine.discard_some(0):
        pass
    machine.end_install()
    assert group.members[0].state.ids() == [2]


def test_a_message_for_several_queues() -> None:
    group, stream = one_node()
    group.open(2, settings_of())
    stream.send(Enqueue((1, 2), message_named(5)))
    assert ready_names(group.members[0], 1) == ready_names(group.members[0], 2) == [5]


def test_a_queue_that_is_not_there_is_reported() -> None:
    _, stream = one_node()
    assert refusals(stream.publish(1, queue_id=9)) == [Refusal.NO_QUEUE]


def test_requeue_returns_to_the_original_position_and_counts() -> None:
    group, stream = one_node()
    consumer, _ = stream.attach(prefetch=3)
    stream.publish(1, 2, 3, 4)
    effects = stream.send(Settle(consumer, How.REQUEUE, ((2, 3),)))
    assert deliveries(effects) == [(consumer, 4, 2, 1), (consumer, 5, 3, 1)]
    assert [each.redelivered for each in of_type(effects, Delivered)] == [True, True]
    assert ready_names(group.members[0]) == [4]


def test_no_limit_and_no_ack_mean_the_most_in_flight() -> None:
    _, stream = one_node()
    plain, _ = stream.attach()
    effects = stream.publish(*range(MOST_IN_FLIGHT + 5))
    assert len(deliveries(effects)) == MOST_IN_FLIGHT
    automatic, effects = stream.attach(no_ack=True, prefetch=1)
    assert [consumer for consumer, _, _, _ in deliveries(effects)] == [automatic] * 5
    effects = stream.send(Settle(plain, How.ACK, ((1, MOST_IN_FLIGHT),)))
    assert not of_type(effects, SettleMissed)


def test_prefetch_changes_while_the_consumer_lives() -> None:
    _, stream = one_node()
    consumer, _ = stream.attach(prefetch=1)
    assert names_delivered(stream.publish(1, 2, 3, 4)) == [1]
    assert names_delivered(stream.send(Prefetch(consumer, 3))) == [2, 3]
    stream.send(Prefetch(consumer, 1))
    assert names_delivered(stream.send(Settle(consumer, How.ACK, ((1, 2),)))) == []
    assert names_delivered(stream.send(Settle(consumer, How.ACK, ((3, 3),)))) == [4]


def test_an_exclusive_consumer_is_alone() -> None:
    _, stream = one_node()
    first, _ = stream.attach()
    second, effects = stream.attach(exclusive=True)
    assert of_type(effects, AttachRefused) == [AttachRefused(2, second, Refusal.EXCLUSIVE)]
    stream.send(Detach(first, False))
    _, effects = stream.attach(exclusive=True)
    assert not of_type(effects, AttachRefused)
    _, effects = stream.attach()
    assert of_type(effects, AttachRefused)[0].refusal is Refusal.EXCLUSIVE


def test_consumers_are_refused_where_there_is_no_queue() -> None:
    _, stream = one_node()
    _, effects = stream.attach(queue_id=5)
    assert of_type(effects, AttachRefused)[0].refusal is Refusal.NO_QUEUE


def test_a_cancelled_consumer_keeps_what_it_holds_until_it_settles_it() -> None:
    group, stream = one_node()
    consumer, _ = stream.attach()
    stream.publish(1, 2)
    stream.send(Detach(consumer, False))
    stream.publish(3)
    assert ready_names(group.members[0]) == [3]
    effects = stream.send(Settle(consumer, How.ACK, ((1, 1),)), Settle(consumer, How.REQUEUE, ((2, 2),)))
    assert not of_type(effects, SettleMissed)
    assert ready_names(group.members[0]) == [2, 3]
    assert not group.members[0].queue().delivery_owners


def test_what_a_client_has_not_been_given_returns_as_it_came() -> None:
    group, stream = one_node(delivery_limit=0)
    consumer, _ = stream.attach()
    stream.publish(1, 2, 3, 4)
    stream.send(Settle(consumer, How.RETURN, ((1, 1),)))  # and it comes again, as number 5
    stream.send(Detach(consumer, False, 3))
    assert ready_names(group.members[0]) == [1, 4], "2 and 3 have been seen, and stay"
    second, effects = stream.attach()
    assert [(each.redelivered, each.delivery_count) for each in of_type(effects, Delivered)] == [(False, 0), (False, 0)]
    stream.send(Detach(second, True, 0))
    assert ready_names(group.members[0]) == [1, 4], "the delivery limit of 0 does not count them"


def test_delivery_limit_with_dead_letters() -> None:
    group, stream = one_node(delivery_limit=2, dead_letter_exchange="dlx")
    group.members[0].machine.role_changed(True, "n1", 1, 0)
    consumer, _ = stream.attach(prefetch=1)
    stream.publish(1)
    for delivery in (1, 2):
        effects = stream.send(Settle(consumer, How.REQUEUE, ((delivery, delivery),)))
        assert deliveries(effects) == [(consumer, delivery + 1, 1, delivery)]
    effects = stream.send(Settle(consumer, How.REQUEUE, ((3, 3),)))
    assert [(name_of(each.message), each.reason.name) for each in of_type(effects, DeadLettered)] == [
        (1, "DELIVERY_LIMIT")
    ]
    assert letters_of(group.members[0]) == [(1, "DELIVERY_LIMIT", 3)]


def test_dead_letters_go_to_each_new_leader_until_they_are_dispatched() -> None:
    first, second = Member("n1"), Member("n2")
    group = Group(first, second, settings=settings_of(message_ttl=10, dead_letter_exchange="dlx"))
    stream = Stream(group, first)
    first.machine.role_changed(True, "n1", 1, 0)
    stream.publish(1, 2)
    effects = group.advance(10)
    assert [each.letter for each in of_type(effects["n1"], DeadLettered)] == [1, 2]
    assert not of_type(effects["n2"], DeadLettered), "it does not lead"
    group.lead(Dispatched(1, 1))
    first.machine.role_changed(False, "n2", 2, 0)
    second.machine.role_changed(True, "n2", 2, 0)
    second.machine.role_changed(True, "n2", 2, 0)
    assert [name_of(each.message) for each in of_type(second.machine.take_effects(), DeadLettered)] == [2]
    group.lead(Dispatched(1, 2))
    second.machine.role_changed(False, None, 3, 0)
    second.machine.role_changed(True, "n2", 3, 0)
    assert second.machine.take_effects() == []
    assert second.pager.used == 0


def test_many_dead_letters_are_under_way_in_a_window_and_wait_in_pages() -> None:
    group, stream = one_node(dead_letter_exchange="dlx", max_length=0)
    member = group.members[0]
    member.machine.role_changed(True, "n1", 1, 0)
    effects = stream.publish(*range(WINDOW + 20))
    assert len(of_type(effects, DeadLettered)) == WINDOW
    assert member.queue().letters.waiting.pages
    effects = group.lead(Dispatched(1, 5))["n1"]
    assert [name_of(each.message) for each in of_type(effects, DeadLettered)] == [1000, 1001, 1002, 1003, 1004]
    effects = group.lead(Dispatched(1, WINDOW))["n1"]
    assert [each.letter for each in of_type(effects, DeadLettered)] == list(range(1006, 1021))


def test_no_more_expire_at_once_than_one_entry_should_cost() -> None:
    group, stream = one_node(message_ttl=50)
    stream.publish(*range(2 * AT_ONCE + 5))
    group.now += 60
    group.lead()
    assert group.members[0].queue().ready.count in (1, 5, AT_ONCE + 5)
    assert (group.members[0].machine.next_deadline() or 0) <= group.now
    group.advance(0)
    assert group.members[0].queue().ready.count == 0
    assert group.members[0].machine.next_deadline() is None


def test_the_time_never_goes_back() -> None:
    group, stream = one_node(message_ttl=50)
    group.advance(1000)
    group.now -= 900
    stream.publish(1)
    group.advance(100)
    assert ready_names(group.members[0]) == [1]
    group.advance(900)
    assert ready_names(group.members[0]) == []


def test_a_queue_that_nobody_uses_expires() -> None:
    group, stream = one_node(expires=100)
    consumer, _ = stream.attach()
    group.advance(200)
    stream.send(Detach(consumer, True))
    group.advance(60)
    stream.send(Get(stream.new_consumer(), 1))
    effects = group.advance(60)["n1"]
    assert not of_type(effects, QueueGone)
    assert of_type(group.advance(40)["n1"], QueueGone) == [QueueGone(1, Gone.EXPIRED)]
    assert group.members[0].machine.statistics(1) is None


def test_dead_letters_keep_their_queue() -> None:
    group, stream = one_node(expires=100, dead_letter_exchange="dlx", message_ttl=1)
    stream.publish(1)
    assert not of_type(group.advance(200)["n1"], QueueGone)
    assert of_type(group.lead(Dispatched(1, 1))["n1"], QueueGone) == []
    assert of_type(group.advance(0)["n1"], QueueGone) == [QueueGone(1, Gone.EXPIRED)]


def test_a_publish_that_is_refused_is_named_in_the_confirm() -> None:
    group, stream = one_node(overflow=Overflow.REJECT_PUBLISH, max_length=2)
    effects = stream.publish(1, 2, 3, body_size=100)
    assert ready_names(group.members[0]) == [1, 2]
    (confirmed,) = of_type(effects, Confirmed)
    assert confirmed.last == 3
    assert [tuple(each) for each in confirmed.refused] == [(3, Refusal.FULL)]


def test_new_settings_take_effect() -> None:
    group, stream = one_node()
    stream.publish(*range(AT_ONCE + 10))
    stream.send(OpenQueue(1, QuorumSettings(QueueArguments(max_length=4))))
    group.advance(0)
    assert ready_names(group.members[0]) == list(range(AT_ONCE + 6, AT_ONCE + 10))


def test_get() -> None:
    group, stream = one_node()
    stream.publish(1, 2)
    getter = stream.new_consumer()
    (answer,) = of_type(stream.send(Get(getter, 1)), GetAnswered)
    assert (name_of(answer.message), answer.delivery_id, answer.ready, answer.redelivered) == (1, 1, 1, False)
    stream.send(Settle(getter, How.REQUEUE, ((1, 1),)))
    assert ready_names(group.members[0]) == [1, 2]
    second = stream.new_consumer()
    (answer,) = of_type(stream.send(Get(second, 1)), GetAnswered)
    assert (name_of(answer.message), answer.redelivered, answer.delivery_count) == (1, True, 1)
    stream.send(Settle(second, How.ACK, ((1, 1),)), Purge(1))
    (answer,) = of_type(stream.send(Get(stream.new_consumer(), 1)), GetAnswered)
    assert (answer.message, answer.delivery_id) == (None, 0)
    (answer,) = of_type(stream.send(Get(getter, 1)), GetAnswered)
    assert answer.message is None, "a number is used once"


def test_purge_counts_what_was_ready() -> None:
    group, stream = one_node()
    stream.attach(prefetch=2)
    stream.publish(*range(30))
    assert of_type(stream.send(Purge(1)), Counted) == [Counted(stream.sequence, 28)]
    statistics = group.members[0].machine.statistics(1)
    assert statistics is not None
    assert (statistics.ready, statistics.unacked) == (0, 2)


def test_delete_tells_the_consumers_and_everybody() -> None:
    first, second = Member("n1"), Member("n2")
    group = Group(first, second, settings=settings_of())
    stream, other = Stream(group, first), Stream(group, second)
    consumer, _ = other.attach(prefetch=1)
    stream.publish(1, 2, 3)
    effects = stream.send(DropQueue(1))
    assert of_type(effects, Counted) == [Counted(4, 2)]
    assert of_type(effects, QueueGone) == of_type(second.effects, QueueGone) == [QueueGone(1, Gone.DROPPED)]
    assert of_type(second.effects, ConsumerCancelled) == [ConsumerCancelled(consumer, Cancel.QUEUE_GONE)]
    assert first.pager.used == second.pager.used == 0
    assert digest_of(first.machine) == digest_of(second.machine)


def test_publishing_again_by_producer_and_sequence_changes_nothing() -> None:
    group, stream = one_node()
    for sequence, name in ((5, 1), (5, 2), (4, 3), (6, 4)):
        assert refusals(stream.send(Enqueue((1,), message_named(name), b"p", sequence))) == []
    stream.send(Enqueue((1,), message_named(5), b"q", 1))
    assert ready_names(group.members[0]) == [1, 4, 5]


def test_a_publish_that_was_refused_may_be_tried_again() -> None:
    group, stream = one_node(overflow=Overflow.REJECT_PUBLISH, max_length=1)
    stream.publish(1)
    again = Enqueue((1,), message_named(2), b"p", 1, b"id")
    assert refusals(stream.send(again)) == [Refusal.FULL]
    stream.send(Purge(1))
    assert refusals(stream.send(again)) == []
    assert ready_names(group.members[0]) == [2]


def test_publishing_again_by_message_id_changes_nothing_within_the_window() -> None:
    group, stream = one_node(deduplication_window=2, deduplication_ttl=100)
    ids = [b"a", b"b", b"a", b"c", b"a", b"c"]
    stream.send(*[Enqueue((1,), message_named(name), message_id=each) for name, each in enumerate(ids)])
    assert ready_names(group.members[0]) == [0, 1, 3, 4], "c pushed a out"
    group.advance(100)
    stream.send(Enqueue((1,), message_named(9), message_id=b"c"))
    assert ready_names(group.members[0]) == [0, 1, 3, 4, 9]


def test_a_consumer_timeout_ends_that_consumer_only() -> None:
    group, stream = one_node(consumer_timeout=100)
    slow, _ = stream.attach(prefetch=1)
    good, _ = stream.attach(prefetch=1)
    stream.publish(1, 2)
    group.advance(60)
    stream.send(Settle(good, How.ACK, ((1, 1),)))
    effects = group.advance(40)["n1"]
    assert of_type(effects, ConsumerCancelled) == [ConsumerCancelled(slow, Cancel.TIMEOUT)]
    assert deliveries(effects) == [(good, 2, 1, 1)]
    effects = stream.send(Settle(slow, How.ACK, ((1, 1),)))
    assert of_type(effects, SettleMissed) == [SettleMissed(stream.sequence, slow, 1)]
    assert deliveries(effects) == []


def test_a_consumer_timeout_that_becomes_shorter_counts_at_once() -> None:
    group, stream = one_node(consumer_timeout=10_000)
    slow, _ = stream.attach(prefetch=1)
    stream.publish(1)
    group.advance(50)
    group.open(1, settings_of(consumer_timeout=100))
    assert of_type(group.advance(49)["n1"], ConsumerCancelled) == []
    assert of_type(group.advance(1)["n1"], ConsumerCancelled) == [ConsumerCancelled(slow, Cancel.TIMEOUT)]


def test_who_settles_in_time_is_watched_again() -> None:
    """What is looked at after each batch is only whether something new is held; the oldest delivery counts anyway."""
    group, stream = one_node(consumer_timeout=100)
    consumer, _ = stream.attach(prefetch=2)
    stream.publish(*range(1, 20))
    for delivery in range(1, 10):
        group.advance(40)
        stream.send(Settle(consumer, How.ACK, ((delivery, delivery),)))
    assert of_type(group.advance(59)["n1"], ConsumerCancelled) == []
    assert of_type(group.advance(1)["n1"], ConsumerCancelled) == [ConsumerCancelled(consumer, Cancel.TIMEOUT)]


def test_a_getter_has_the_same_timeout() -> None:
    group, stream = one_node(consumer_timeout=100)
    stream.publish(1)
    getter = stream.new_consumer()
    stream.send(Get(getter, 1))
    effects = group.advance(100)["n1"]
    assert of_type(effects, ConsumerCancelled) == [ConsumerCancelled(getter, Cancel.TIMEOUT)]
    assert ready_names(group.members[0]) == [1]


def test_settling_what_another_consumer_holds_is_ignored() -> None:
    group, stream = one_node()
    consumer, _ = stream.attach()
    stream.publish(1)
    effects = stream.send(Settle(consumer + 1, How.ACK, ((1, 1),)), Settle(consumer, How.ACK, ((1, 4), (9, 9))))
    assert [each.deliveries for each in of_type(effects, SettleMissed)] == [1, 4]
    assert group.members[0].queue().unacked == 0


def test_what_is_known_of_producers_is_bounded_and_forgets_who_published_longest_ago() -> None:
    known = Deduplication()
    message = message_named(1)
    for number in range(MOST_PRODUCERS):
        known.remember(Enqueue((1,), message, b"%d" % number, 1), QuorumSettings(), 1)
    known.remember(Enqueue((1,), message, b"0", 2), QuorumSettings(), 1)
    known.remember(Enqueue((1,), message, b"new", 1), QuorumSettings(), 1)
    assert len(known.producers) == MOST_PRODUCERS
    assert known.knows(Enqueue((1,), message, b"0", 2), 1)
    assert not known.knows(Enqueue((1,), message, b"1", 1), 1)


def test_delivery_counts_end_where_pages_cannot_hold_them() -> None:
    group, stream = one_node()
    consumer, _ = stream.attach(prefetch=1)
    stream.publish(1)
    (entry,) = [entry for entry, _ in group.members[0].state.origins["n1"].consumers[consumer].held.values()]
    entry.returns = 65_534
    stream.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    assert deliveries(stream.send(Settle(consumer, How.REQUEUE, ((2, 2),)))) == [(consumer, 3, 1, 65_535)]


def test_a_single_active_consumer_gives_way_to_a_higher_priority_once_it_holds_nothing() -> None:
    group, stream = one_node(single_active_consumer=True, gives_way=True)
    low, _ = stream.attach(prefetch=1, priority=1)
    middle, _ = stream.attach(prefetch=1, priority=2)
    assert deliveries(stream.publish(1)) == [(middle, 1, 1, 0)], "it held nothing, and gave way at once"
    high, effects = stream.attach(prefetch=1, priority=3)
    assert deliveries([*effects, *stream.publish(2, 3)]) == []
    restored = Member("n2")
    restored.install_from(group.members[0])
    assert digest_of(restored.machine) == digest_of(group.members[0].machine)
    assert deliveries(stream.send(Settle(middle, How.ACK, ((1, 1),)))) == [(high, 1, 2, 0)]
    assert deliveries(stream.send(Detach(high, True))) == [(middle, 2, 2, 1)], "the others stand in their order"
    assert deliveries(stream.send(Detach(middle, True))) == [(low, 1, 2, 2)]


def test_who_was_to_give_way_goes_on_when_the_other_one_leaves() -> None:
    _, stream = one_node(single_active_consumer=True, gives_way=True)
    low, _ = stream.attach(prefetch=2)
    stream.publish(1)
    high, _ = stream.attach(prefetch=2, priority=5)
    assert deliveries(stream.publish(2, 3)) == [], "it has credit, and gets nothing"
    assert deliveries(stream.send(Detach(high, True))) == [(low, 2, 2, 0)]


def test_whoever_came_first_stays_active_where_the_version_before_says_so() -> None:
    group, stream = one_node(single_active_consumer=True)
    low, _ = stream.attach(prefetch=1)
    high, _ = stream.attach(prefetch=1, priority=5)
    assert deliveries(stream.publish(1, 2)) == [(low, 1, 1, 0)]
    assert deliveries(stream.send(Settle(low, How.ACK, ((1, 1),)))) == [(low, 2, 2, 0)]
    assert not group.members[0].state.has_streams, "its image is of the version before"
    group.open(1, settings_of(single_active_consumer=True, gives_way=True))
    assert group.members[0].state.has_streams
    stream.publish(3)
    assert deliveries(stream.send(Settle(low, How.ACK, ((2, 2),)))) == [(high, 1, 3, 0)]
