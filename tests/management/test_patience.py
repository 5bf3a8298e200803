"""Requests that look may wait, for a while; those that act do not."""

from __future__ import annotations

import json

from amqp_broker.management.totals import FRESH_MS
from queues.background import PATIENCE_MS
from tests.node.node_driver import NodeDriver, declare
from tests.node.one_slice import OneSlice
from tests.node.system_service import SystemService


def test_what_looks_may_wait_and_what_acts_does_not(driver: NodeDriver, service: SystemService) -> None:
    background = driver.node.background
    driver.wait(FRESH_MS)
    service.send("totals", b"{}")
    assert background.patient_jobs
    driver.settle()
    assert not background.patient_jobs
    assert len(service.answers()) == 1
    service.send("definitions.import", json.dumps({"definitions": {"vhosts": [{"name": "v"}]}}).encode())
    assert background.jobs
    assert not background.patient_jobs
    driver.settle()
    assert service.answers()[0]["ok"]


def test_totals_of_very_many_queues_come_to_an_end_on_a_busy_node(driver: NodeDriver, service: SystemService) -> None:
    """A turn takes long, and there is a slice in each of them at first."""
    client = driver.client(1)
    for start in range(0, 1000, 100):
        client.send(1, *[declare(f"q{number}", durable=False) for number in range(start, start + 100)])
    driver.settle()
    driver.wait(FRESH_MS)
    driver.node.background.set_patience(OneSlice())
    began, turn_ms = driver.now, 50
    service.send("totals", b"{}")
    while not (answers := service.answers()):
        driver.turn()
        driver.now += turn_ms
    assert answers[0]["queues"] == 1000
    assert PATIENCE_MS <= driver.now - began <= PATIENCE_MS + 5 * turn_ms
