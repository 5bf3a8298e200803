"""A transaction is published while a queue that it goes to moves to another home: nobody sees that it did."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.contract.held_queue import HeldQueue
from tests.leases.lease_service import blob_of
from tests.leases.service_on_node import ServiceOnNode
from tests.node.moving_queues import MovingWorld
from tests.node.node_driver import NodeDriver


@pytest.fixture
def service() -> ServiceOnNode:
    made = ServiceOnNode(NodeDriver())
    made.declare("q")
    return made


def stage(service: ServiceOnNode, bodies: list[bytes], key: str = "q") -> None:
    said = service.stage(blob_of(bodies, routing_key=key), app="a", epoch=0, partition=0, attempt=1, sequence=0)
    assert said.code == "ok", said


def test_a_queue_that_is_held_gets_it_when_it_is_released(service: ServiceOnNode) -> None:
    stage(service, [b"one", b"two"])
    broker = service.driver.node.broker
    vhost = broker.vhosts["/"]
    held = broker.held.hold(vhost, vhost.queues["q"], "n1")
    name = service.send("txn.commit", b'{"app": "a", "epoch": 0, "attempts": {"0": 1}}')
    for _ in range(20):
        service.wait(10)
    broker.held.put_back(vhost, held)
    for _ in range(20):
        service.wait(10)
    assert service.answer(name).fields == {"ok": True, "done": True, "published": 2, "unroutable": 0}
    assert vhost.queues["q"].message_count() == 2


def test_a_queue_that_is_deleted_while_it_is_held_gets_nothing(service: ServiceOnNode) -> None:
    service.declare("other")
    stage(service, [b"one", b"two"])
    broker = service.driver.node.broker
    vhost = broker.vhosts["/"]
    held = broker.held.hold(vhost, vhost.queues["q"], "n1")
    name = service.send("txn.commit", b'{"app": "a", "epoch": 0, "attempts": {"0": 1}}')
    for _ in range(20):
        service.wait(10)
    assert service.answer(name) is None
    broker.forget_queue(vhost, held)
    for _ in range(20):
        service.wait(10)
    answer = service.answer(name)
    assert answer is not None
    assert answer.fields["done"]
    assert "q" not in vhost.queues


OLD, NEW, THIRD = "n1/1", "n1/2", "n1"


@pytest.mark.parametrize("after_steps", [-1, 0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("app_home", [OLD, NEW, THIRD])
def test_each_message_is_where_the_queue_is_once(app_home: str, after_steps: int) -> None:
    """after_steps: since the queue is held; -1: as soon as the move was asked for."""
    world = MovingWorld()
    world.declare(OLD, "q")
    world.publish(world.client(THIRD, 1), "q", range(300))
    world.settle()
    service = ServiceOnNode(world.nodes[app_home], lambda: world.run(100))
    stage(service, [b"t%d" % number for number in range(20)])
    move = world.begin("q", NEW)
    if after_steps >= 0:
        for _ in range(300):
            if isinstance(world.nodes[app_home].queue("q"), HeldQueue):
                break
            world.step()
        else:
            pytest.fail("the queue was not held")
    for _ in range(after_steps):
        world.step()
    commit = service.send("txn.commit", b'{"app": "a", "epoch": 0, "attempts": {"0": 1}}')
    assert world.end(move)["ok"]
    world.run(2000)
    answer = service.answer(commit)
    assert answer is not None
    assert answer.fields == {"ok": True, "done": True, "published": 20, "unroutable": 0}
    assert world.check_rest("q") == NEW
    assert world.bodies(NEW, "q") == [*(b"%d" % n for n in range(300)), *(b"t%d" % n for n in range(20))]
