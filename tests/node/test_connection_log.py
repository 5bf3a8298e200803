"""What the log says of connections: one line when one opens and one when it ends, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver
from tests.simulation.settings import PASSWORD, USER

WHO = f"connection 127.0.0.1:1000 -> 127.0.0.1:5672 (user '{USER}', vhost '/', name 'my app\\n')"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[tuple[int, str]]]:
    """(level, text) of the lines on connections; taken anew at each look."""
    with caplog.at_level(logging.INFO, "amqp_broker.connection"):
        yield Lines(caplog)


class Lines(list[tuple[int, str]]):
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        self._caplog = caplog

    def take(self) -> list[tuple[int, str]]:
        found = [(record.levelno, record.getMessage()) for record in self._caplog.records]
        self._caplog.clear()
        return found


def named(driver: NodeDriver, heartbeat: int = 0, password: str = PASSWORD) -> Client:
    """A client that gives itself a name."""
    client = driver.raw_client()
    properties = Table({"connection_name": "my app\n", "capabilities": {"authentication_failure_close": True}})
    said = (
        methods.ConnectionStartOk(properties, "PLAIN", f"\0{USER}\0{password}".encode(), "en_US"),
        methods.ConnectionTuneOk(100, 4096, heartbeat),
        methods.ConnectionOpen("/"),
    )
    client.send_octets(PROTOCOL_HEADER + b"".join(encode_method_frame(0, method) for method in said))
    driver.turn()
    return client


def test_one_that_is_closed_by_its_client(lines: Lines) -> None:
    driver = NodeDriver()
    client = named(driver)
    assert lines.take() == [(logging.INFO, f"{WHO} is open")]
    client.send(0, methods.ConnectionClose(200, "bye", 0, 0))
    driver.turn()
    assert lines.take() == [(logging.INFO, f"{WHO} ended: closed by the client")]
    assert not driver.node.clients.connections


def test_one_that_is_lost(lines: Lines) -> None:
    driver = NodeDriver()
    client = named(driver)
    lines.take()
    driver.lose(client)
    assert lines.take() == [(logging.INFO, f"{WHO} ended: the client closed the transport, or it was lost")]


def test_one_that_is_silent(lines: Lines) -> None:
    driver = NodeDriver()
    named(driver, heartbeat=2)
    lines.take()
    driver.wait(6000)
    ((level, text),) = lines.take()
    assert level == logging.WARNING
    assert text.startswith(f"{WHO} ended: no heartbeat for ")


def test_one_that_the_broker_closes(lines: Lines) -> None:
    driver = NodeDriver()
    client = named(driver)
    lines.take()
    client.send(9, methods.BasicQos(0, 1, False))
    driver.turn()
    client.send(0, methods.ConnectionCloseOk())
    driver.turn()
    why = "closed by the broker with 504 CHANNEL_ERROR - expected 'channel.open'"
    assert lines.take() == [(logging.WARNING, f"{WHO} ended: {why}")]


def test_a_shutdown_is_no_warning(lines: Lines) -> None:
    driver = NodeDriver()
    named(driver)
    lines.take()
    driver.node.shut_down(driver.now)
    driver.turn()
    ((level, text),) = lines.take()
    assert level == logging.INFO
    assert text.startswith(f"{WHO} ended: closed by the broker with 320 CONNECTION_FORCED")


def test_a_refused_login_says_who_and_why(lines: Lines) -> None:
    driver = NodeDriver()
    named(driver, password="wrong")
    driver.turn()
    (login, end) = lines.take()
    assert login[1].startswith("login from 127.0.0.1:1000 -> 127.0.0.1:5672 refused: ")
    assert USER in login[1]
    assert "ended: closed by the broker with 403 ACCESS_REFUSED - Login was refused" in end[1]
    assert {login[0], end[0]} == {logging.WARNING}


def test_who_only_looks_whether_somebody_listens_is_not_worth_a_line(lines: Lines) -> None:
    driver = NodeDriver()
    driver.lose(driver.raw_client())
    assert lines.take() == []
