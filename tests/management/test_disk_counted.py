"""What goes to the disk and comes from it is counted by what it is, for queues of every type."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.management.totals import FRESH_MS
from amqp_broker.protocol import methods
from tests.management.counters import totals
from tests.node.node_driver import NodeDriver, consume, declare, small_config
from tests.node.system_service import SystemService, tool

COUNT = 600


def paging(**settings: Any) -> tuple[NodeDriver, SystemService]:
    """A node that has room for few of these messages."""
    driver = NodeDriver(small_config(memory_budget_bytes=1 << 20, page_size_bytes=1 << 16, **settings))
    return driver, SystemService(driver)


def disk_counts(driver: NodeDriver, service: SystemService) -> tuple[int, int]:
    sums = totals(driver, service)
    return sums["msg_store_write_count"], sums["msg_store_read_count"]


@pytest.mark.parametrize("arguments", [{}, {"x_queue_type": "quorum"}])
def test_messages_of_pages_are_counted(arguments: dict[str, str]) -> None:
    driver, service = paging()
    client = driver.client(1)
    client.send(1, declare("q", durable=True, **arguments))
    driver.settle()
    assert disk_counts(driver, service) == (0, 0)
    for _ in range(COUNT):
        client.publish(1, "q", b"x" * 8000)
        driver.settle()
    stored, loaded = disk_counts(driver, service)
    assert COUNT // 2 < stored <= COUNT
    assert loaded < COUNT // 10
    client.send(1, methods.BasicQos(0, 10, False), consume("q", "c"))
    while service.ask("object", kind="queues", vhost="/", name="q")["object"]["messages"]:
        driver.node.writable(client.connection, driver.now)
        client.send(1, methods.BasicAck(0, True))
        driver.wait(10)
    written, read = disk_counts(driver, service)
    assert stored <= written <= COUNT
    assert stored // 2 <= read <= written, "the first of it never left memory"


def test_a_stream_says_in_how_many_files_it_is(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("s", durable=True, x_queue_type="stream"), declare("q"))
    driver.settle()

    def files(name: str) -> int | None:
        found = service.ask("object", kind="queues", vhost="/", name=name)["object"]["stream_segments"]
        return None if found is None else int(found)

    assert (files("s"), files("q")) == (0, None)
    for _ in range(300):
        client.publish(1, "s", b"x" * 8000)
    driver.settle()
    driver.wait(FRESH_MS)
    stream = service.ask("object", kind="queues", vhost="/", name="s")["object"]
    assert stream["stream_segments"] >= 1
    assert disk_counts(driver, service)[0] > 0


def test_the_journal_is_counted_by_its_writes(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("q", durable=True), methods.ConfirmSelect(False))
    driver.settle()
    before = totals(driver, service)
    for _ in range(7):
        client.publish(1, "q", b"x", persistent=True)
        driver.settle()
    after = totals(driver, service)
    assert after["queue_index_write_count"] >= before["queue_index_write_count"] + 7
    assert sum(after["journal_syncs"]) == after["queue_index_write_count"] <= after["io_sync_count"]
    groups = service.ask("cluster.status")["groups"]
    assert all(group["segments"] == 1 for group in groups)


def test_publishers_that_wait_are_counted() -> None:
    driver = NodeDriver(small_config(memory_budget_bytes=20_000))
    service = SystemService(driver, tool(driver))
    client, other = driver.client(1), driver.client(1)
    client.send(1, declare("q"), consume("q", "c"))
    driver.settle()
    assert totals(driver, service)["publishers_blocked"] == 0
    for _ in range(40):
        client.publish(1, "q", b"x" * 1000)
    driver.wait(1000)
    assert driver.node.alarms.is_on
    assert service.ask("health")["local_alarms"], "who sees to it is heard"
    for one in (client, other):
        one.publish(1, "q", b"x" * 1000)
    driver.settle()
    assert totals(driver, service)["publishers_blocked"] == 2
    driver.lose(client)
    assert totals(driver, service)["publishers_blocked"] == 0
