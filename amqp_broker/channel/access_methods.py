"""The access class, which AMQP 0-9-1 has dropped and old clients still use: always granted."""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.replies import reply
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods


def on_access_request(channel: Any, method: Any) -> None:
    """access.request: the ticket means nothing."""
    reply(channel, methods.AccessRequestOk(1))


HANDLERS = {c.ACCESS_REQUEST: on_access_request}
