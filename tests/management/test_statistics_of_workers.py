"""`statistics` of a node of several workers: whichever is asked says what each counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.node_driver import NodeDriver
from tests.node.system_service import SystemService
from tests.node.worker_world import WorkerWorld


def asked(world: WorkerWorld, at: str) -> dict[str, Any]:
    service = SystemService(world.nodes[at])
    service.send("statistics", b"{}")
    for _ in range(30):
        world.run(50)
        if answers := service.answers():
            return dict(answers[0])
    raise AssertionError("no answer")


@pytest.mark.parametrize("at", ["n1", "n1/2"])
def test_each_worker_is_there_with_its_own_counts(at: str) -> None:
    world = WorkerWorld(3)
    world.declare("n1/1", "a", "b")
    world.client("n1/1", 1).publish(1, "a", b"x")
    world.settle()
    found = asked(world, at)
    assert [each["worker"] for each in found["workers"]] == [0, 1, 2]
    assert [each["messages_ready"] for each in found["workers"]] == [0, 1, 0]
    own = found["workers"][world.names.index(at)]
    assert own == {"worker": world.names.index(at), **found["statistics"]}


def test_a_worker_that_is_away_has_its_number_only() -> None:
    world = WorkerWorld(2)
    world.kill("n1/1")
    assert asked(world, "n1")["workers"][1] == {"worker": 1}


def test_of_a_node_that_is_one_process_there_are_no_workers() -> None:
    assert sorted(SystemService(NodeDriver()).ask("statistics")) == ["ok", "statistics"]
