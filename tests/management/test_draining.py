"""A node that lets go of its work: who leads, who is closed at which pace, who is let in; whether it can be stopped."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.auth.session import TOOL_NAME
from amqp_broker.system_client import CLIENT_NAME
from raft.membership import TransferResult
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.management.users import USER, add_user, log_in
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.node.system_service import SystemService, tool


def test_the_tools_call_themselves_so() -> None:
    assert TOOL_NAME == CLIENT_NAME


def test_connections_are_closed_at_a_pace_and_nobody_comes() -> None:
    driver = NodeDriver(small_config(drain_pace=10))
    clients = [driver.client(1) for _ in range(25)]
    service = SystemService(driver, tool(driver))
    said = service.ask("node.drain")
    assert (said["is_draining"], said["is_safe"]) == (True, True)

    def left() -> int:
        return sum("connection.close" not in [event.method.name for event in each.events] for each in clients)

    assert left() == 24
    driver.wait(1000)
    assert left() == 14
    assert "connection.close" not in service.client.names()
    assert service.ask("health")["ready"] is False
    assert service.ask("node")["being_drained"] is True
    refused = log_in(driver, USER)
    (closed,) = [each.method for each in refused.take() if each.method.name == "connection.close"]
    assert (closed.reply_code, "being drained" in closed.reply_text) == (320, True)
    add_user(driver, "plain")
    assert "connection.close" in tool(driver, "plain").names(), "the name alone lets nobody in"
    assert service.ask("node.drain", pace=1000)["ok"]
    driver.wait(100)
    assert left() == 0
    assert service.ask("node.guard")["connections"] == 0
    assert service.ask("node.revive")["is_draining"] is False
    assert "connection.open-ok" in log_in(driver, USER).names()
    assert service.ask("health")["ready"] is True


def test_drained_twice_is_not_twice_as_fast() -> None:
    driver = NodeDriver(small_config(drain_pace=10))
    clients = [driver.client(1) for _ in range(40)]
    service = SystemService(driver, tool(driver))
    for verb in ("node.drain", "node.revive", "node.drain"):
        assert service.ask(verb)["ok"]
    driver.wait(1000)
    closed = sum("connection.close" in [event.method.name for event in each.events] for each in clients)
    assert closed == 12


@pytest.mark.parametrize("fields", [{"pace": 0}, {"node": "elsewhere"}, {"node": 1}])
def test_what_cannot_be_drained(fields: dict[str, Any]) -> None:
    driver = NodeDriver()
    assert not SystemService(driver).ask("node.drain", **fields)["ok"]
    assert not driver.node.facts.is_drained


@pytest.fixture
def service() -> ClusterDesk:
    cluster = NodeCluster()
    cluster.run_until_ready()
    return ClusterDesk(cluster)


def leaders(service: ClusterDesk) -> set[str]:
    rows = service.ask("n2", "cluster.status", brief=True)["groups"]
    return {row["leader"] for row in rows}


def test_others_lead_as_long_as_it_is_drained(service: ClusterDesk) -> None:
    cluster = service.cluster
    cluster.nodes["n1"].client(1).send(1, declare("quorum", x_queue_type="quorum"), declare("classic"))
    cluster.run(300)
    said = service.ask("n2", "node.drain", node="n1")
    assert (said["node"], said["is_draining"], said["classic_queues"]) == ("n1", True, 1)
    cluster.run(2000)
    assert "n1" not in leaders(service)
    said = service.ask("n2", "node.guard", node="n1")
    assert (said["is_safe"], said["leads"], said["connections"]) == (True, 0, 0)
    assert cluster.nodes["n1"].node.facts.is_drained
    assert not cluster.nodes["n2"].node.facts.is_drained
    assert service.ask("n3", "node.revive", node="n1")["is_draining"] is False


def test_guard_says_what_would_stand_still(service: ClusterDesk) -> None:
    cluster = service.cluster
    cluster.nodes["n1"].client(1).send(1, declare("quorum", x_queue_type="quorum"))
    cluster.run(300)
    assert service.ask("n1", "node.guard")["critical_queues"] == []
    for other in ("n1", "n2"):
        cluster.cut("n3", other)
    cluster.run(3000)
    said = service.ask("n1", "node.guard", node="n2")
    assert said["is_safe"] is False
    assert said["critical_queues"] == [{"vhost": "/", "name": "quorum"}]
    assert 0 in said["critical_groups"]
    assert "does not answer" in service.ask("n1", "node.guard", node="n3")["error"]


def lone_rows(service: SystemService) -> tuple[bool, int, int]:
    said = service.ask("node.guard")
    return said["is_safe"], said["classic_queues"], said["only_copies"]


def test_of_a_lone_node_all_that_is_kept_is_away_with_it() -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    assert lone_rows(service) == (True, 0, 0)
    client.send(1, declare("classic", durable=True), declare("fleeting", durable=False))
    client.send(1, declare("quorum", durable=True, x_queue_type="quorum"))
    client.send(1, declare("stream", durable=True, x_queue_type="stream"))
    driver.settle()
    assert lone_rows(service) == (True, 1, 2)


def keep_publishing(service: ClusterDesk, publisher: Client) -> None:
    """Some of it is under way at any time, from now on: no plain look ever finds members with the whole log."""
    cluster, run = service.cluster, service.cluster.run

    def publish_and_run(milliseconds: int) -> None:
        for _ in range(max(1, milliseconds // 10)):
            publisher.publish(1, "quorum", b"x")
            run(10)

    cluster.run = publish_and_run  # type: ignore[method-assign]


def lags(service: ClusterDesk, leader: str) -> list[int]:
    """What that node, which leads, says of the others."""
    groups = service.ask(leader, "cluster.status")["groups"]
    return [lag for group in groups for lag in group["lag"].values()]


def led_by(service: ClusterDesk, name: str) -> None:
    """All groups."""
    for driver in service.cluster.nodes.values():
        for group in driver.node.replication.host.groups.values():
            if group.is_leader and driver is not service.cluster.nodes[name]:
                assert group.transfer_leadership(name) is TransferResult.STARTED
    service.cluster.run(300)
    assert leaders(service) == {name}


def test_under_traffic_it_can_be_stopped_as_long_as_the_others_come_along(service: ClusterDesk) -> None:
    cluster = service.cluster
    client = cluster.nodes["n1"].client(1)
    client.send(1, declare("quorum", x_queue_type="quorum"))
    cluster.run(300)
    led_by(service, "n1")
    keep_publishing(service, client)
    assert max(lags(service, "n1")) > 0
    for name in cluster.names:
        said = service.ask("n2", "node.guard", node=name)
        assert (said["is_safe"], said["lag"], said["lagging_groups"]) == (True, 0, []), name


@pytest.mark.parametrize("leader", ["n1", "n3"])
def test_a_member_that_lags_keeps_the_others_from_being_stopped(service: ClusterDesk, leader: str) -> None:
    """n2 is linked, and its disk has stopped: whoever leads, the other two are needed. It itself is not."""
    cluster = service.cluster
    client = cluster.nodes[leader].client(1)
    client.send(1, declare("quorum", x_queue_type="quorum"))
    cluster.run(300)
    led_by(service, leader)
    cluster.stall("n2")
    for _ in range(20):
        client.publish(1, "quorum", b"x")
        cluster.run(10)
    for name in ("n1", "n3"):
        said = service.ask(name, "node.guard")
        assert (said["is_safe"], said["critical_groups"], said["leaderless_groups"]) == (False, [], [])
        assert said["lag"] >= 20
        assert said["lagging_groups"] != []
    assert service.ask("n1", "node.guard", node="n2")["is_safe"] is True
    cluster.release("n2")
    cluster.run(500)
    for name in cluster.names:
        assert service.ask("n1", "node.guard", node=name)["is_safe"] is True, name
