"""queue.purge of a queue whose pages have to be read for that: in slices, and answered when all of it is done."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amqp_broker.node import LAZY_SYNC_MS
from amqp_broker.protocol import methods
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.node.one_slice import OneSlice

COUNT = 2000
PAGE_BYTES = 3000
#: Less than so much is given back between two turns: two pages.
AT_ONCE_BYTES = 4 * PAGE_BYTES
PURGE = methods.QueuePurge(0, "q", False)


def purging() -> tuple[NodeDriver, Client]:
    """A durable queue with priorities and many pages that a client has purged; nothing of that is done but its first
    slice, and there is one in each turn from now on."""
    driver = NodeDriver(small_config(page_size_bytes=PAGE_BYTES, queue_head_messages=8, queue_head_size_bytes=2000))
    client = driver.client(1)
    client.send(1, declare("q", x_max_priority=3))
    driver.settle()
    for start in range(0, COUNT, 100):
        for _ in range(start, start + 100):
            client.publish(1, "q", b"x" * 50)
        driver.settle()
    client.take()
    driver.node.background.set_pace(OneSlice())
    client.send(1, PURGE)
    assert driver.node.background.jobs
    return driver, client


def finish(driver: NodeDriver) -> None:
    """Until there is no work left."""
    while driver.node.background.jobs:
        driver.settle()
    driver.settle()


def test_it_is_done_a_few_pages_at_a_time_and_answered_then() -> None:
    driver, client = purging()
    pager = driver.node.store.pager
    used = [pager.used]
    assert driver.queue("q").message_count() == 0
    while driver.node.background.jobs:
        assert client.take() == []
        driver.turn()
        used.append(pager.used)
    driver.settle()
    (answer,) = client.take()
    assert answer.method.message_count == COUNT
    assert used[-1] == 0
    assert max(before - after for before, after in pairwise(used)) < AT_ONCE_BYTES


def test_what_is_published_meanwhile_stays_and_nothing_else_comes_back() -> None:
    driver, _ = purging()
    other = driver.client(1)
    other.send(1, methods.ConfirmSelect(False))
    other.publish(1, "q", b"new")
    finish(driver)
    assert other.names() == ["confirm.select-ok", "basic.ack"]
    driver.wait(LAZY_SYNC_MS)
    driver.crash()
    queue = driver.queue("q")
    assert queue.message_count() == 1
    assert queue.first_ready().message.body_bytes() == b"new"


@pytest.mark.parametrize("end", ["deleted", "lost", "purged"])
def test_whatever_happens_meanwhile_it_comes_to_its_end(end: str) -> None:
    driver, client = purging()
    other = driver.client(1)
    driver.turn()
    if end == "lost":
        driver.lose(client)
    else:
        other.send(1, methods.QueueDelete(0, "q", False, False, False) if end == "deleted" else PURGE)
    finish(driver)
    assert driver.node.store.pager.used == 0
    driver.crash()
    assert "q" not in driver.node.broker.vhosts["/"].queues or driver.queue("q").message_count() == 0
