"""Messages that wait before an exchange, and the keys of their blind copies."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.links import levels
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets


def publish(client: Client, headers: dict[str, object]) -> None:
    section = encode_properties({"delivery_mode": 2, "headers": Table(headers)})
    octets = encode_method_frame(1, methods.BasicPublish(0, "later", "first", False, False))
    client.send_octets(octets + frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + section))


def headers_in(driver: NodeDriver, client: Client, queue: str) -> list[Any]:
    found = []
    while driver.queue(queue).message_count():
        client.send(1, methods.BasicGet(0, queue, True))
        driver.settle()
        (event,) = client.take()
        found.append(dict(decode_properties(event.properties).headers or {}))
    return found


def test_blind_copies_count_when_all_members_know_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of the version before would show them to who gets the message."""
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver = NodeDriver()
    client = driver.client(1)
    kind = Table({"x-delayed-type": "direct"})
    client.send(1, methods.ExchangeDeclare(0, "later", "x-delayed-message", False, True, False, False, False, kind))
    driver.settle()
    for name in ("first", "blind"):
        client.send(1, declare(name), methods.QueueBind(0, name, "later", name, False, Table({})))
        driver.settle()
    client.take()
    for level, copies in ((1, 0), (2, 1)):
        if level == 2:
            driver.node.broker.propose(commands.raise_level(2))
            driver.settle()
        publish(client, {"x-delay": 5, "BCC": ["blind"]})
        driver.wait(100)
        assert headers_in(driver, client, "first") == [{"x-delay": -5}]
        assert headers_in(driver, client, "blind") == [{"x-delay": -5}] * copies
