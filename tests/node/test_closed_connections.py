"""Connections that are closed by their clients where several workers have to know: who has seen the answer finds what
was theirs gone at every worker."""

from __future__ import annotations

import pytest

from amqp_broker.connection.control import KNOWN_MS
from amqp_broker.protocol import methods
from tests.node.node_driver import Client, declare
from tests.node.worker_world import WorkerWorld

pytestmark = pytest.mark.once

A, B = "n1", "n1/1"


@pytest.fixture
def world() -> WorkerWorld:
    return WorkerWorld()


def exclusive(name: str) -> methods.QueueDeclare:
    return methods.QueueDeclare(0, name, False, False, True, False, False)


def close(client: Client) -> None:
    client.take()
    client.send(0, methods.ConnectionClose(200, "bye", 0, 0))


def has_answer(client: Client) -> bool:
    return "connection.close-ok" in client.names()


@pytest.mark.parametrize("count", [1, 70])
def test_whoever_has_seen_close_ok_declares_at_another_worker(world: WorkerWorld, count: int) -> None:
    """Also very many, which go in slices."""
    owner, other = world.client(A, 1), world.client(B, 1)
    names = [f"q{number}" for number in range(count)]
    owner.send(1, *map(exclusive, names))
    world.run(1000)
    assert owner.names() == ["queue.declare-ok"] * count
    close(owner)
    steps = 0
    while not has_answer(owner):
        world.step()
        steps += 1
        assert steps < 1000
    assert not set(names) & {*world.nodes[B].node.broker.vhosts["/"].queues}
    other.send(1, *map(exclusive, names))
    world.run(1000)
    assert other.names() == ["queue.declare-ok"] * count


def test_who_has_no_such_queue_is_answered_at_once(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    client.send(1, declare("q"))
    world.settle()
    close(client)
    world.nodes[A].turn()
    assert has_answer(client)


def test_nobody_is_waited_for_for_long(world: WorkerWorld) -> None:
    """Where nobody can be told, the others hear of it later."""
    owner = world.client(B, 1)
    owner.send(1, exclusive("q"))
    world.settle()
    world.cut(A, B)
    close(owner)
    world.run(KNOWN_MS // 2)
    assert not has_answer(owner)
    world.run(KNOWN_MS)
    assert has_answer(owner)
    assert "q" in world.nodes[A].node.broker.vhosts["/"].queues
    world.link(A, B)
    world.run(3000)
    assert "q" not in world.nodes[A].node.broker.vhosts["/"].queues


def test_a_client_that_does_not_wait_is_forgotten(world: WorkerWorld) -> None:
    owner = world.client(A, 1)
    owner.send(1, exclusive("q"))
    world.settle()
    close(owner)
    world.nodes[A].lose(owner)
    world.run(2 * KNOWN_MS)
    assert not world.nodes[A].node.clients.all()


def test_nothing_is_read_of_who_waits_for_the_answer(world: WorkerWorld) -> None:
    """Who says no more after its close is still there to hear."""
    owner = world.client(B, 1)
    owner.send(1, exclusive("q"))
    world.settle()
    world.cut(A, B)
    close(owner)
    world.step()
    assert owner.connection.is_paused
    assert owner.connection.is_parked
    world.run(2 * KNOWN_MS)
    assert has_answer(owner)
    assert not owner.connection.is_paused


def test_who_makes_room_for_others_that_close_is_answered() -> None:
    world = WorkerWorld(max_closing_connections=2)
    owners = [world.client(B, 1) for _ in range(4)]
    for number, owner in enumerate(owners):
        owner.send(1, exclusive(f"q{number}"))
    world.settle()
    world.cut(A, B)
    for owner in owners:
        close(owner)
    world.step()
    assert [owner.is_closed for owner in owners] == [True, True, False, False]
    assert [has_answer(owner) for owner in owners] == [True, True, False, False]
