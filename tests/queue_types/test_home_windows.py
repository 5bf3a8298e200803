"""How much of a home's deliveries is on its way to another node, and who waits meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.queue_types.remote.home_session import CONSUMER_WINDOW_BYTES, LINK_WINDOW_BYTES
from queues.quorum.commands import How, Settle
from tests.node.node_driver import declare
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
