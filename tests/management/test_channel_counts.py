"""What a channel counts: each delivery by how it came, and what became of it."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from tests.management.counters import publish_mandatory
from tests.node.node_driver import Client, NodeDriver, consume, declare
from tests.node.system_service import SystemService

COUNTED = (
    "publish", "confirm_count", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "deliver_get",
    "redeliver", "ack", "return_unroutable", "drop_unroutable", "messages_unacknowledged",
)  # fmt: skip


def counts(driver: NodeDriver, service: SystemService, client: Client, number: int = 1) -> dict[str, int]:
    driver.settle()
    rows = service.ask("objects.page", kind="channels")
    found = [dict(zip(rows["columns"], row, strict=True)) for row in rows["rows"]]
    port = client.connection.peer.port
    (row,) = [each for each in found if each["connection_details"]["peer_port"] == port and each["number"] == number]
    return {name: row[name] for name in COUNTED if row[name]}


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_each_way_of_a_delivery(driver: NodeDriver, service: SystemService, queue_type: str) -> None:
    client = driver.client(1, 2)
    client.send(1, declare("q", x_queue_type=queue_type))
    driver.settle()
    for number in range(9):
        client.publish(1, "q", b"%d" % number)
    client.send(1, methods.BasicGet(0, "q", True), methods.BasicGet(0, "q", False), methods.BasicGet(0, "q", False))
    assert counts(driver, service, client) == {
        "publish": 9, "get": 2, "get_no_ack": 1, "deliver_get": 3, "messages_unacknowledged": 2,
    }  # fmt: skip
    client.send(1, methods.BasicQos(0, 4, False), consume("q", "held"))
    driver.settle()
    client.send(1, methods.BasicAck(2, False), methods.BasicAck(5, True))  # 3 to 5
    client.send(1, methods.BasicCancel("held", False))
    driver.settle()
    found = counts(driver, service, client)
    held = found.pop("messages_unacknowledged")
    assert (found["ack"], found["get"], found["deliver"] - held) == (4, 2, 2)
    client.send(1, methods.BasicReject(6, True), methods.BasicNack(0, True, False))
    found = counts(driver, service, client)
    assert (found["ack"], found.get("messages_unacknowledged")) == (4, None)
    client.send(1, methods.BasicGet(0, "q", False))  # the one that came back
    found = counts(driver, service, client)
    assert (found["ack"], found["redeliver"], found["get"]) == (4, 1, 3)
    client.send(2, consume("q", "free", no_ack=True), methods.BasicGet(0, "q", True))
    driver.settle()
    client.publish(1, "q", b"x")
    other = counts(driver, service, client, 2)
    assert (other["get_empty"], other["deliver_no_ack"] > 0) == (1, True)
    assert other["deliver_no_ack"] == other["deliver_get"]


def test_a_transaction_acknowledges_when_it_is_committed(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("q"), methods.TxSelect())
    driver.settle()
    for number in range(2):
        client.publish(1, "q", b"%d" % number)
    client.send(1, methods.TxCommit(), methods.BasicGet(0, "q", False), methods.BasicGet(0, "q", False))
    driver.settle()
    client.send(1, methods.BasicAck(1, False), methods.BasicReject(2, False))
    assert "ack" not in counts(driver, service, client)
    client.send(1, methods.TxCommit())
    found = counts(driver, service, client)
    assert (found["ack"], found["get"], found.get("messages_unacknowledged")) == (1, 2, None)


def test_what_went_nowhere_is_counted_by_what_became_of_it(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, methods.ConfirmSelect(False))
    publish_mandatory(driver, client, "nowhere")
    for _ in range(2):
        client.publish(1, "nowhere", b"x")
    assert counts(driver, service, client) == {
        "publish": 3, "confirm_count": 3, "return_unroutable": 1, "drop_unroutable": 2,
    }  # fmt: skip


def test_many_at_a_time_are_acknowledged_in_slices(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1)
    client.send(1, declare("q"), consume("q", "t"))
    for _ in range(3000):
        client.publish(1, "q", b"x", persistent=False)
    driver.settle()
    before: dict[str, Any] = counts(driver, service, client)
    client.send(1, methods.BasicAck(2500, True))
    found = counts(driver, service, client)
    assert (before["deliver"], found["ack"], found["messages_unacknowledged"]) == (3000, 2500, 500)
