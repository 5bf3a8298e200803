"""Fixtures of the conformance suite: the broker, raw connections in both ways of sending, names of one's own.

Marks: `holds("queue.declare: passive, missing -> 404")` says which behaviour a test holds (holds_table.py
makes the table of them); `ours_only("reason")` is a behaviour that was decided otherwise than RabbitMQ 3.10
does it; `one_process("reason")` is not so where AMQP_BROKER_WORKERS in the environment has the broker be
several processes (docs/scale.md); `octets_too_slow` leaves out the run that sends octet by octet, for tests
that move megabytes or wait for clocks.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interop_tests.administration import Administrator, administrator
from interop_tests.broker_under_test import (
    BrokerUnderTest,
    Restartable,
    Unavailable,
    broker_under_test,
    restartable_broker,
)
from tests.conformance.wire import Address, Connection, Sends, parse_url
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "holds(behaviour): the behaviour of the protocol that this test holds")
    config.addinivalue_line("markers", "ours_only(reason): decided otherwise than RabbitMQ 3.10 does it")
    config.addinivalue_line("markers", "one_process(reason): not so where the node is several (AMQP_BROKER_WORKERS)")
    config.addinivalue_line("markers", "octets_too_slow: not repeated with octet by octet sending")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sends" in metafunc.fixturenames:
        slow = metafunc.definition.get_closest_marker("octets_too_slow") is not None
        ways = [Sends.PIPELINED] if slow else list(Sends)
        metafunc.parametrize("sends", ways, ids=lambda way: way.value)


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerUnderTest]:
    with broker_under_test() as found:
        yield found


@pytest.fixture(scope="session")
def broker_url(broker: BrokerUnderTest) -> str:
    return broker.url


@pytest.fixture(scope="session")
def address(broker_url: str) -> Address:
    return parse_url(broker_url)


@pytest.fixture(scope="session")
def vhost(address: Address) -> str:
    return address.vhost


@pytest.fixture(autouse=True)
def _only_ours(request: pytest.FixtureRequest, broker: BrokerUnderTest) -> None:
    mark = request.node.get_closest_marker("ours_only")
    if mark is not None and broker.is_rabbitmq:
        pytest.skip(f"RabbitMQ 3.10 differs: {mark.args[0]}")
    mark = request.node.get_closest_marker("one_process")
    if mark is not None and os.environ.get("AMQP_BROKER_WORKERS", "1") != "1":
        pytest.skip(f"several workers: {mark.args[0]}")


@pytest.fixture
def dial(address: Address, sends: Sends, named: Named) -> Iterator[Callable[[], Connection]]:
    """Opens transports that have said nothing yet; all are dropped after the test, and before its names are
    deleted.
    """
    connections: list[Connection] = []

    def opened() -> Connection:
        connections.append(Connection(address, sends))
        return connections[-1]

    yield opened
    for connection in connections:
        connection.drop()


@pytest.fixture
def connect(dial: Callable[[], Connection]) -> Connect:
    """Opens connections with their handshake done; takes what Connection.open takes."""

    def connected(**options: Any) -> Connection:
        return dial().open(**options)

    return connected


@pytest.fixture
def connection(connect: Connect) -> Connection:
    return connect()


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()


@pytest.fixture
def named(address: Address) -> Iterator[Named]:
    """Makes names that no other test uses; queues and exchanges of these names are gone after the test."""
    names: list[str] = []

    def made(stem: str) -> str:
        names.append(f"{stem}-{uuid.uuid4().hex[:12]}")
        return names[-1]

    yield made
    if names:
        connection = Connection(address).open()
        for name in reversed(names):  # what is made of a stream before the stream
            # a channel each, without answers: an exclusive queue may still be somebody's, and goes by itself
            connection.channel().send("queue.delete", queue=name, nowait=True)
            connection.channel().send("exchange.delete", exchange=name, nowait=True)
        connection.close()


@pytest.fixture(scope="session")
def admin(broker: BrokerUnderTest) -> Administrator:
    """Skips every test that asks for it where RabbitMQ cannot be administered from here."""
    try:
        return administrator(broker)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def restartable() -> Iterator[Restartable]:
    try:
        with restartable_broker() as found:
            yield found
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def dialled(restartable: Restartable) -> Iterator[Callable[[], Connection]]:
    """Connects to the restartable broker, again and again."""
    connections: list[Connection] = []

    def opened() -> Connection:
        connections.append(Connection(parse_url(restartable.url)).open())
        return connections[-1]

    yield opened
    for connection in connections:
        connection.drop()
