"""Quorum queues of all groups and classic queues share one memory budget."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.management.statistics import count_node
from amqp_broker.protocol import methods
from amqp_broker.turn.task import Task
from queues.quorum import places
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.storage.page_files import disk_bytes

BUDGET = 1 << 20
QUEUES = [f"q{number}" for number in range(8)]


@pytest.fixture
def driver() -> NodeDriver:
    made = NodeDriver(small_config(memory_budget_bytes=BUDGET, page_size_bytes=16 * 1024, queue_groups=8))
    client = made.client(1)
    client.send(1, declare("classic", durable=True), *[declare(name, x_queue_type="quorum") for name in QUEUES])
    made.settle()
    return made


def statistics(driver: NodeDriver) -> dict[str, Any]:
    task = Task(driver.node.background, count_node(driver.node.system.counts))
    driver.turn()
    assert task.is_done
    return dict(task.result)


def fill(driver: NodeDriver, client: Client, queue: str, octets: int, **about: Any) -> None:
    for _ in range(octets // 4096):
        client.publish(1, queue, bytes(4096), **about)
        driver.settle()


def test_all_queues_together_keep_to_the_budget(driver: NodeDriver) -> None:
    client = driver.client(1)
    for queue in [*QUEUES, "classic"]:
        fill(driver, client, queue, BUDGET // 2)
    driver.wait(500)
    driver.settle()
    found = statistics(driver)
    assert found["memory_used"] < BUDGET
    assert found["messages_ready"] == 9 * (BUDGET // 2 // 4096)
    assert not found["is_blocked"]


def test_the_disk_is_free_when_what_it_held_is_gone(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting until the log has grown enough for another checkpoint."""
    monkeypatch.setattr(places, "_DEAD_BYTES", 100_000)
    client = driver.client(1)
    fill(driver, client, "q0", 4 * BUDGET)
    queue = driver.queue("q0")
    assert queue.group.raft.take_checkpoint()
    driver.settle()
    page_store = driver.node.store.pager.page_store
    assert disk_bytes(page_store, queue.queue_id) > 3 * BUDGET
    client.send(1, methods.QueuePurge(0, "q0", False))
    driver.settle()
    driver.wait(1000)
    driver.settle()
    assert client.names()[-1] == "queue.purge-ok"
    assert disk_bytes(page_store, queue.queue_id) < 200_000


def test_a_classic_queue_pages_when_quorum_queues_hold_the_budget(driver: NodeDriver) -> None:
    client = driver.client(1)
    fill(driver, client, "q0", 2 * BUDGET)
    before = driver.node.store.pager.pages_stored
    fill(driver, client, "classic", BUDGET)
    assert driver.node.store.pager.pages_stored > before
    assert statistics(driver)["memory_used"] < BUDGET
