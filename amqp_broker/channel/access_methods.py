"""The access class, which AMQP 0-9-1 has dropped and old clients still use: always granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel.replies import Handler, reply
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def on_access_request(channel: Channel, method: methods.AccessRequest) -> None:
    """access.request: the ticket means nothing."""
    reply(channel, methods.AccessRequestOk(1))


HANDLERS: dict[int, Handler] = {c.ACCESS_REQUEST: on_access_request}
