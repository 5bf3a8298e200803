"""Who sees to an alarm is heard while it is on; who takes messages, or brings some, waits as other publishers do."""

from __future__ import annotations

import pytest

from amqp_broker.auth.session import TOOL_NAME
from amqp_broker.connection.connection import is_request
from amqp_broker.leases.service import VERBS
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import PASSWORD, USER, NodeDriver, small_config
from tests.node.system_service import SystemService, tool


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


@pytest.fixture
def full() -> NodeDriver:
    """With a full disk, and a user who may publish and has no tag."""
    driver = NodeDriver(small_config())
    service = SystemService(driver)
    service.ask("user.put", name="app", password=PASSWORD, tags=[])
    service.ask("permission.put", vhost="/", user="app", configure=".*", write=".*", read=".*")
    driver.node.alarms.disk_full(True)
    driver.settle()
    assert driver.node.pauses.is_shut
    return driver


def test_an_operators_request_is_answered_on_a_full_disk(full: NodeDriver) -> None:
    service = SystemService(full, tool(full))
    assert [alarm["resource"] for alarm in service.ask("health")["local_alarms"]] == ["disk"]


@pytest.mark.parametrize(("user", "name"), [("app", TOOL_NAME), (USER, "an application")])
def test_others_wait_with_theirs(full: NodeDriver, user: str, name: str) -> None:
    service = SystemService(full, tool(full, user, name))
    service.send("health", b"{}")
    full.settle()
    assert service.answers() == []
    full.node.alarms.disk_full(False)
    full.settle()
    assert len(service.answers()) == 1


def test_what_is_kept_for_a_commit_waits(full: NodeDriver) -> None:
    """It would be kept in memory, as much as a transaction may have."""
    client = tool(full)
    service = SystemService(full, client)
    client.send(1, methods.TxSelect())
    full.settle()
    service.send("health", b"{}")
    client.send(1, methods.TxCommit())
    full.settle()
    assert "tx.commit-ok" not in client.names()
