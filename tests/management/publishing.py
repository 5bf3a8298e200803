"""Messages with properties, published where a test wants them."""

from __future__ import annotations

from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from tests.node.node_driver import Client, frame_octets


def publish(
    client: Client,
    exchange: str,
    routing_key: str,
    body: bytes = b"",
    *,
    channel: int = 1,
    mandatory: bool = False,
    **properties: object,
) -> None:
    """basic.publish with its content."""
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(properties)
    octets = encode_method_frame(channel, methods.BasicPublish(0, exchange, routing_key, mandatory, False))
    octets += frame_octets(2, channel, header)
    if body:
        octets += frame_octets(3, channel, body)
    client.send_octets(octets)
