"""A node of several workers lets go of its clients, wherever they are, at the pace of the node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.management.verbs import draining
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.node.system_service import SystemService, tool
from tests.node.worker_world import WorkerWorld


class Desk:
    """A tool at a worker."""

    def __init__(self, world: NodeCluster, at: str) -> None:
        self._world = world
        self._service = SystemService(world.nodes[at], tool(world.nodes[at]))

    def ask(self, verb: str, **fields: object) -> dict[str, Any]:
        self._service.send(verb, json.dumps(fields).encode())
        for _ in range(400):
            self._world.run(10)
            if answers := self._service.answers():
                return answers[0]
        raise AssertionError(f"no answer to {verb}")


def left(clients: list[Client]) -> int:
    return sum("connection.close" not in [event.method.name for event in each.events] for each in clients)


@pytest.mark.parametrize("asked", ["n1", "n1/1"])
@pytest.mark.parametrize("at", [("n1/1",), ("n1", "n1/1", "n1/2")], ids=["all at one", "at all"])
def test_all_clients_count_and_the_pace_is_the_nodes(at: tuple[str, ...], asked: str) -> None:
    world = WorkerWorld(3)
    clients = [world.client(at[number % len(at)], 1) for number in range(60)]
    desk = Desk(world, asked)
    assert desk.ask("node.guard")["connections"] == 60
    said = desk.ask("node.drain", pace=6)
    assert (said["node"], said["is_draining"], said["workers_in_service"]) == ("n1", True, [])
    assert said["connections"] >= 58
    world.run(5000)
    assert 60 - 6 * 6 <= left(clients) <= 60 - 6 * 4
    assert desk.ask("node.guard")["connections"] == pytest.approx(left(clients), abs=2)
    desk.ask("node.drain", pace=1000)
    world.run(1000)
    assert (left(clients), desk.ask("node.guard")["connections"]) == (0, 0)
    assert desk.ask("node.revive")["is_draining"] is False
    assert [driver.node.facts.is_drained for driver in world.nodes.values()] == [False] * 3


def test_a_worker_that_does_not_answer_is_named_and_nothing_is_safe() -> None:
    world = WorkerWorld(3)
    desk = Desk(world, "n1")
    assert desk.ask("node.guard")["is_safe"] is True
    world.kill("n1/2")
    for verb in ("node.guard", "node.drain"):
        said = desk.ask(verb)
        assert (said["is_safe"], said["silent_workers"]) == (False, ["n1/2"]), verb


def test_a_worker_that_has_started_again_is_said_to_be_in_service() -> None:
    world = WorkerWorld(3)
    desk = Desk(world, "n1")
    desk.ask("node.drain")
    world.nodes["n1/2"].node.facts.drain(False)
    said = desk.ask("node.guard")
    assert (said["is_draining"], said["workers_in_service"]) == (True, ["n1/2"])
    assert desk.ask("node.drain")["workers_in_service"] == []


def test_a_pace_that_cannot_be_drains_no_worker() -> None:
    world = WorkerWorld(2)
    assert not Desk(world, "n1/1").ask("node.drain", pace=0)["ok"]
    assert not any(driver.node.facts.is_drained for driver in world.nodes.values())


@pytest.mark.parametrize(("world_class", "node", "late"), [(WorkerWorld, "n1", "n1"), (NodeCluster, "n2", "n2")])
def test_what_has_begun_is_not_refused_for_who_answers_late(
    world_class: type[NodeCluster], node: str, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_class()
    world.run_until_ready()
    desk = Desk(world, "n1/1" if world_class is WorkerWorld else "n1")
    monkeypatch.setattr(draining, "PATIENCE_MS", 0)
    for verb, is_drained in (("node.drain", True), ("node.revive", False)):
        said = desk.ask(verb, node=node)
        assert (said["node"], said["is_safe"], said["silent_workers"]) == (node, False, [late]), said
        assert said["is_draining"] is is_drained
        assert world.nodes[late].node.facts.is_drained is is_drained
    assert desk.ask("node.guard", node=node)["error"].startswith(f"node.guard: node {late} does not answer")
    world.isolate(late)
    assert not desk.ask("node.drain", node=node)["ok"] or world_class is WorkerWorld, "it was not told"
