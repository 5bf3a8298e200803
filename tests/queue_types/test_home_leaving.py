"""A session with very many consumers and deliveries ends in slices: nobody waits for it, and nothing is mixed up."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.queue_types.remote.consumer_round import AT_ONCE
from amqp_broker.queue_types.remote.home_session import FEW
from queues.effects import AttachRefused
from queues.returning import PUT_BACK
from tests.node.node_driver import declare
from tests.node.one_slice import OneSlice
from tests.queue_types.home_world import HomeWorld, Peer, names
from tests.queues.queue_world import message_named

HELD = 5
CONSUMERS = FEW // HELD
MESSAGES = HELD * CONSUMERS


@pytest.fixture
def world() -> HomeWorld:
    found = HomeWorld()
    found.say(declare("q"))
    return found


@pytest.fixture
def crowd(world: HomeWorld) -> Peer:
    """A node with consumers that hold all messages of the queue, one of them exclusively that of another queue."""
    peer = Peer(world)
    world.say(declare("own"))
    peer.attach("own", exclusive=True)
    for number in range(MESSAGES):
        peer.send(peer.enqueue("q", message_named(number, is_persistent=False)))
    peer.say(*[peer.attaching(peer.new_consumer(), "q", HELD) for _ in range(CONSUMERS)])
    assert world.queue("q").unacked == MESSAGES
    world.node.background.set_pace(OneSlice())
    return peer


def lose(world: HomeWorld, peer: Peer) -> None:
    world.home.peer_disconnected(peer.name, world.driver.now)
    peer.heard.clear()


def end(world: HomeWorld) -> int:
    """Turns until nothing is left to do. Returns how many."""
    turns = 0
    while world.node.background.jobs:
        world.turn()
        turns += 1
    return turns


def test_it_takes_many_turns_and_puts_everything_where_it_was(world: HomeWorld, crowd: Peer) -> None:
    lose(world, crowd)
    queue = world.queue("q")
    most = 0
    while world.node.background.jobs:
        before = len(queue.dispatcher.consumers), queue.unacked
        world.turn()
        most = max(most, before[0] - len(queue.dispatcher.consumers), before[1] - queue.unacked)
    assert 0 < most <= max(AT_ONCE, PUT_BACK)
    assert (queue.unacked, len(queue.dispatcher.consumers)) == (0, 0)
    assert world.ready("q") == list(range(MESSAGES))


def test_what_comes_meanwhile_goes_to_none_of_those_that_leave(world: HomeWorld, crowd: Peer) -> None:
    lose(world, crowd)
    other = Peer(world, "n3")
    consumer, _ = other.attach("q", 1)
    world.client.publish(1, "q", b"%d " % MESSAGES, persistent=False)
    heard = []
    while world.node.background.jobs:
        heard += other.turn()
    assert names(heard) == [MESSAGES], "the only consumer that has credit"
    assert world.ready("q") == list(range(MESSAGES))
    assert crowd.take() == [], "nothing is sent to a node whose link is lost"
    assert names(other.settle(consumer, 1)) == [0]


def test_the_next_session_of_the_node_begins_when_the_last_one_has_left(world: HomeWorld, crowd: Peer) -> None:
    """Its consumers are those of before: an exclusive one finds its queue free."""
    lose(world, crowd)
    again = Peer(world, session=2)
    number, effects = again.attach("own", exclusive=True)
    assert not effects, "it waits"
    again.publish("q", MESSAGES, is_persistent=False)
    assert end(world) > 1
    heard = again.turn()
    assert not [each for each in heard if isinstance(each, AttachRefused)]
    assert [each.number for each in world.queue("own").dispatcher.consumers] == [number]
    assert world.ready("q") == list(range(MESSAGES + 1))


def test_a_session_that_takes_the_place_of_one_waits_too(world: HomeWorld, crowd: Peer) -> None:
    """The link is not known to be lost when the node begins anew."""
    again = Peer(world, session=2)
    number, effects = again.attach("own", exclusive=True)
    assert not effects
    end(world)
    assert [each.number for each in world.queue("own").dispatcher.consumers] == [number]
    assert crowd.session not in {each.session for each in world.home.sessions.values()}


def test_a_session_that_waits_and_is_lost_never_begins(world: HomeWorld, crowd: Peer) -> None:
    lose(world, crowd)
    again = Peer(world, session=2)
    again.attach("own", exclusive=True)
    lose(world, again)
    end(world)
    assert not world.home.sessions
    assert not list(world.queue("own").dispatcher.consumers)


def test_a_queue_that_is_deleted_meanwhile_takes_all_of_it_along(world: HomeWorld, crowd: Peer) -> None:
    lose(world, crowd)
    world.turn()
    queue = world.queue("q")
    world.say(methods.QueueDelete(queue="q"))
    end(world)
    assert queue.unacked == 0
    assert not list(queue.dispatcher.consumers)
    assert queue.pager.used == 0
