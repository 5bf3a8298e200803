"""The channel class, but for channel.open (connection/control.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.channel.lifecycle import close_channel
from amqp_broker.channel.replies import Handler, reply
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel


def on_channel_flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """channel.flow (AMQP 0-9-1 §1.5.2.3): the client stops and starts deliveries on this channel."""
    channel.is_flowing = method.active
    reply(channel, methods.ChannelFlowOk(method.active))
    if method.active:
        channel.revive_all()


def on_channel_flow_ok(channel: Channel, method: methods.ChannelFlowOk) -> None:
    """The broker never asks for flow, so an answer to it means nothing."""


def on_channel_close(channel: Channel, method: methods.ChannelClose) -> None:
    """channel.close from the client; its connection waits until all is given back."""

    def answer() -> None:
        channel.is_open = False
        reply(channel, methods.ChannelCloseOk())

    # What it has done is counted as that of a closed one from here on: it is not to be counted, or closed, once more.
    channel.connection.forget_channel(channel.channel_id)
    close_channel(channel, "channel.close", answer)


HANDLERS: dict[int, Handler] = {
    c.CHANNEL_FLOW: on_channel_flow,
    c.CHANNEL_FLOW_OK: on_channel_flow_ok,
    c.CHANNEL_CLOSE: on_channel_close,
}
