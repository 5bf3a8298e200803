"""For how long the delivery is unacknowledged that has been so for longest: from when it was delivered, whatever the
type of its queue, wherever its consumer is, however old its message."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.channel.delivery_times import STEP_MS
from amqp_broker.connection.connection import connection_of
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, consume, declare, small_config
from tests.node.system_service import SystemService

OLD_MS = 60_000
TYPES: list[dict[str, Any]] = [{}, {"x_max_priority": 3}, {"x_queue_type": "quorum"}, {"x_queue_type": "stream"}]


def ages(service: SystemService) -> dict[str, int | None]:
    """Of the queues, by the list; each by itself says the same."""
    answer = service.ask("objects.page", kind="queues", columns=["name", "oldest_unacked_age_ms"])
    found = dict(answer["rows"])
    for name, age in found.items():
        assert service.ask("object", kind="queues", vhost="/", name=name)["object"]["oldest_unacked_age_ms"] == age
    return found


def of_channel(service: SystemService, number: int) -> int | None:
    answer = service.ask("objects.page", kind="channels", columns=["number", "oldest_unacked_age_ms", "node"])
    (age,) = [age for one, age, _ in answer["rows"][1:] if one == number]
    return None if age is None else int(age)


@pytest.mark.parametrize("arguments", TYPES)
def test_what_was_just_delivered_is_new_however_old_it_is(
    driver: NodeDriver, service: SystemService, arguments: dict[str, Any]
) -> None:
    client = driver.client(1)
    client.send(1, declare("q", durable=True, **arguments))
    driver.settle()
    for _ in range(3):
        client.publish(1, "q", b"x")
    driver.settle()
    driver.wait(OLD_MS)
    assert ages(service) == {"q": None}
    wish = Table({"x-stream-offset": "first"} if "stream" in arguments.values() else {})
    client.send(1, methods.BasicQos(0, 2, False), methods.BasicConsume(queue="q", consumer_tag="c", arguments=wish))
    driver.settle()
    found = ages(service)["q"]
    assert found is not None
    assert found < 1000
    driver.wait(5000)
    assert ages(service) == {"q": found + 5000}
    assert of_channel(service, 1) == pytest.approx(found + 5000, abs=STEP_MS)
    # The next one comes now, and the second has been there all the while; then it goes, too.
    client.send(1, methods.BasicAck(1, False))
    driver.settle()
    driver.wait(3000)
    assert ages(service)["q"] == pytest.approx(found + 8000, abs=STEP_MS)
    client.send(1, methods.BasicAck(2, False))
    driver.settle()
    assert ages(service)["q"] == pytest.approx(3000, abs=STEP_MS)
    client.send(1, methods.BasicAck(3, False))
    driver.settle()
    assert ages(service) == {"q": None}


def test_each_queue_of_a_channel_has_its_own(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    for name in ("a", "b", "c"):
        client.send(1, declare(name), consume(name, name))
        driver.settle()
    for name in ("a", "a", "b", "a", "c"):
        client.publish(1, name, b"x")
        driver.settle()
        driver.wait(1000)
    now = {"a": 5000, "b": 3000, "c": 1000}
    assert {name: round(age or 0, -2) for name, age in ages(service).items()} == now
    client.send(1, methods.BasicAck(1, False), methods.BasicAck(2, False))
    driver.settle()
    assert {name: round(age or 0, -2) for name, age in ages(service).items()} == {**now, "a": 2000}


@pytest.mark.parametrize("arguments", TYPES[:3])
def test_who_stands_in_the_queue_no_more_still_holds(
    driver: NodeDriver, service: SystemService, arguments: dict[str, Any]
) -> None:
    """What basic.get has fetched, and what a consumer holds that was cancelled."""
    client = driver.client(1, 2)
    for name in ("got", "left"):
        client.send(1, declare(name, durable=True, **arguments))
    driver.settle()
    client.publish(1, "got", b"x")
    client.publish(1, "left", b"x")
    driver.settle()
    driver.wait(OLD_MS)
    client.send(1, methods.BasicGet(0, "got", False))
    client.send(2, consume("left", "c"))
    driver.settle()
    client.send(2, methods.BasicCancel("c", False))
    driver.settle()
    driver.wait(2000)
    assert {name: round(age or 0, -3) for name, age in ages(service).items()} == {"got": 2000, "left": 2000}


def test_one_that_is_held_for_very_long_does_not_make_the_others_inexact() -> None:
    """While one is stuck others come and go, turn after turn: what is kept of them stays small."""
    driver = NodeDriver(small_config())
    service = SystemService(driver)
    client = driver.client(1)
    client.send(1, declare("q"), consume("q", "c"))
    driver.settle()
    hours, often = 3_600_000, 2000
    channel = connection_of(client.connection).channels[1]
    for tag in range(1, often + 1):
        client.publish(1, "q", b"x")
        driver.settle()
        if tag > 1:
            client.send(1, methods.BasicAck(tag, False))
        driver.wait(hours // often)
    driver.settle()
    assert ages(service)["q"] == pytest.approx(hours, rel=0.05)
    assert channel.times is not None
    assert len(channel.times.tags) < often // 3
    client.publish(1, "q", b"x")
    driver.settle()
    driver.wait(hours // 10)
    client.send(1, methods.BasicAck(1, False))
    driver.settle()
    assert ages(service)["q"] == pytest.approx(hours // 10, rel=0.15)


@pytest.mark.parametrize("arguments", [{}, {"x_queue_type": "quorum"}])
def test_consumers_of_other_nodes_count_and_every_node_says_the_same(arguments: dict[str, Any]) -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    client = cluster.nodes["n1"].client(1)
    client.send(1, declare("q", durable=True, **arguments))
    cluster.run(300)
    client.publish(1, "q", b"x")
    cluster.run(OLD_MS)
    reader = cluster.nodes["n2"].client(1)
    reader.send(1, consume("q", "c"))
    cluster.run(4000)
    for name in cluster.names:
        (row,) = desk.rows(name, "queues", columns=["name", "oldest_unacked_age_ms"])
        assert row["oldest_unacked_age_ms"] == pytest.approx(4000, abs=300), name
