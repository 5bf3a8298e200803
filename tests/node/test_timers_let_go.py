"""A timer does not outlive what it is for: what is deleted is gone from memory, whenever its timer would have been
due."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets
from tests.node.system_service import SystemService

MINUTE_MS = 60_000
DAY_MS = 86_400_000


@pytest.fixture
def without_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def objects() -> Counter[str]:
    """How many objects there are, by type; what a module that was used for the first time keeps is no growth."""
    return Counter(type(each).__name__ for each in gc.get_objects())


def declare_and_delete(driver: NodeDriver, client: Client, count: int) -> None:
    """Queues that expire and whose messages do, each with a message."""
    for number in range(count):
        name = f"reply {number}"
        client.send(1, declare(name, durable=False, x_expires=DAY_MS, x_message_ttl=DAY_MS))
        client.publish(1, name, b"x", persistent=False)
        client.send(1, methods.QueueDelete(0, name, False, False, False))
        driver.turn()
    client.take()
    client.heard = b""


@pytest.mark.usefixtures("without_gc")
def test_queues_that_expire_are_gone_when_they_are_deleted() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    declare_and_delete(driver, client, 300)
    timers, before = len(driver.node.timers), objects()
    declare_and_delete(driver, client, 2_000)
    after = objects()
    assert len(driver.node.timers) == timers
    assert driver.node.timers.heap_length() <= 3 * timers + 200
    assert after["ClassicQueue"] == before["ClassicQueue"]
    # Cancelled timers may lie in the heap, a bounded number of them; and addresses in caches that are bounded, too.
    grown = {kind: count - before[kind] for kind, count in after.items() if count - before[kind] > 200}
    assert grown == {}


def test_a_queue_has_one_timer_however_often_policies_change() -> None:
    """They live for a minute: also a node without clients has something to look at every second."""
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    for number in range(20):
        client.send(1, declare(f"q{number}", durable=False, x_expires=MINUTE_MS))
    driver.settle()
    timers = len(driver.node.timers)
    for length in range(1, 6):
        assert service.ask("policy.put", vhost="/", name="p", pattern="", definition={"max-length": length})["ok"]
    assert len(driver.node.timers) == timers
    driver.wait(MINUTE_MS + 1)
    assert {*driver.node.broker.vhosts["/"].queues}.isdisjoint(f"q{number}" for number in range(20))


def test_a_policy_sets_when_a_queue_expires_and_takes_it_back() -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    client.send(1, declare("q", durable=False), declare("argument", durable=False, x_expires=DAY_MS))
    driver.settle()
    timers = len(driver.node.timers)

    def put(expires: int) -> None:
        assert service.ask("policy.put", vhost="/", name="p", pattern="", definition={"expires": expires})["ok"]

    put(1000)
    assert len(driver.node.timers) == timers + 1
    assert service.ask("policy.delete", vhost="/", name="p")["ok"]
    assert len(driver.node.timers) == timers
    driver.wait(2000)
    assert "q" in driver.node.broker.vhosts["/"].queues
    put(3000)
    driver.wait(3000)
    assert {*driver.node.broker.vhosts["/"].queues}.isdisjoint({"q", "argument"})


def test_an_earlier_message_takes_the_place_of_the_later_ones_timer() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q", durable=False))
    driver.settle()
    timers = len(driver.node.timers)
    for expiration in (5000, 4000, 3000):
        section = encode_properties({"expiration": str(expiration)})
        client.send_octets(
            encode_method_frame(1, methods.BasicPublish(0, "", "q", False, False))
            + frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + section)
        )
    assert len(driver.node.timers) == timers + 1
    driver.wait(6000)
    assert driver.queue("q").message_count() == 0


def delayed_octets(delay: int) -> bytes:
    section = encode_properties({"headers": Table({"x-delay": delay})})
    method = encode_method_frame(1, methods.BasicPublish(0, "d", "k", False, False))
    return method + frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + section)


def test_a_delaying_exchange_has_one_timer_which_goes_with_it() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    timers = len(driver.node.timers)
    told = Table({"x-delayed-type": "direct"})
    client.send(1, methods.ExchangeDeclare(0, "d", "x-delayed-message", False, False, False, False, False, told))
    for delay in (DAY_MS, DAY_MS - 1, DAY_MS - 2):
        client.send_octets(delayed_octets(delay))
    assert len(driver.node.timers) == timers + 1
    client.send(1, methods.ExchangeDelete(0, "d", False, False))
    assert len(driver.node.timers) == timers


def test_a_claim_that_was_answered_has_no_timer() -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    client.send(1, declare("q", durable=False))
    driver.settle()
    opened = service.ask("lease.open", queue="q", group="g", owner="o")
    named = {"queue": "q", "group": "g", "owner": "o", "incarnation": opened["incarnation"]}
    timers = len(driver.node.timers)
    for number in range(5):
        service.send("lease.claim", json.dumps({**named, "after": number, "max_messages": 1, "wait_ms": 5000}).encode())
        driver.turn()
        client.publish(1, "q", b"x", persistent=False)
        driver.settle()
        assert [answer["ok"] for answer in service.answers()] == [True]
    driver.node.tick(driver.now)
    assert len(driver.node.timers) == timers


def test_a_lease_group_of_a_deleted_queue_has_no_timer() -> None:
    driver = NodeDriver()
    service, client = SystemService(driver), driver.client(1)
    timers = len(driver.node.timers)
    for number in range(5):
        name = f"q{number}"
        client.send(1, declare(name, durable=False, x_lease_expires=DAY_MS))
        driver.settle()
        client.publish(1, name, b"x", persistent=False)
        assert service.ask("lease.open", queue=name, group="g", owner="o")["ok"]
        client.send(1, methods.QueueDelete(0, name, False, False, False))
        driver.settle()
    assert len(driver.node.timers) == timers
