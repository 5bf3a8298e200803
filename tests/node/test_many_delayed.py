"""Very many delayed messages that fall due together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets
from tests.node.one_slice import OneSlice

pytestmark = pytest.mark.once

COUNT = 500
DELAY_MS = 60_000


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def exchange(driver: NodeDriver, inner: str = "direct") -> Client:
    """A durable delaying exchange `x`, from which two queues get what has their name for its key."""
    client = driver.client(1)
    arguments = Table({"x-delayed-type": inner})
    client.send(1, methods.ExchangeDeclare(0, "x", "x-delayed-message", False, True, False, False, False, arguments))
    driver.settle()
    for name in ("a", "b"):
        client.send(1, declare(name))
        driver.settle()
        bind(driver, client, name, name)
    client.take()
    return client


def bind(driver: NodeDriver, client: Client, queue: str, key: str, **arguments: object) -> None:
    client.send(1, methods.QueueBind(0, queue, "x", key, False, Table(dict(arguments))))
    driver.settle()


def publish(driver: NodeDriver, client: Client, mode: int, count: int, key: str = "a", **headers: object) -> None:
    section = encode_properties({"headers": {"x-delay": DELAY_MS, **headers}, "delivery_mode": mode})
    octets = []
    for number in range(count):
        body = b"%d" % number
        octets.append(encode_method_frame(1, methods.BasicPublish(0, "x", key, False, False)))
        octets.append(frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section))
        octets.append(frame_octets(3, 1, body))
    client.send_octets(b"".join(octets))
    driver.settle()


def ready(driver: NodeDriver, queue: str = "a") -> int:
    return int(driver.queue(queue).message_count())


def step(driver: NodeDriver) -> None:
    """A turn, whatever of it is for the disk, and the next deadline if that is now."""
    turn = driver.turn()
    if turn.wants_sync and (job := driver.node.take_sync()) is not None:
        driver.synced(job)
    driver.node.tick(driver.now)


def fall_due(driver: NodeDriver) -> None:
    driver.node.background.set_pace(OneSlice())
    driver.now += DELAY_MS
    driver.node.tick(driver.now)


def bodies(driver: NodeDriver, queue: str = "a") -> list[bytes]:
    reader = driver.client(1)
    found = []
    while ready(driver, queue):
        reader.send(1, methods.BasicGet(0, queue, True))
        driver.turn()
        (event,) = reader.take()
        found.append(event.body)
    return found


@pytest.mark.parametrize("mode", [1, 2])
def test_a_few_are_released_at_a_time_in_order_and_once(driver: NodeDriver, mode: int) -> None:
    client = exchange(driver)
    publish(driver, client, mode, COUNT)
    fall_due(driver)
    other = driver.client(1)
    seen = [ready(driver)]
    while seen[-1] < COUNT:
        other.send(1, methods.BasicQos(0, 1, False))
        step(driver)
        assert "basic.qos-ok" in other.names()
        seen.append(ready(driver))
    assert max(after - before for before, after in pairwise(seen)) < 100
    for _ in range(5):
        step(driver)
    assert bodies(driver) == [b"%d" % number for number in range(COUNT)]
    assert len(driver.node.broker.vhosts["/"].delayed["x"]) == 0


@pytest.mark.parametrize("mode", [1, 2])
def test_an_exchange_that_goes_meanwhile_releases_no_more(driver: NodeDriver, mode: int) -> None:
    client = exchange(driver)
    publish(driver, client, mode, COUNT)
    used = driver.node.store.pager.used
    fall_due(driver)
    while not ready(driver):
        step(driver)
    client.send(1, methods.ExchangeDelete(0, "x", False, False))
    for _ in range(100):
        step(driver)
    assert 0 < ready(driver) < COUNT
    assert not driver.node.background.jobs
    assert len(bodies(driver)) < COUNT
    assert driver.node.store.pager.used <= used


@pytest.mark.parametrize("mode", [1, 2])
def test_where_they_go_is_said_by_the_bindings_of_the_moment(driver: NodeDriver, mode: int) -> None:
    client = exchange(driver)
    publish(driver, client, mode, COUNT)
    fall_due(driver)
    while not ready(driver):
        step(driver)
    bind(driver, client, "b", "a")
    while ready(driver) < COUNT:
        step(driver)
    both = bodies(driver, "b")
    assert 0 < len(both) < COUNT
    assert both == [b"%d" % number for number in range(COUNT - len(both), COUNT)]


@pytest.mark.parametrize("mode", [1, 2])
def test_further_keys_in_headers_count_though_the_route_of_the_key_is_known(driver: NodeDriver, mode: int) -> None:
    client = exchange(driver)
    publish(driver, client, mode, 3)
    publish(driver, client, mode, 1, CC=["b"])
    publish(driver, client, mode, 3)
    fall_due(driver)
    while ready(driver) < 7:
        step(driver)
    assert ready(driver, "b") == 1


@pytest.mark.parametrize("mode", [1, 2])
def test_an_exchange_that_looks_at_headers_looks_at_those_of_each(driver: NodeDriver, mode: int) -> None:
    client = exchange(driver, "headers")
    for name in ("a", "b"):
        client.send(1, methods.QueueUnbind(0, name, "x", name, Table({})))
        driver.settle()
        bind(driver, client, name, "", kind=name)
    publish(driver, client, mode, 3, kind="a")
    publish(driver, client, mode, 2, kind="b")
    fall_due(driver)
    while ready(driver) < 3 or ready(driver, "b") < 2:
        step(driver)
    assert (ready(driver), ready(driver, "b")) == (3, 2)


@pytest.mark.parametrize("turns", range(0, 60, 7))
def test_a_crash_in_between_neither_loses_nor_doubles_any(driver: NodeDriver, turns: int) -> None:
    """A node alone has a message's new place and the end of its delay on the disk together, or neither."""
    client = exchange(driver)
    publish(driver, client, 2, COUNT)
    fall_due(driver)
    for _ in range(turns):
        step(driver)
    driver.crash()
    for _ in range(200):
        step(driver)
    driver.wait(5000)
    assert sorted(map(int, bodies(driver))) == list(range(COUNT))


def test_those_of_a_deleted_exchange_are_given_back_in_slices(driver: NodeDriver) -> None:
    client = exchange(driver)
    for _ in range(4):
        publish(driver, client, 1, COUNT)
    pager = driver.node.store.pager
    held = pager.used
    driver.node.background.set_pace(OneSlice())
    client.send(1, methods.ExchangeDelete(0, "x", False, False))
    assert held // 2 < pager.used < held
    while driver.node.background.jobs:
        before = pager.used
        driver.turn()
        assert before - pager.used <= held // 3
    assert pager.used == 0
