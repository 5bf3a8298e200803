"""A connection that has ended goes at once, by its reference count, without the collector, which stops everybody."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, publish_octets, small_config

KINDS = (
    "Connection", "Channel", "ChannelConsumer", "Confirms", "ConfirmRecord", "Session", "Output", "Heartbeat",
    "ProxyConsumer",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> dict[str, int]:
    """How many there are of what a connection is made of."""
    counts = dict.fromkeys(KINDS, 0)
    for each in gc.get_objects():
        kind = type(each).__name__
        if kind in counts and type(each).__module__.startswith("amqp_broker."):
            counts[kind] += 1
    return counts


def by_client_close(driver: NodeDriver, client: Client) -> None:
    client.send(0, methods.ConnectionClose(200, "bye", 0, 0))


def by_our_close(driver: NodeDriver, client: Client) -> None:
    client.send(99, methods.BasicQos(0, 1, False))
    driver.turn()
    client.send(0, methods.ConnectionCloseOk())


def by_garbage(driver: NodeDriver, client: Client) -> None:
    client.send_octets(b"\x01\x00\x01\x00\x00\x00\x02xx\xce")
    driver.turn()
    driver.wait(driver.config.closing_timeout_ms)


def by_channel_close(driver: NodeDriver, client: Client) -> None:
    client.send(1, methods.ChannelClose(200, "", 0, 0), methods.ChannelOpen())
    client.send(2, methods.QueueDelete(0, "missing", False, False, False), methods.QueueBind(0, "missing", "no", ""))
    driver.turn()
    driver.lose(client)


def by_loss(driver: NodeDriver, client: Client) -> None:
    driver.lose(client)


def by_silence(driver: NodeDriver, client: Client) -> None:
    driver.wait(40_000)


def by_shutdown(driver: NodeDriver, client: Client) -> None:
    driver.node.shut_down(driver.now)
    driver.turn()
    client.send(0, methods.ConnectionCloseOk())


def busy(driver: NodeDriver) -> Client:
    """A client with everything: consumers of both kinds of queues, deliveries, a basic.get, confirms, an exclusive
    queue, a transaction, an unfinished message, heartbeats."""
    client = driver.client(1, 2, 3, heartbeat=10)
    client.send(1, methods.BasicQos(0, 2, False), consume("replicated", "one"), consume("replicated", "other"))
    driver.settle()
    client.send(1, methods.ConfirmSelect(False), consume("kept"), methods.BasicGet(0, "kept", False))
    client.send(2, methods.QueueDeclare(0, "", False, False, True, True, False, Table({})))
    client.send(2, consume("amq.rabbitmq.reply-to", no_ack=True), methods.BasicGet(0, "kept", False))
    client.send(3, methods.TxSelect())
    client.publish(3, "kept", b"in a transaction")
    client.publish(1, "kept", b"persistent")
    driver.turn()  # its confirm waits for the disk
    first_frame = len(publish_octets(2, "kept", b"x" * 4088))
    client.send_octets(publish_octets(2, "kept", b"x" * 9000)[:first_frame])
    return client


@pytest.mark.parametrize(
    "end", [by_client_close, by_our_close, by_garbage, by_channel_close, by_loss, by_silence, by_shutdown]
)
def test_it_goes_however_it_ends(end: Callable[[NodeDriver, Client], None]) -> None:
    driver = NodeDriver()
    owner = driver.client(1)
    owner.send(1, declare("kept"), declare("replicated", x_queue_type="quorum"))
    driver.settle()
    for number in range(6):
        owner.publish(1, "kept", b"%d" % number)
        owner.publish(1, "replicated", b"%d" % number)
    driver.settle()
    before = alive()
    client = busy(driver)
    assert alive()["Channel"] == before["Channel"] + 3
    assert alive()["ProxyConsumer"] == before["ProxyConsumer"] + 2
    end(driver, client)
    driver.settle()
    assert client.is_closed or end in (by_loss, by_channel_close)
    client.connection.transport = None  # as a transport does that is lost
    driver.clients.remove(client)
    del client
    left = {kind: count - before[kind] for kind, count in alive().items() if count > before[kind]}
    assert not left


@pytest.mark.parametrize("said", [b"", b"AMQP", b"GET / HTTP/1.1", b"AMQP\x00\x00\x09\x01"])
def test_one_that_was_never_opened_goes_too(said: bytes) -> None:
    driver = NodeDriver()
    before = alive()
    client = driver.raw_client()
    client.send_octets(said)
    driver.wait(driver.config.handshake_timeout_ms + driver.config.closing_timeout_ms)
    assert client.is_closed
    client.connection.transport = None  # as a transport does that is lost
    driver.clients.clear()
    del client
    assert alive() == before


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": True}])
def test_a_refused_login_goes_too(capabilities: dict[str, bool]) -> None:
    driver = NodeDriver(small_config(login_backoff_ms=0))
    before = alive()
    client = driver.raw_client()
    properties = Table({"capabilities": capabilities})
    client.send_octets(b"AMQP\x00\x00\x09\x01")
    client.send(0, methods.ConnectionStartOk(properties, "PLAIN", b"\0nobody\0nothing", "en_US"))
    driver.wait(driver.config.closing_timeout_ms + driver.config.login_refusal_delay_ms)
    assert client.is_closed
    client.connection.transport = None  # as a transport does that is lost
    driver.clients.clear()
    del client
    assert alive() == before


def test_its_timers_go_with_it() -> None:
    driver = NodeDriver()
    timers = len(driver.node.timers)
    client = driver.client(1, heartbeat=10)
    assert len(driver.node.timers) == timers + 1
    driver.lose(client)
    assert len(driver.node.timers) == timers


def test_users_that_have_gone_leave_nothing_behind() -> None:
    """There is no end of names: a virtual host keeps routes of those who are there, and of some who were."""
    driver = NodeDriver(small_config(max_cached_routes=20))
    vhost = driver.node.broker.vhosts["/"]
    stays = driver.client(1)
    stays.send_octets(publish_octets(1, "nobody", b"x"))
    gc.collect()
    before = sum(type(each).__name__ == "RouteTable" for each in gc.get_objects())
    for number in range(100):
        name = f"user{number}"
        vhost.enter(name)
        if number % 2:
            route = vhost.route_to(vhost.router.get(""), [])
            vhost.remember_route(vhost.routes_of(name), b"\x00\x01%c" % number, route)
        vhost.leave(name)
    tables = [each for each in gc.get_objects() if type(each).__name__ == "RouteTable"]
    assert len(tables) <= before + 20
    assert vhost.connections == 1
    stays.send_octets(publish_octets(1, "nobody", b"x"))
    driver.lose(stays)
    assert vhost.connections == 0


def _ways(others: Collection[object] = ()) -> list[Any]:
    """Those of nodes that tests before have left among the others."""
    found = [each for each in gc.get_objects() if type(each).__name__ == "LetterRoute"]
    return [each for each in found if not any(each is other for other in others)]


def test_what_is_remembered_of_dead_letters_is_bounded_and_goes_with_its_queue() -> None:
    """By all queues' routing keys together, whatever their number."""
    others = _ways()
    driver = NodeDriver()
    client = driver.client(1)
    dead = {"x-dead-letter-exchange": "amq.direct", "x-max-length": 0}
    client.send(1, methods.ExchangeDeclare(exchange="all", type="fanout"))
    for number in range(20):
        name = f"q{number}"
        client.send(1, methods.QueueDeclare(queue=name, arguments=Table(dead)))
        driver.settle()
        client.send(1, methods.QueueBind(queue=name, exchange="all"))
        driver.settle()
    for number in range(1000):
        publish = encode_method_frame(1, methods.BasicPublish(0, "all", f"{number}", False, False))
        client.send_octets(publish + frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"))
        if not number % 100:
            driver.settle()
    driver.settle()
    gc.collect()
    assert 0 < sum(len(way.routes) for way in _ways(others)) <= 16_384
    assert len(_ways(others)) <= 20
    for number in range(20):
        client.send(1, methods.QueueDelete(queue=f"q{number}"))
        driver.settle()
    gc.collect()
    assert _ways(others) == []
