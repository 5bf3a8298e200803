"""The handlers of all methods that a client may send on an open channel, by method index; one line for each module."""

from __future__ import annotations

from amqp_broker.channel import (
    access_methods,
    basic_methods,
    channel_methods,
    confirm_methods,
    exchange_methods,
    queue_methods,
    tx_methods,
)
from amqp_broker.channel.replies import Handler

HANDLERS: dict[int, Handler] = {
    **access_methods.HANDLERS,
    **basic_methods.HANDLERS,
    **channel_methods.HANDLERS,
    **confirm_methods.HANDLERS,
    **exchange_methods.HANDLERS,
    **queue_methods.HANDLERS,
    **tx_methods.HANDLERS,
}
