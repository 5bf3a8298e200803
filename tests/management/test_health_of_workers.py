"""How a node of several workers is, whichever is asked: what one of them is short of, the node is."""

from __future__ import annotations

import pytest

from tests.management.test_draining_workers import Desk
from tests.node.worker_world import WorkerWorld

WORKERS = ("n1", "n1/1")


@pytest.fixture(params=WORKERS)
def asked(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_alarm_of_one_worker_is_the_nodes(asked: str) -> None:
    world = WorkerWorld(2)
    desk = Desk(world, asked)
    assert desk.ask("health")["local_alarms"] == []
    world.nodes["n1/1"].node.alarms.is_memory_high = True
    found = [{"node": "n1/1", "resource": "memory"}]
    health, node = desk.ask("health"), desk.ask("node")
    assert (health["local_alarms"], health["alarms"]) == (found, found)
    assert (node["mem_alarm"], node["disk_free_alarm"]) == (True, False)
    assert [node["nodes"][name]["mem_alarm"] for name in WORKERS] == [False, True]


def test_the_limit_of_connections_is_reached_when_no_worker_takes_one_more(asked: str) -> None:
    world = WorkerWorld(2, max_connections=3)
    desk = Desk(world, asked)
    assert desk.ask("node")["max_connections"] == 6
    other = next(name for name in WORKERS if name != asked)
    for name in (asked, asked, other, other, other):  # the desk is one itself
        assert desk.ask("health")["below_connection_limit"] is True
        world.client(name, 1)
    assert desk.ask("health")["below_connection_limit"] is False
    assert desk.ask("node")["sockets_used"] >= 6


def test_a_node_is_drained_if_a_worker_is(asked: str) -> None:
    world = WorkerWorld(2)
    desk = Desk(world, asked)
    assert (desk.ask("health")["ready"], desk.ask("node")["being_drained"]) == (True, False)
    world.nodes["n1/1"].node.facts.drain(True)
    health = desk.ask("health")
    assert (health["ready"], health["is_draining"]) == (False, True)
    assert desk.ask("node")["being_drained"] is True


def test_a_node_alone_is_alone_with_all_of_its_workers(asked: str) -> None:
    assert Desk(WorkerWorld(2), asked).ask("health")["is_alone"] is True
