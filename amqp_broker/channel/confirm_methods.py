"""The confirm class: publisher confirms (RabbitMQ's extension)."""

from __future__ import annotations

from typing import Any

from amqp_broker.channel.replies import reply
from amqp_broker.errors import precondition_failed
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods


def on_confirm_select(channel: Any, method: Any) -> None:
    """confirm.select: from now on every publish is numbered, from 1, and confirmed."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    channel.is_confirming = True
    if not method.nowait:
        reply(channel, methods.ConfirmSelectOk())


HANDLERS = {c.CONFIRM_SELECT: on_confirm_select}
