"""What docs/compatibility.md says is not there is not there: each row is asked of a broker, and one that has come true
fails here, so that the page is changed."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import pytest

from amqp_broker import RunningBroker, running
from amqp_broker.client import Connection
from amqp_broker.client.errors import ConnectionClosed
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.system_client import SystemClient
from tests.conformance.wire import Address
from tests.conformance.wire import Connection as WireConnection
from tests.docs.source_names import DOCS

_HEADER = b"AMQP\0\0\x09\x01"


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running() as made:
        yield made


def rows() -> list[str]:
    page = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    table = page.split("## What there is not\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    assert found[0] == "what"
    return [row for row in found[1:] if not row.startswith("---")]


def refused_with(broker: RunningBroker, code: int, *said: object) -> bool:
    """Whether the last of these methods ends the connection with this code."""
    try:
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            for method in said:
                channel.call(method)  # type: ignore[arg-type]
    except ConnectionClosed as error:
        return error.reply_code == code
    return False


def answered_with_0_9_1(broker: RunningBroker, octets: bytes) -> bool:
    """Whether a transport that begins so is told what is spoken here, and closed."""
    with socket.create_connection((broker.host, broker.port), timeout=10) as sock:
        sock.sendall(octets)
        said = b""
        while chunk := sock.recv(4096):
            said += chunk
    return said == _HEADER


def has_no_amqp_1(broker: RunningBroker) -> bool:
    return answered_with_0_9_1(broker, b"AMQP\0\1\0\0") and answered_with_0_9_1(broker, b"AMQP\3\1\0\0")


def has_no_mqtt_and_stomp(broker: RunningBroker) -> bool:
    mqtt = b"\x10\x10\0\4MQTT\4\2\0\x3c\0\4test"
    return answered_with_0_9_1(broker, mqtt) and answered_with_0_9_1(broker, b"CONNECT\nhost:/\n\n\0")


def has_no_stream_protocol(broker: RunningBroker) -> bool:
    peer_properties = b"\0\0\0\x0c\0\x11\0\1\0\0\0\1\0\0\0\0"
    return answered_with_0_9_1(broker, peer_properties)


def has_no_tracing(broker: RunningBroker) -> bool:
    with SystemClient(broker.url) as system:
        definitions = {"vhosts": [{"name": "/", "tracing": True}]}
        system.request("definitions.import", definitions=definitions)
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.call(m.QueueDeclare(0, "traced", False, False, True, False, False, Table()))
        channel.call(m.QueueBind(0, "traced", "amq.rabbitmq.trace", "#", False, Table()))
        channel.confirm_select()
        channel.publish("amq.direct", "key", b"m")
        channel.wait_for_confirms()
        return channel.get("traced", no_ack=True) is None


def has_no_shovels(broker: RunningBroker) -> bool:
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        for queue in ("from", "to"):
            channel.call(m.QueueDeclare(0, queue, False, True, False, False, False, Table()))
    value = {"src-protocol": "amqp091", "src-queue": "from", "src-uri": "amqp://", "dest-queue": "to"}
    shovel = {"vhost": "/", "component": "shovel", "name": "s", "value": {**value, "dest-uri": "amqp://"}}
    with SystemClient(broker.url) as system:
        system.request("definitions.import", definitions={"parameters": [shovel]})
        return all(queue["consumers"] == 0 for queue in system.request("queue.list", vhost="/")["queues"])


def has_no_anonymous(broker: RunningBroker) -> bool:
    with socket.create_connection((broker.host, broker.port), timeout=10) as sock:
        sock.sendall(_HEADER)
        start = sock.recv(65536)
    return b"\0\0\0\x0ePLAIN AMQPLAIN" in start


def has_no_immediate(broker: RunningBroker) -> bool:
    channel = WireConnection(Address(broker.host, broker.port, "guest", "guest", "/")).open().channel()
    channel.publish("", "anywhere", b"now", immediate=True)
    channel.connection.expect_close(540, "NOT_IMPLEMENTED - immediate=true", by="basic.publish")
    return True


PROBES: dict[str, Callable[[RunningBroker], bool]] = {
    "AMQP 1.0": has_no_amqp_1,
    "MQTT and STOMP": has_no_mqtt_and_stomp,
    "RabbitMQ's stream protocol (streams are read by AMQP)": has_no_stream_protocol,
    "Message tracing": has_no_tracing,
    "Shovels and federation": has_no_shovels,
    "SASL `ANONYMOUS`, and challenges of `connection.secure`": has_no_anonymous,
    "`immediate`": has_no_immediate,
    "A prefetch by octets": lambda broker: refused_with(broker, 540, m.BasicQos(1000, 0, False)),
    "`basic.recover` without requeueing": lambda broker: refused_with(broker, 540, m.BasicRecover(False)),
}


def test_the_page_has_these_rows() -> None:
    assert rows() == list(PROBES)


def test_no_other_page_has_such_a_table() -> None:
    """One that nobody asks a broker about says for ever what was missing once."""
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "compatibility.md"]
    heading = re.compile(r"^#+ .*(there yet|there is not|missing)", re.MULTILINE | re.IGNORECASE)
    assert [page.name for page in pages if heading.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("row", PROBES)
def test_it_is_not_there(broker: RunningBroker, row: str) -> None:
    assert PROBES[row](broker), f"{row!r} has come true: take the row out of docs/compatibility.md"
