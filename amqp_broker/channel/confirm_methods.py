"""The confirm class: publisher confirms (RabbitMQ's extension)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel.replies import Handler, reply
from amqp_broker.errors import precondition_failed
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def on_confirm_select(channel: Channel, method: methods.ConfirmSelect) -> None:
    """confirm.select: from now on every publish is numbered, from 1, and confirmed."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    channel.is_confirming = True
    if not method.nowait:
        reply(channel, methods.ConfirmSelectOk())


HANDLERS: dict[int, Handler] = {c.CONFIRM_SELECT: on_confirm_select}
