"""How much of a home's deliveries is on its way to another node, and who waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.queue_types.remote.consumer_round import AT_ONCE
from amqp_broker.queue_types.remote.home_session import CONSUMER_WINDOW_BYTES, LINK_WINDOW_BYTES
from queues.quorum.commands import How, Settle
from tests.node.node_driver import declare
from tests.node.one_slice import OneSlice
from tests.queue_types.home_world import HomeWorld, Peer, names
from tests.queues.queue_world import message_named


@pytest.fixture
def world() -> HomeWorld:
    found = HomeWorld()
    found.say(declare("q"))
    return found


@pytest.fixture
def peer(world: HomeWorld) -> Peer:
    return Peer(world)


def test_a_client_that_reads_nothing_gets_a_window_full(world: HomeWorld, peer: Peer) -> None:
    size = CONSUMER_WINDOW_BYTES // 4
    slow, _ = peer.attach("q")
    found = names(peer.publish("q", *range(1, 11), body_size=size, is_persistent=False))
    assert found == [1, 2, 3, 4]
    assert names(peer.taken()) == []
    one = message_named(1, size).size
    assert names(peer.taken((slow, 2 * one))) == [5, 6]
    _, effects = peer.attach("q")
    assert names(effects) == [7, 8, 9, 10]


def test_a_message_above_the_window_goes_alone(world: HomeWorld, peer: Peer) -> None:
    consumer, _ = peer.attach("q")
    size = 2 * CONSUMER_WINDOW_BYTES
    assert names(peer.publish("q", 1, 2, body_size=size, is_persistent=False)) == [1]
    peer.taken((consumer, message_named(1, size).size))
    assert world.queue("q").unacked == 2


def test_the_link_is_shared_in_turn(world: HomeWorld, peer: Peer) -> None:
    """Of many queues each gets its share of what fits on the link."""
    size = CONSUMER_WINDOW_BYTES // 2
    most = LINK_WINDOW_BYTES // CONSUMER_WINDOW_BYTES
    found = [f"q{number}" for number in range(2 * most)]
    world.say(*[declare(name) for name in found])
    for index, name in enumerate(found):
        world.client.publish(1, name, b"%d " % index, persistent=False)
        peer.publish(name, *[index] * 9, body_size=size, is_persistent=False)
    peer.take()
    consumers = {}
    delivered: list[int] = []
    for name in found:
        number, effects = peer.attach(name)
        consumers[number] = 0
        delivered += _take(effects, consumers)
    assert len(set(delivered)) < len(found)
    for _ in range(8):
        effects = peer.taken(*consumers.items())
        delivered += _take(effects, consumers)
    assert set(delivered) == set(range(len(found)))
    counts = [delivered.count(index) for index in range(len(found))]
    assert max(counts) - min(counts) <= 6


def test_who_waits_for_the_link_longest_is_next(world: HomeWorld, peer: Peer) -> None:
    """Three that would each take everything, and a link that has room for one message at a time."""
    size = 64 * 1024
    one = message_named(1, size).size
    consumers: dict[int, int] = {}
    for index, name in enumerate(("qa", "qb", "qc")):
        world.say(declare(name))
        peer.publish(name, *[index] * (LINK_WINDOW_BYTES // size), body_size=size, is_persistent=False)
        number, effects = peer.attach(name)
        consumers[number] = 0
        _take(effects, consumers)
    while effects := peer.taken(*consumers.items(), octets=0):
        _take(effects, consumers)
    delivered = []
    surplus = peer.octets - LINK_WINDOW_BYTES
    for room in range(1, 13):
        effects = peer.taken(*consumers.items(), octets=surplus + room * one)
        delivered += _take(effects, consumers)
    assert len(delivered) >= 11
    assert {delivered.count(index) for index in range(3)} <= {3, 4, 5}


def _take(effects: list[Any], consumers: dict[int, int]) -> list[int]:
    """The clients take everything at once."""
    for effect in effects:
        if hasattr(effect, "delivery_id"):
            consumers[effect.consumer] += effect.message.size
    return names(effects)


def test_when_memory_is_short_who_holds_much_waits() -> None:
    world = HomeWorld(memory_budget_bytes=200_000)
    world.say(declare("q"))
    peer = Peer(world)
    consumer, _ = peer.attach("q")
    one = message_named(1, 1000).size
    found = peer.publish("q", *range(1, 1001), body_size=1000, is_persistent=False)
    delivered = names(found)
    assert len(delivered) < 400
    for _ in range(20):
        peer.taken((consumer, len(delivered) * one))
        # Others use up the memory that it gives back, until the broker looks again.
        settled = peer.say(Settle(consumer, How.ACK, ((1, len(delivered)),)))
        world.driver.wait(1000)
        delivered += names(settled) + names(peer.turn())
    assert delivered == list(range(1, 1001))


MANY = 100


def most_in_a_turn(world: HomeWorld, count: Callable[[], int], until: int) -> int:
    """The most by which a count changes in one of the turns that it takes, of one slice each."""
    world.node.background.set_pace(OneSlice())
    most, before = 0, count()
    for _ in range(10 * MANY):
        if before == until:
            return most
        if not world.node.background.jobs:
            world.driver.now += 100
            world.node.tick(world.driver.now)
        world.turn()
        most, before = max(most, abs(count() - before)), count()
    raise AssertionError(f"it stays at {before}")


def test_consumers_that_waited_for_memory_are_fed_a_few_in_a_slice() -> None:
    world = HomeWorld(memory_budget_bytes=1_000_000)
    peer = Peer(world)
    for number in range(MANY):
        world.say(declare(f"q{number}"))
        peer.attach(f"q{number}")
        peer.publish(f"q{number}", 1, is_persistent=False)
    world.node.store.pager.others_bytes = 100_000_000  # what groups of the node have
    for number in range(MANY):
        peer.publish(f"q{number}", 2, is_persistent=False)

    def ready() -> int:
        return sum([world.queue(f"q{number}").ready.count for number in range(MANY)])

    assert ready() == MANY
    world.node.store.pager.others_bytes = 0
    assert most_in_a_turn(world, ready, 0) <= AT_ONCE


def test_who_only_holds_messages_is_looked_at_a_few_in_a_slice() -> None:
    world = HomeWorld()
    world.say(declare("q"))
    peer = Peer(world)
    for number in range(MANY):
        peer.publish("q", number, is_persistent=False)
        peer.get("q")
    world.say(methods.QueueDelete(0, "q", False, False, False))
    session = world.home.sessions[peer.name]
    assert len(session.consumers) == MANY
    assert most_in_a_turn(world, lambda: len(session.consumers), 0) <= AT_ONCE


def test_consumers_that_waited_for_the_link_are_served_a_few_in_a_slice(world: HomeWorld, peer: Peer) -> None:
    """And in turn, also when there is more room meanwhile."""
    size = CONSUMER_WINDOW_BYTES
    for _ in range(LINK_WINDOW_BYTES // size):
        peer.attach("q")
        peer.publish("q", 0, body_size=size, is_persistent=False)
    for number in range(MANY):
        world.say(declare(f"q{number}"))
        peer.attach(f"q{number}")
        peer.publish(f"q{number}", number, is_persistent=False)
    session = world.home.sessions[peer.name]
    assert len(session.halted) == MANY
    world.node.background.set_pace(OneSlice())
    delivered = [names(peer.taken()), names(peer.taken())]
    while len(delivered) < MANY and sum(map(len, delivered)) < MANY:
        delivered.append(names(peer.turn()))
    assert max(map(len, delivered)) <= 2 * AT_ONCE
    assert [name for each in delivered for name in each] == list(range(MANY))
    assert not world.node.background.jobs


def test_who_waited_for_the_link_when_it_was_lost_is_served_no_more(world: HomeWorld, peer: Peer) -> None:
    size = CONSUMER_WINDOW_BYTES
    for _ in range(LINK_WINDOW_BYTES // size):
        peer.attach("q")
        peer.publish("q", 0, body_size=size, is_persistent=False)
    for _ in range(MANY):
        peer.attach("q")
    peer.publish("q", *[1] * MANY, is_persistent=False)
    session = world.home.sessions[peer.name]
    world.node.background.set_pace(OneSlice())
    peer.taken()
    assert world.node.background.jobs
    world.home.peer_disconnected(peer.name, world.driver.now)
    world.turn()
    assert not world.node.background.jobs
    assert session.halted == {}
    assert world.queue("q").unacked == 0
