"""Streams hold all the memory that there is, or more: their pages go to the disk, and who publishes goes on."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from queues.pager import TIGHT_PERCENT
from tests.node.node_driver import NodeDriver, small_config

BUDGET = 4_000_000
STREAMS = 10
BODY = 10_000


def declare(name: str) -> methods.QueueDeclare:
    return methods.QueueDeclare(0, name, False, True, False, False, False, Table({"x-queue-type": "stream"}))


@pytest.mark.parametrize("octets", [3 * BUDGET // 4, 4 * BUDGET], ids=["above what is spared", "far above the budget"])
def test_pages_of_streams_leave_ram_and_nobody_is_blocked(octets: int) -> None:
    driver = NodeDriver(small_config(memory_budget_bytes=BUDGET, page_size_bytes=65536))
    client = driver.client(1)
    client.send(1, *(declare(f"s{number}") for number in range(STREAMS)), methods.ConfirmSelect())
    driver.settle()
    client.take()
    confirmed = 0
    for number in range(octets // BODY):
        client.publish(1, f"s{number % STREAMS}", bytes(BODY))
        driver.settle()
        confirmed += sum(event.method.name == "basic.ack" for event in client.take())
    for _ in range(3):  # alarms are looked at now and then
        driver.wait(1000)
        driver.settle()
    assert confirmed == octets // BODY
    assert not driver.node.alarms.is_on
    # A tail that is no page yet is what each may keep.
    assert driver.node.memory.used_bytes <= BUDGET * TIGHT_PERCENT // 100 + STREAMS * 65536 // 16
