"""Tests that go together go to one worker, and what is done is forgotten (tests/scheduling.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist")

from tests.scheduling import Scheduling

TESTS = ["a.py::one@group", *(f"b.py::test[{number}]" for number in range(20)), "c.py::two@group"]


class Worker:
    """What xdist knows of one."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_each_test_is_given_out_once_groups_to_one_worker_and_what_is_done_is_forgotten() -> None:
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["2*popen"], option=SimpleNamespace(loadscopereorder=True)
    )
    scheduling, workers = Scheduling(config), [Worker("first"), Worker("second")]
    for worker in workers:
        scheduling.add_node(worker)  # type: ignore[arg-type]
    for worker in workers:
        scheduling.add_node_collection(worker, TESTS)  # type: ignore[arg-type]
    scheduling.schedule()
    done: dict[int, Worker] = {}
    while not scheduling.tests_finished or scheduling.has_pending:
        for worker in workers:
            waiting = [index for index in worker.given if index not in done]
            for index in waiting[:1]:
                done[index] = worker
                scheduling.mark_test_complete(worker, index)  # type: ignore[arg-type]
            known = sum(len(unit) for unit in scheduling.assigned_work[worker].values())  # type: ignore[index]
            assert known <= len(waiting) + 3
    assert sorted([*workers[0].given, *workers[1].given]) == list(range(len(TESTS)))
    assert done[0] is done[len(TESTS) - 1]
    assert [worker.shutting_down for worker in workers] == [True, True]
    assert not any(scheduling.assigned_work.values())
