"""Who sees to an alarm is heard while it is on; who takes messages, or brings some, waits as other publishers do."""

from __future__ import annotations

import pytest

from amqp_broker.connection.connection import is_request
from amqp_broker.leases.service import VERBS
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import NodeDriver, small_config
from tests.node.system_service import SystemService


def address_of(exchange: str, routing_key: str) -> bytes:
    """What of a publish is looked at."""
    return encode_method_frame(1, methods.BasicPublish(0, exchange, routing_key, False, False))[13:31]


@pytest.mark.parametrize("verb", ["node", "totals", "connection.close", "x"])
def test_what_is_asked_of_the_node_waits_for_nothing(verb: str) -> None:
    assert is_request(address_of("amq.system", verb))
    assert not is_request(address_of("amq.topic", verb))
    assert not is_request(address_of("", "amq.system"))


@pytest.mark.parametrize("verb", [*VERBS, "txn.stage", "txn.commit"])
def test_leases_and_transactions_wait(verb: str) -> None:
    assert not is_request(address_of("amq.system", verb))


def test_a_request_is_answered_on_a_full_disk() -> None:
    driver = NodeDriver(small_config())
    service = SystemService(driver)
    driver.node.alarms.disk_full(True)
    driver.settle()
    assert driver.node.pauses.is_shut
    assert [alarm["resource"] for alarm in service.ask("health")["local_alarms"]] == ["disk"]
