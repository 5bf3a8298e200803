"""SystemService: a client of a driven node that asks `amq.system`."""

from __future__ import annotations

import json
from typing import Any

from amqp_broker.auth.session import TOOL_NAME
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import PASSWORD, PROTOCOL_HEADER, USER, Client, NodeDriver, consume, frame_octets

REPLY_TO = "amq.rabbitmq.reply-to"


def tool(driver: NodeDriver, user: str = USER, name: str = TOOL_NAME) -> Client:
    """A connection that calls itself as the command line does, or so."""
    client = driver.raw_client()
    said = (
        methods.ConnectionStartOk(Table({"connection_name": name}), "PLAIN", f"\0{user}\0{PASSWORD}".encode(), "en_US"),
        methods.ConnectionTuneOk(100, 4096, 0),
        methods.ConnectionOpen("/"),
    )
    client.send_octets(PROTOCOL_HEADER + b"".join(encode_method_frame(0, method) for method in said))
    driver.settle()
    return client


class SystemService:
    """On a connection of an administrator's, or on the one that is given, where no channel is open yet."""

    def __init__(self, driver: NodeDriver, client: Client | None = None) -> None:
        self._driver = driver
        self.client: Client = client or driver.client()
        self.client.send(1, methods.ChannelOpen())
        self.client.send(1, consume(REPLY_TO, no_ack=True))
        driver.settle()
        self.client.take()

    def send(self, verb: str, body: bytes) -> None:
        """Ask, without a turn."""
        section = encode_properties({"reply_to": REPLY_TO})
        octets = encode_method_frame(1, methods.BasicPublish(0, "amq.system", verb, False, False))
        octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        for start in range(0, len(body), 4088):
            octets += frame_octets(3, 1, body[start : start + 4088])
        self.client.send_octets(octets)

    def answers(self) -> list[dict[str, Any]]:
        """The answers heard so far."""
        return [json.loads(event.body) for event in self.client.take() if event.body]

    def ask(self, verb: str, **fields: object) -> dict[str, Any]:
        """The answer, as soon as all is at rest."""
        return self.ask_octets(verb, json.dumps(fields).encode())

    def ask_octets(self, verb: str, body: bytes) -> dict[str, Any]:
        """The same for a body that may be anything."""
        self.send(verb, body)
        self._driver.settle()
        (answer,) = self.answers()
        return answer
