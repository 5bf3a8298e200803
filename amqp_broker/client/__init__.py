"""A small blocking AMQP 0-9-1 client: what this project's own tools and tests talk to a broker with.

    with Connection.open("amqp://guest:guest@localhost") as connection, connection.channel() as channel:
        channel.publish("", "orders", b"...", {"delivery_mode": 2})

It knows nothing of our broker and works with any. It stands on the standard library and the protocol package
alone, and imports `ssl` only for a TLS connection: it is loaded into the test processes of other projects.
"""

from __future__ import annotations

from amqp_broker.client.channel import Channel
from amqp_broker.client.connection import Connection
from amqp_broker.client.consumer import Consumer
from amqp_broker.client.errors import (
    ChannelClosed,
    ClientError,
    ClientTimeout,
    ConnectFailed,
    ConnectionClosed,
    ConsumerCancelled,
    Unroutable,
)
from amqp_broker.client.messages import Delivery, ReturnedMessage

__all__ = [
    "Channel",
    "ChannelClosed",
    "ClientError",
    "ClientTimeout",
    "ConnectFailed",
    "Connection",
    "ConnectionClosed",
    "Consumer",
    "ConsumerCancelled",
    "Delivery",
    "ReturnedMessage",
    "Unroutable",
]
