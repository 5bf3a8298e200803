"""Exchanges that are not durable: as long as a process of the node is there, and not after that."""

from __future__ import annotations

from dataclasses import replace

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import NodeDriver
from tests.node.worker_world import WorkerWorld

WORKERS = ("n1", "n1/1")


def world_with_exchanges() -> WorkerWorld:
    """One that is durable, and one that is not."""
    world = WorkerWorld(2)
    client = world.client("n1/1", 1)
    for name, is_durable in (("lasts", True), ("goes", False)):
        client.send(
            1, methods.ExchangeDeclare(0, name, "fanout", False, is_durable, False, False, False, Table({}, b""))
        )
    world.settle(30)
    assert client.names() == ["exchange.declare-ok"] * 2
    assert all(known(world.nodes[name]) == {"lasts", "goes"} for name in WORKERS)
    return world


def known(driver: NodeDriver) -> set[str]:
    """Which of them a process has."""
    vhost = driver.node.broker.vhosts["/"]
    return {name for name in ("lasts", "goes") if vhost.find_exchange(name) is not None}


def test_they_are_gone_when_the_whole_node_starts_again() -> None:
    world = world_with_exchanges()
    other = world.kill("n1/1")
    world.nodes["n1"].crash()
    world.revive("n1/1", other)
    world.run_until_ready()
    assert all(known(world.nodes[name]) == {"lasts"} for name in WORKERS)


def test_they_stay_when_one_process_starts_again() -> None:
    """Also worker 0, which the supervisor has told that others are there."""
    world = world_with_exchanges()
    for name in WORKERS:
        driver = world.kill(name)
        driver.config = replace(driver.config, worker_joins=True)
        world.revive(name, driver)
        world.run_until_ready()
    assert all(known(world.nodes[name]) == {"lasts", "goes"} for name in WORKERS)
