"""How a handler answers: at once, or when what it did is on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def reply(channel: Channel, method: Any) -> None:
    """Put a method into the output."""
    channel.output.put_frame(1, channel.channel_id, methods.encode_method(method))
    channel.connection.touch()


def reply_when_synced(channel: Channel, ticket: int, method: Any, no_wait: bool = False) -> None:
    """Answer once everything up to `ticket` is on the disk (0: now). The connection's other frames wait until then, so
    that the order of its answers is kept."""
    if ticket:

        def answer() -> None:
            if channel.is_open and not channel.is_closing and not no_wait:
                reply(channel, method)

        channel.connection.node.park(channel.connection, ticket, answer)
    elif not no_wait:
        reply(channel, method)
