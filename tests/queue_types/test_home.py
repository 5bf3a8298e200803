"""What other nodes may do with the classic queues of this one, one test each."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.remote.effects_codec import Blocked, Count, QueueCounted, Taken, encode_count, encode_taken
from queues.effects import (
    AttachRefused,
    Cancel,
    Confirmed,
    ConsumerCancelled,
    Counted,
    Refusal,
    Refused,
    SettleMissed,
)
from queues.quorum.commands import Batch, Enqueue, Get, How, Prefetch, Purge, Settle, Tick, encode_batch
from raft.errors import PeerProtocolError
from tests.node.node_driver import consume, declare
from tests.queue_types.home_world import HomeWorld, Peer, confirmed, deliveries, names, refusals
from tests.queues.queue_world import message_named, name_of


@pytest.fixture
def world() -> HomeWorld:
    found = HomeWorld()
    found.say(declare("q"))
    return found


@pytest.fixture
def peer(world: HomeWorld) -> Peer:
    return Peer(world)


# -- publishing --------------------------------------------------------------------------------------------------------


def test_a_persistent_publish_is_confirmed_when_it_is_on_the_disk(world: HomeWorld, peer: Peer) -> None:
    assert peer.publish("q", 1) == []
    assert world.home.wants_sync
    world.sync()
    assert peer.take() == [Confirmed(1, 1, 1, ())]
    assert not world.home.wants_sync
    assert world.ready("q") == [1]


def test_what_comes_after_a_persistent_publish_is_confirmed_after_it(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1)
    assert confirmed(peer.publish("q", 2, is_persistent=False)) == []
    world.sync()
    assert confirmed(peer.take()) == [(1, 2)]


def test_a_publish_that_comes_in_the_turn_of_a_finished_sync(world: HomeWorld, peer: Peer) -> None:
    """It was forgotten: the confirms of that sync were sent at once, and the turn did not look at the session again."""
    peer.publish("q", 1)
    job = world.begin_sync()
    peer.send(peer.enqueue("q", message_named(2)))
    world.finish_sync(job)
    assert confirmed(peer.turn()) == [(1, 1)]
    assert world.home.wants_sync
    world.sync()
    assert confirmed(peer.take()) == [(2, 2)]


def test_a_transient_publish_is_confirmed_with_its_turn(world: HomeWorld, peer: Peer) -> None:
    assert confirmed(peer.publish("q", 1, 2, is_persistent=False)) == [(1, 2)]


def test_confirmed_is_what_survives(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1)
    world.sync()
    assert confirmed(peer.publish("q", 2)) == [(1, 1)]
    world.driver.crash()
    assert world.ready("q") == [1]


def test_a_message_for_several_queues(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("other"))
    peer.say(Enqueue((peer.queue_id("q"), peer.queue_id("other")), message_named(1)))
    assert world.ready("q") == world.ready("other") == [1]


def test_a_full_queue_refuses(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("small", x_max_length=1, x_overflow="reject-publish"))
    assert refusals(peer.publish("small", 1, 2, is_persistent=False)) == [(2, "FULL")]
    assert world.ready("small") == [1]


def test_a_refusal_waits_for_its_turn(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("small", x_max_length=1, x_overflow="reject-publish"))
    peer.publish("small", 1)
    assert confirmed(peer.publish("small", 2)) == []
    world.sync()
    assert peer.take() == [Confirmed(1, 1, 2, (Refused(2, Refusal.FULL),))]


def test_a_publish_to_no_queue_is_refused(world: HomeWorld, peer: Peer) -> None:
    assert refusals(peer.say(Enqueue((99,), message_named(1)))) == [(1, "NO_QUEUE")]
    # It may be gone, or not be there yet: whoever is told that all have the message would lose it there.
    refused = refusals(peer.say(Enqueue((99, peer.queue_id("q")), message_named(2))))
    world.sync()
    assert refused + refusals(peer.take()) == [(2, "NO_QUEUE")]
    assert world.ready("q") == [2]


def test_what_two_of_its_queues_refuse_is_refused_once(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("small", x_max_length=1, x_overflow="reject-publish"))
    peer.publish("small", 1, is_persistent=False)
    # Full is the one, and not there the other: who tries a dead letter again does so for the former.
    assert refusals(peer.say(Enqueue((peer.queue_id("small"), 99), message_named(2)))) == [(2, "FULL")]
    assert confirmed(peer.publish("q", 3, is_persistent=False)) == [(3, 3)]


def test_a_queue_that_was_deleted_is_not_found(world: HomeWorld, peer: Peer) -> None:
    enqueue = peer.enqueue("q", message_named(1))
    peer.say(enqueue)
    world.say(methods.QueueDelete(0, "q", False, False, False))
    world.say(declare("q"))
    world.sync()
    peer.take()
    assert refusals(peer.say(enqueue)) == [(2, "NO_QUEUE")]
    assert world.ready("q") == []


# -- consuming ---------------------------------------------------------------------------------------------------------


def test_deliver_and_acknowledge(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, 3)
    consumer, effects = peer.attach("q", prefetch=2)
    assert deliveries(effects) == [(consumer, 1, 1, False, 0), (consumer, 2, 2, False, 0)]
    assert deliveries(peer.settle(consumer, 1)) == [(consumer, 3, 3, False, 0)]
    peer.settle(consumer, 2, 3)
    assert (world.queue("q").unacked, world.ready("q")) == (0, [])
    world.sync()
    world.driver.crash()
    assert world.ready("q") == []


def test_a_message_from_this_node_goes_to_a_consumer_of_the_other(world: HomeWorld, peer: Peer) -> None:
    consumer, _ = peer.attach("q")
    world.client.publish(1, "q", b"7 ")
    assert deliveries(peer.turn()) == [(consumer, 1, 7, False, 0)]


def test_consumers_of_both_nodes_take_turns(world: HomeWorld, peer: Peer) -> None:
    peer.attach("q")
    world.say(consume("q", no_ack=True))
    assert names(peer.publish("q", 1, 2, 3, 4, is_persistent=False)) == [1, 3]
    assert world.client.names()[-2:] == ["basic.deliver", "basic.deliver"]


def test_without_acknowledgements_it_is_held_until_it_is_on_its_way(world: HomeWorld, peer: Peer) -> None:
    consumer, _ = peer.attach("q", prefetch=1, no_ack=True)
    assert names(peer.publish("q", 1, 2, is_persistent=False)) == [1, 2]
    assert world.queue("q").unacked == 2
    peer.say(Settle(consumer, How.ACK, ((1, 2),)))
    assert world.queue("q").unacked == 0


def test_requeue_and_return(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("limited", x_delivery_limit=5))
    peer.publish("limited", 1, is_persistent=False)
    consumer, _ = peer.attach("limited", prefetch=1)
    assert deliveries(peer.settle(consumer, 1, how=How.REQUEUE)) == [(consumer, 2, 1, True, 1)]
    assert deliveries(peer.settle(consumer, 2, how=How.REQUEUE)) == [(consumer, 3, 1, True, 2)]


def test_what_no_client_has_had_returns_as_it_came(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("limited", x_delivery_limit=1))
    peer.publish("limited", 1, 2, is_persistent=False)
    consumer, _ = peer.attach("limited", prefetch=2)
    effects = peer.say(Settle(consumer, How.RETURN, ((1, 2),)))
    assert deliveries(effects) == [(consumer, 3, 1, False, 0), (consumer, 4, 2, False, 0)]
    assert deliveries(peer.settle(consumer, 3, how=How.REQUEUE)) == [(consumer, 5, 1, True, 1)]
    assert deliveries(peer.settle(consumer, 5, how=How.RETURN)) == [(consumer, 6, 1, True, 1)]
    assert deliveries(peer.settle(consumer, 6, how=How.REQUEUE)) == []
    world.say(declare("once", x_delivery_limit=0))
    peer.publish("once", 3, is_persistent=False)
    consumer, _ = peer.attach("once")
    assert deliveries(peer.settle(consumer, 1, how=How.RETURN)) == [(consumer, 2, 3, False, 0)]


def test_a_count_of_returns_is_only_told_where_they_are_limited(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, is_persistent=False)
    consumer, _ = peer.attach("q")
    assert deliveries(peer.settle(consumer, 1, how=How.REQUEUE)) == [(consumer, 2, 1, True, 0)]


def test_rejected_messages_become_dead_letters_here(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("source", x_dead_letter_exchange="", x_dead_letter_routing_key="q"))
    peer.publish("source", 1)
    consumer, _ = peer.attach("source")
    peer.settle(consumer, 1, how=How.REJECT)
    assert world.ready("q") == [1]


def test_what_is_not_held_is_missed(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, is_persistent=False)
    consumer, _ = peer.attach("q")
    effects = peer.say(Settle(consumer, How.ACK, ((1, (1 << 64) - 1),)))
    assert SettleMissed(peer.sequence, consumer, (1 << 64) - 2) in effects
    assert SettleMissed(peer.sequence + 1, 5, 2) in peer.settle(5, 1, 2)
    assert world.queue("q").unacked == 0


def test_more_prefetch(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, 3, is_persistent=False)
    consumer, effects = peer.attach("q", prefetch=1)
    assert names(effects) == [1]
    assert names(peer.say(Prefetch(consumer, 2))) == [2]
    assert names(peer.say(Prefetch(consumer, 0))) == [3]


def test_detach_keeps_or_gives_back(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, is_persistent=False)
    consumer, _ = peer.attach("q")
    peer.detach(consumer)
    assert (world.queue("q").unacked, world.ready("q")) == (2, [])
    peer.settle(consumer, 1)
    peer.detach(consumer, gives_back=True)
    assert world.ready("q") == [2]
    assert peer.settle(consumer, 2)[0] == SettleMissed(peer.sequence, consumer, 1)


def test_numbers_of_consumers_are_not_used_again(world: HomeWorld, peer: Peer) -> None:
    consumer, _ = peer.attach("q")
    peer.detach(consumer)
    assert AttachRefused(peer.sequence + 1, consumer, Refusal.ID_USED) in peer.say(peer.attaching(consumer, "q"))
    assert refusals(peer.say(Get(consumer, peer.queue_id("q")))) == [(peer.sequence, "ID_USED")]


def test_an_exclusive_consumer(world: HomeWorld, peer: Peer) -> None:
    _, effects = peer.attach("q", exclusive=True)
    assert confirmed(effects) == [(1, 1)]
    consumer, effects = peer.attach("q")
    assert AttachRefused(2, consumer, Refusal.EXCLUSIVE) in effects
    world.say(consume("q"))
    assert world.client.names()[-1] == "channel.close"


def test_an_exclusive_consumer_comes_too_late(world: HomeWorld, peer: Peer) -> None:
    world.say(consume("q"))
    consumer, effects = peer.attach("q", exclusive=True)
    assert AttachRefused(1, consumer, Refusal.EXCLUSIVE) in effects


def test_priorities_of_consumers(world: HomeWorld, peer: Peer) -> None:
    low, _ = peer.attach("q", prefetch=1)
    high, _ = peer.attach("q", prefetch=1, priority=5)
    effects = peer.publish("q", 1, 2, is_persistent=False)
    assert [(each[0], each[2]) for each in deliveries(effects)] == [(high, 1), (low, 2)]


def test_a_single_active_consumer(world: HomeWorld, peer: Peer) -> None:
    world.say(declare("sac", x_single_active_consumer=True))
    other = Peer(world, "n3")
    first, _ = peer.attach("sac")
    second, _ = other.attach("sac")
    assert [each[0] for each in deliveries(peer.publish("sac", 1, 2, is_persistent=False))] == [first, first]
    peer.settle(first, 1)
    peer.lose_link()
    assert deliveries(other.take()) == [(second, 1, 2, True, 0)]


def test_an_auto_delete_queue_goes_with_its_last_consumer(world: HomeWorld, peer: Peer) -> None:
    world.say(methods.QueueDeclare(0, "auto", False, False, False, True, False, Table({})))
    consumer, _ = peer.attach("auto")
    other, _ = peer.attach("auto")
    peer.detach(consumer)
    assert world.queue("auto")
    peer.detach(other)
    world.driver.settle()
    assert "auto" not in world.node.broker.vhosts["/"].queues


def test_the_queue_is_deleted(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, is_persistent=False)
    consumer, _ = peer.attach("q", prefetch=1)
    world.say(methods.QueueDelete(0, "q", False, False, False))
    assert ConsumerCancelled(consumer, Cancel.QUEUE_GONE) in peer.take()
    assert world.node.store.pager.used == 0
    assert SettleMissed(peer.sequence + 1, consumer, 1) in peer.settle(consumer, 1)


def test_who_only_holds_messages_lets_go_of_those_of_a_queue_that_is_gone(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, is_persistent=False)
    consumer, _ = peer.attach("q", prefetch=1)
    peer.detach(consumer)
    peer.get("q")
    world.say(methods.QueueDelete(0, "q", False, False, False))
    world.driver.wait(11_000)
    assert world.node.store.pager.used == 0


# -- fetching, counting, purging ---------------------------------------------------------------------------------------


def test_fetch(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, is_persistent=False)
    answer = peer.get("q")
    assert answer.message is not None
    assert (name_of(answer.message), answer.delivery_id, answer.redelivered, answer.ready) == (1, 1, False, 1)
    peer.settle(answer.consumer, 1, how=How.REQUEUE)
    answer = peer.get("q")
    assert (answer.redelivered, answer.ready) == (True, 1)
    peer.settle(answer.consumer, 1)
    assert world.ready("q") == [2]


def test_fetch_of_nothing(world: HomeWorld, peer: Peer) -> None:
    assert peer.get("q").message is None
    effects = peer.say(Get(peer.new_consumer(), 99))
    assert refusals(effects) == [(2, "NO_QUEUE")]


def test_who_only_looks_does_not_use_a_queue(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1)
    queue = world.queue("q")
    queue.last_used = -1
    peer.count(queue.queue_id, is_use=False)
    assert queue.last_used == -1
    peer.count(queue.queue_id)
    assert queue.last_used >= 0


def test_count(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, 3, is_persistent=False)
    peer.attach("q", prefetch=1)
    world.say(consume("q", no_ack=True))
    assert QueueCounted(5, 0, 1, 2, 0) in peer.count(peer.queue_id("q"))
    effects = peer.count(99)
    assert (QueueCounted(6, 0, 0, 0, 0) in effects, refusals(effects)) == (True, [(6, "NO_QUEUE")])


def test_purge(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, 3, is_persistent=False)
    assert Counted(4, 3) in peer.say(Purge(peer.queue_id("q")))
    assert world.ready("q") == []


def test_an_exclusive_queue_takes_messages_of_others_and_nothing_else(world: HomeWorld, peer: Peer) -> None:
    world.say(methods.QueueDeclare(0, "own", False, False, True, False, False, Table({})))
    peer.publish("own", 1, is_persistent=False)
    queue_id = peer.queue_id("own")
    consumer, effects = peer.attach("own")
    assert AttachRefused(2, consumer, Refusal.EXCLUSIVE) in effects
    assert refusals(peer.say(Get(peer.new_consumer(), queue_id))) == [(3, "EXCLUSIVE")]
    assert refusals(peer.say(Purge(queue_id))) == [(4, "EXCLUSIVE")]
    assert refusals(peer.count(queue_id)) == [(5, "EXCLUSIVE")]
    assert world.ready("own") == [1]


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_lost_link_gives_everything_back(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, 2, 3, 4, is_persistent=False)
    peer.attach("q", prefetch=2)
    peer.get("q")
    assert world.ready("q") == [4]
    peer.lose_link()
    assert world.ready("q") == [1, 2, 3, 4]
    assert (world.queue("q").unacked, world.queue("q").dispatcher.consumers) == (0, {})
    world.say(consume("q"))
    delivered = [event.method for event in world.client.take() if event.method.name == "basic.deliver"]
    assert [method.redelivered for method in delivered] == [True, True, True, False]


def test_what_is_fetched_for_a_node_that_is_gone_goes_back(world: HomeWorld, peer: Peer) -> None:
    """The answer comes in a turn to come, as more has expired in front than goes at once."""
    world.say(declare("t", x_message_ttl=1000))
    peer.publish("t", *range(20_000), is_persistent=False)
    world.driver.now += 600
    peer.publish("t", 20_000, is_persistent=False)
    world.driver.now += 600
    peer.send(Get(peer.new_consumer(), peer.queue_id("t")))
    assert world.queue("t").message_count() > 1
    peer.lose_link()
    world.driver.settle()
    assert world.ready("t") == [20_000]
    assert (world.queue("t").unacked, world.sent) == (0, {})


def test_a_lost_link_leaves_nothing_to_confirm(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1)
    peer.lose_link()
    assert not world.home.wants_sync
    world.sync()
    assert world.sent == {}
    assert world.ready("q") == [1]


def test_an_auto_delete_queue_goes_with_the_link(world: HomeWorld, peer: Peer) -> None:
    world.say(methods.QueueDeclare(0, "auto", False, False, False, True, False, Table({})))
    peer.attach("auto")
    peer.lose_link()
    world.driver.settle()
    assert "auto" not in world.node.broker.vhosts["/"].queues


def test_a_newer_session_ends_the_older(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, is_persistent=False)
    peer.attach("q")
    world.turn()
    world.sent.clear()
    newer = Peer(world, "n2", session=2)
    assert confirmed(newer.publish("q", 2, is_persistent=False)) == [(1, 1)]
    assert world.ready("q") == [1, 2]
    peer.publish("q", 3, is_persistent=False)
    peer.send_octets(encode_count(Count(1, peer.sequence + 1, 1)))
    peer.send_octets(encode_taken(Taken(1, 99, ())))
    world.turn()
    assert world.sent == {}
    assert world.ready("q") == [1, 2]


def test_a_session_that_did_not_begin_on_this_link_is_not_one(world: HomeWorld, peer: Peer) -> None:
    peer.publish("q", 1, is_persistent=False)
    peer.lose_link()
    world.sent.clear()
    peer.publish("q", 2, is_persistent=False)
    assert (world.ready("q"), world.sent) == ([1], {})


def test_what_comes_before_the_queues_are_there_waits(world: HomeWorld) -> None:
    world.home = world.new_home()
    peer = Peer(world)
    late, lost = Peer(world, "n3"), Peer(world, "n4")
    assert peer.publish("q", 1, is_persistent=False) == []
    late.sequence = 5
    late.publish("q", 2, is_persistent=False)
    lost.publish("q", 3, is_persistent=False)
    lost.lose_link()
    peer.attach("q")
    world.home.start(world.driver.now)
    effects = peer.turn()
    assert (confirmed(effects), names(effects)) == ([(1, 2)], [1])
    assert list(world.sent) == []


def test_what_came_too_early_and_makes_no_sense_ends_its_session(world: HomeWorld) -> None:
    world.home = world.new_home()
    peer = Peer(world)
    peer.publish("q", 1, is_persistent=False)
    peer.sequence = 5
    peer.publish("q", 2, is_persistent=False)
    world.home.start(world.driver.now)
    assert peer.turn() == []
    assert world.ready("q") == [1]


def test_a_node_whose_clock_was_set_back_begins_again(world: HomeWorld) -> None:
    peer = Peer(world, session=100)
    peer.publish("q", 1, is_persistent=False)
    peer.lose_link()
    world.sent.clear()
    assert confirmed(Peer(world, session=50).publish("q", 2, is_persistent=False)) == [(1, 1)]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (encode_batch(Batch(0, "n2", 1, 3, 0, [Purge(1)])), "sends command 3 of session 1, and 2 is due"),
        (encode_batch(Batch(0, "n2", 1, 1, 0, [Purge(1)])), "sends command 1 of session 1, and 2 is due"),
        (encode_batch(Batch(0, "n9", 1, 2, 0, [])), "of 'n9'"),
        (encode_batch(Batch(0, "", 0, 0, 0, [Tick()])), "of ''"),
        (encode_count(Count(1, 5, 1)), "sends command 5 of session 1, and 2 is due"),
        (encode_taken(Taken(1, 1, ())), "has taken 1 octets of 0"),
        (b"\x99", "unknown kind|announced"),
        (b"", "announced"),
    ],
)
def test_a_peer_that_breaks_the_rules_loses_its_link(peer: Peer, frame: bytes, reason: str) -> None:
    peer.publish("q", 1, is_persistent=False)
    with pytest.raises(PeerProtocolError, match=reason):
        peer.send_octets(frame)


def test_what_stands_before_a_fault_is_done(world: HomeWorld, peer: Peer) -> None:
    """Commands are executed as they are read: the link ends at the one that cannot be, as if it had been lost there."""
    peer.attach("q")
    commands = [peer.enqueue("q", message_named(1)), Purge(5), peer.enqueue("q", message_named(2))]
    batch = encode_batch(Batch(0, peer.name, peer.session, peer.sequence + 1, 0, commands))
    with pytest.raises(PeerProtocolError, match="n2: batch, octet"):
        peer.send_octets(batch[:-1])
    peer.lose_link()
    assert world.queue("q").unacked == 0
    assert world.ready("q") == [1]


def test_publishers_of_other_nodes_are_told_to_wait(world: HomeWorld, peer: Peer) -> None:
    peer.say()
    world.is_blocked = True
    assert peer.turn() == [Blocked(True)]
    assert Peer(world, "n3").say() == [Blocked(True)]
    assert peer.turn() == []
    world.is_blocked = False
    assert peer.turn() == [Blocked(False)]
