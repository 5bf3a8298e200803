"""What queues and exchanges show of their messages' octets, places and ways, without counting by the message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amqp_broker.management.totals import FRESH_MS
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from tests.management.counters import totals
from tests.management.publishing import publish
from tests.node.node_driver import NodeDriver, consume, declare, frame_octets, small_config
from tests.node.system_service import SystemService

_BYTES = ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged")


def row(service: SystemService, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.ask("object", kind=kind, vhost="/", name=name)["object"]
    return found


def all_of(found: dict[str, Any], *names: str) -> list[Any]:
    return [found[name] for name in names]


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}, {"x_queue_type": "quorum"}])
def test_a_few_messages_are_exact(driver: NodeDriver, service: SystemService, arguments: dict[str, Any]) -> None:
    client = driver.client(1)
    client.send(1, declare("q", **arguments))
    client.send(1, methods.BasicQos(0, 2, False))
    driver.settle()
    for number in range(10):
        client.publish(1, "q", b"x" * 100, persistent=number % 2 == 0)
    driver.settle()
    found = row(service, "queues", "q")
    is_log = bool(arguments.get("x_queue_type"))
    assert all_of(found, *_BYTES) == [1000, 1000, 0]
    assert (found["messages_ram"], found["messages_paged_out"]) == (10, 0)
    assert found["messages_persistent"] == (10 if is_log else 5)
    assert found["consumer_capacity"] is False
    client.send(1, consume("q", "held"))
    driver.settle()
    found = row(service, "queues", "q")
    assert all_of(found, *_BYTES) == [1000, 800, 200]
    assert found["messages_persistent"] == (10 if is_log else 5)
    assert (found["messages_unacknowledged_ram"], found["messages_ready_ram"]) == (2, 8)
    assert 2000 < found["memory"] < 20_000
    client.send(1, methods.QueuePurge(0, "q", False), methods.BasicAck(0, True))
    driver.settle()
    found = row(service, "queues", "q")
    assert (found["message_bytes"], found["messages_ram"], found["consumer_capacity"]) == (0, 0, True)


def test_what_is_paged_out_is_not_in_ram() -> None:
    driver = NodeDriver(small_config(memory_budget_bytes=4 << 20))
    service = SystemService(driver)
    client = driver.client(1)
    client.send(1, declare("q"))
    driver.settle()
    for _ in range(2000):
        client.publish(1, "q", b"x" * 8000, persistent=False)
    driver.settle()
    found = row(service, "queues", "q")
    assert found["messages_ready"] == 2000
    assert found["messages_paged_out"] > 1000
    assert found["messages_ram"] + found["messages_paged_out"] == 2000
    assert found["message_bytes_ram"] + found["message_bytes_paged_out"] == found["message_bytes"] == 16_000_000
    assert found["memory"] < 8 << 20
    assert found["messages_persistent"] == 0


def test_what_is_published_is_counted_by_exchange(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    client.send(1, methods.ConfirmSelect(False))
    client.send(1, declare("a"), declare("b"), methods.ExchangeDeclare(exchange="all", type="fanout"))
    client.send(1, *[methods.QueueBind(queue=name, exchange="all") for name in "ab"])
    driver.settle()
    for _ in range(3):
        client.publish(1, "a", b"x")
        for channel in (1, 2):
            publish = encode_method_frame(channel, methods.BasicPublish(exchange="all", routing_key="k"))
            client.send_octets(publish + frame_octets(2, channel, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"))
    driver.settle()
    driver.wait(FRESH_MS)
    service.ask("totals")
    known = row(service, "exchanges", "all"), row(service, "exchanges", "")
    assert [(each["publish_in"], each["publish_out"]) for each in known] == [(6, 12), (3, 3)]
    driver.lose(client)
    assert row(service, "exchanges", "all")["publish_in"] == 6


@pytest.mark.parametrize("ends", [methods.TxCommit(), methods.TxRollback()])
def test_requests_that_a_transaction_keeps_are_no_messages(
    driver: NodeDriver, service: SystemService, ends: methods.Method
) -> None:
    """Nor do they change what is counted of an exchange that comes behind them."""
    client = driver.client(1)
    client.send(1, methods.TxSelect())
    header = b"\x00\x3c\x00\x00" + (300).to_bytes(8, "big") + b"\x00\x00"
    for exchange, count in (("amq.system", 5), ("amq.fanout", 1)):
        publish = encode_method_frame(1, methods.BasicPublish(exchange=exchange, routing_key="no verb"))
        for _ in range(count):
            client.send_octets(publish + frame_octets(2, 1, header) + frame_octets(3, 1, bytes(300)))
    client.send(1, ends)
    driver.settle()
    for is_there in (True, False):
        if not is_there:
            driver.lose(client)
        found = totals(driver, service)
        counts = (row(service, "exchanges", "amq.fanout")["publish_in"], found["publish"], sum(found["message_sizes"]))
        assert counts == (1, 1, 1), is_there


def test_requests_on_a_channel_with_confirms_are_neither_published_nor_confirmed(
    driver: NodeDriver, service: SystemService
) -> None:
    """Not while messages before them wait to be confirmed, nor when the channel has gone."""
    client = driver.client(1)
    client.send(1, methods.ConfirmSelect(), declare("q"))
    driver.settle()

    def the_channel() -> dict[str, Any]:
        answer = service.ask("objects.page", kind="channels")
        found = [dict(zip(answer["columns"], each, strict=True)) for each in answer["rows"]]
        return next(each for each in found if each["confirm"])

    for number in range(1, 4):
        client.publish(1, "q", b"x")
        publish(client, "amq.system", "no verb", b"{}")
        found = the_channel()
        assert found["publish"] == number, found
        assert found["confirm_count"] + found["messages_unconfirmed"] == number, found
    driver.settle()
    assert all_of(the_channel(), "publish", "confirm_count", "messages_unconfirmed") == [3, 3, 0]
    for is_there in (True, False):
        if not is_there:
            driver.lose(client)
        found = totals(driver, service)
        assert (found["publish"], found["publish_confirm"], found["confirm"]) == (3, 3, 3), is_there


def test_a_quorum_queue_counts_what_it_delivers(driver: NodeDriver, service: SystemService) -> None:
    client = driver.client(1, 2)
    client.send(1, declare("q", x_queue_type="quorum"), methods.BasicQos(0, 2, False))
    driver.settle()
    for _ in range(6):
        client.publish(1, "q", b"x")
    driver.settle()
    client.send(1, consume("q", "held"))
    driver.settle()
    client.send(1, methods.BasicAck(1, False), methods.BasicCancel("held", False), methods.BasicReject(2, True))
    driver.settle()
    client.send(2, consume("q", "free", no_ack=True))
    driver.settle()
    found = row(service, "queues", "q")
    driver.wait(FRESH_MS)
    sums = service.ask("totals")
    assert (found["publish"], found["ack"]) == (6, 1)
    # One was on its way to the consumer when it left, and went back unseen.
    assert found["deliver"] + found["deliver_no_ack"] - found["redeliver"] in (6, 7)
    assert found["redeliver"] >= 1
    for name in ("deliver", "deliver_no_ack", "redeliver", "ack"):
        assert sums[name] <= found[name], name
    assert (sums["ack"], sums["deliver_no_ack"]) == (found["ack"], found["deliver_no_ack"])
    client.send(1, methods.QueueDelete(0, "q", False, False, False))
    driver.settle()
    driver.wait(FRESH_MS)
    after = service.ask("totals")
    assert all(after[name] >= sums[name] for name in ("deliver", "deliver_no_ack", "redeliver", "ack"))


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}, {"x_queue_type": "quorum"}])
def test_the_first_message_is_known_wherever_it_is(arguments: dict[str, Any]) -> None:
    """In the head, on a page in RAM, and in the page that is being filled."""
    driver = NodeDriver(small_config(page_size_bytes=16_384))
    service = SystemService(driver)
    client = driver.client(1)
    client.send(1, declare("q", **arguments))
    driver.settle()
    # The age is that of the message, however many are behind it, and its timestamp what its publisher has said.
    began, messages = driver.now, 500
    for number in range(messages):
        publish(client, "", "q", b"x" * 2000, timestamp=datetime.fromtimestamp(number, UTC).replace(tzinfo=None))
        driver.settle()
        driver.wait(10)
    arrived = [began + 10 * number for number in range(messages)]
    places = set()
    for number in range(messages):
        found = row(service, "queues", "q")
        rules = driver.node.broker.vhosts["/"].queues["q"]
        level = (rules._state() if arguments.get("x_queue_type") else rules).levels()[0]
        places.add("head" if level.head else "page" if level.pages else "tail")
        assert found["head_message_timestamp"] == number
        assert abs(driver.now - found["oldest_message_age_ms"] - arrived[number]) <= 20
        client.send(1, methods.BasicGet(0, "q", True))
        driver.settle()
    assert places == {"head", "page", "tail"}
    found = row(service, "queues", "q")
    assert (found["head_message_timestamp"], found["oldest_message_age_ms"]) == (None, None)
